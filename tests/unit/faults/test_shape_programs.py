"""What the programs of shapes do with FAULT_FILE. They have no package: their folder is on the path of their interpreter."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

import pytest

from tests.faults.shapes.shape import PROGRAMS


@dataclass
class FakeSteps:
    """Steps of 10 ms."""

    rank: int = 0
    seed: int = 1
    number: int = 0
    has_fault: bool = False
    usual_seconds: float = 0.010


@dataclass
class FakeGpu:
    """A GPU on which nothing runs."""

    busy_ns: int = 0
    scale: float = 1.0
    slowdowns: list[float] = field(default_factory=list)

    def slow_down(self, factor: float) -> None:
        self.slowdowns.append(factor)


@pytest.fixture
def inside(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModuleType:
    """The module, with a FAULT_FILE that does not exist yet."""
    monkeypatch.syspath_prepend(str(PROGRAMS))
    monkeypatch.setenv("FAULT_FILE", str(tmp_path / "fault.json"))
    import inside as module  # type: ignore[import-not-found]

    return module


def switch_on(folder: Path, kind: str, share: float = 0.5, rank: int = 0) -> None:
    (folder / "fault.json").write_text(json.dumps({"kind": kind, "share": share, "rank": rank}), encoding="ascii")


class TestUsual:
    """The usual length of a step, in processes that the job starts."""

    def test_a_started_process_reads_what_the_job_knows(self, tmp_path: Path) -> None:
        """One step of 20 ms, or a little more. The job has a process of its own: it ends at SIGTERM."""
        reader = "import steps, sys; print(steps.Usual(sys.argv[1]).usual_seconds)"
        job = f"""
import steps, subprocess, sys, time
own = steps.Steps()
own.add(time.monotonic_ns() - 20_000_000)
print(own.usual_seconds, flush=True)
subprocess.run([sys.executable, "-c", {reader!r}, own.usual_file], check=True)
"""
        line = [sys.executable, "-c", job]
        environment = {**os.environ, "STEP_LOG": str(tmp_path / "steps.jsonl")}
        done = subprocess.run(line, cwd=PROGRAMS, env=environment, capture_output=True, text=True, check=True)
        known, read = map(float, done.stdout.split())

        assert known >= 0.020
        assert read == known


class TestFaultFile:
    """What is on for a rank."""

    def test_a_fault_is_that_of_its_rank(self, inside: ModuleType, tmp_path: Path) -> None:
        switch_on(tmp_path, "sleep", rank=1)

        assert inside.read_fault(tmp_path / "fault.json", 0) is None
        assert inside.read_fault(tmp_path / "fault.json", 1) == {"kind": "sleep", "share": 0.5, "rank": 1}

    def test_a_decoy_is_that_of_all_ranks(self, inside: ModuleType, tmp_path: Path) -> None:
        switch_on(tmp_path, "batch-size", rank=1)

        assert inside.read_fault(tmp_path / "fault.json", 0) == {"kind": "batch-size", "share": 0.5, "rank": 1}

    @pytest.mark.parametrize("text", [None, "", '{"kind": "sl'])
    def test_no_file_and_half_a_file_are_no_fault(self, inside: ModuleType, tmp_path: Path, text: str | None) -> None:
        if text is not None:
            (tmp_path / "fault.json").write_text(text, encoding="ascii")

        assert inside.read_fault(tmp_path / "fault.json", 0) is None


class TestClients:
    """How often the requests of a server come."""

    @pytest.mark.parametrize(("kind", "seconds"), [("fewer-requests", 0.2), ("more-requests", 0.05), ("sleep", 0.1)])
    def test_time_between_requests_follows_their_number(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kind: str, seconds: float
    ) -> None:
        """Usually 0.1 s: half as many requests come after 0.2 s each, twice as many after 0.05 s."""
        monkeypatch.syspath_prepend(str(PROGRAMS))
        monkeypatch.setenv("FAULT_FILE", str(tmp_path / "fault.json"))
        import clients  # type: ignore[import-not-found]

        switch_on(tmp_path, kind, share=1.0)

        assert clients.spaced(0.1) == pytest.approx(seconds)


class TestInside:
    """What look() does at the start of a step."""

    def test_a_slow_gpu_makes_the_step_longer_by_the_share(self, inside: ModuleType, tmp_path: Path) -> None:
        """20 steps of 10 ms with 5 ms of kernels: half a step more is another 5 ms, so the GPU takes twice as long."""
        steps, gpu = FakeSteps(), FakeGpu()
        watched = inside.Inside(steps, gpu)
        watched.look()
        steps.number, gpu.busy_ns = 20, 100_000_000
        watched.look()
        switch_on(tmp_path, "slow-gpu")
        watched.look()

        assert gpu.slowdowns[-1] == pytest.approx(2.0)
        assert steps.has_fault

    def test_a_larger_batch_has_longer_kernels(self, inside: ModuleType, tmp_path: Path) -> None:
        """By the same arithmetic: a quarter of a step more is half of the kernels' time."""
        steps, gpu = FakeSteps(number=20), FakeGpu(busy_ns=100_000_000)
        watched = inside.Inside(steps, gpu)
        watched.look()
        switch_on(tmp_path, "batch-size", share=0.25)
        watched.look()

        assert gpu.scale == pytest.approx(1.5)

    def test_all_is_as_before_when_the_file_is_gone(self, inside: ModuleType, tmp_path: Path) -> None:
        steps, gpu = FakeSteps(number=20), FakeGpu(busy_ns=100_000_000)
        watched = inside.Inside(steps, gpu)
        watched.look()
        switch_on(tmp_path, "batch-size")
        watched.look()
        (tmp_path / "fault.json").unlink()
        watched.look()

        assert (gpu.scale, gpu.slowdowns[-1], watched.kind, steps.has_fault) == (1.0, 1.0, "", False)

    def test_the_fault_of_another_rank_changes_nothing_but_the_usual(self, inside: ModuleType, tmp_path: Path) -> None:
        """Steps of this rank take longer as well, so they are not counted as usual ones."""
        steps, gpu = FakeSteps(), FakeGpu()
        watched = inside.Inside(steps, gpu)
        switch_on(tmp_path, "sleep", rank=1)
        watched.look()

        assert (watched.kind, steps.has_fault) == ("", True)
