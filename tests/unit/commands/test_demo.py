"""commands.demo: what is shown, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from exporter.__main__ import main
from exporter.demo.scenarios import SCENARIOS

ALL = pytest.mark.parametrize("name", SCENARIOS)

TOLD = {
    "incident": ("chain opened: dataloader", "chain opened: cpu_contention"),
    "cold-start": (),
    "memcpy-bottleneck": ("chain opened: pageable_copy",),
    "periodic-spike": ("chain opened: cpu_contention",),
    "cpu-contention": ("chain opened: cpu_contention",),
    "gpu-steal": ("chain opened: not_host",),
    "dataloader": ("chain opened: dataloader",),
    "straggler": ("chain opened: slow_rank", "chain opened: peer_rank"),
    "hang": ("chain opened: nccl_hang",),
}
"""What the engine must say of each recorded scenario, and nothing else."""


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """By a command that succeeds."""
    assert main(["demo", *arguments]) == 0
    return capsys.readouterr().out


class TestReplay:
    """Of the runs that are shipped. Rows that programs of the kernel have written, through the engine."""

    @ALL
    def test_engine_says_what_is_wrong(self, name: str, capsys: pytest.CaptureFixture[str]) -> None:
        """One chain for each thing, and none for a warm-up."""
        told = printed(capsys, name, "--replay")
        opened = [line for line in told.splitlines() if "chain opened" in line]

        assert len(opened) == len(TOLD[name])
        assert all(any(wanted in line for line in opened) for wanted in TOLD[name])

    @ALL
    def test_it_says_that_it_is_recorded(self, name: str, capsys: pytest.CaptureFixture[str]) -> None:
        """Nobody takes it for this machine."""
        assert printed(capsys, name, "--replay").splitlines()[1].startswith("A run that was recorded")

    def test_neighbours_are_named(self, capsys: pytest.CaptureFixture[str]) -> None:
        """By the explanation that it ends with."""
        assert "noisy-neighbour" in printed(capsys, "cpu-contention", "--replay")

    def test_capsule_by_its_path(self, capsys: pytest.CaptureFixture[str]) -> None:
        """As the exporter writes them."""
        told = printed(capsys, f"--replay={SCENARIOS['dataloader'].recording}")

        assert told.startswith("The recorded rows of dataloader.capsule")

    def test_json_is_all_that_is_printed(self, capsys: pytest.CaptureFixture[str]) -> None:
        """The rest goes to standard error."""
        assert main(["demo", "hang", "--replay", "--format=json"]) == 0
        printed = capsys.readouterr()

        assert json.loads(printed.out)["status"] == "slow"
        assert "never comes" in printed.err


class TestRefusal:
    """One line each, and exit code 2."""

    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            (["nonsense"], "no scenario is called 'nonsense'; there are incident, cold-start"),
            (["--duration=5s"], "--duration: '5s': want 22s to 55s"),
            (["--duration=soon"], "--duration: 'soon': want a positive duration"),
            (["hang", "--replay=/nonexistent"], "--replay CAPSULE and scenario do not go together"),
            (["--replay=/nonexistent"], "cannot read /nonexistent: No such file"),
            (["hang", "incident", "--save=x"], "--save keeps one run"),
        ],
    )
    def test_bad_usage(self, arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
        """That names what is wrong."""
        assert main(["demo", *arguments]) == 2
        assert words in capsys.readouterr().err

    def test_capsule_that_was_edited(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """By `explain` as well."""
        raw = SCENARIOS["hang"].recording.read_bytes()
        path = tmp_path / "edited.capsule"
        path.write_bytes(raw[:-10] + bytes(10))

        assert main(["demo", f"--replay={path}"]) == 2
        assert main(["explain", f"--capsule={path}"]) == 2
        assert capsys.readouterr().err.count("was edited or damaged") == 2
