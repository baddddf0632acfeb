"""Jobs in Python of which one line becomes slow: the chain names the line at which the job itself says that it is."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import gpustall_standin as standin
from exporter.causes import Cause
from exporter.python.call_site import LINES
from tests.support.exporter_process import COMMAND, running
from tests.support.interpreters import interpreters
from tests.support.patience import PATIENCE_SECONDS
from tests.support.priority import high_priority
from tests.support.requirements import need_tracing
from tests.support.standin_gpu import built
from tests.support.traced import eventually

pytestmark = [pytest.mark.end_to_end, pytest.mark.soak]
PROGRAM = Path(__file__).with_name("python_faults.py")
PYTHON = Path("/usr/bin/python3")
AT_A_TIME = 2
RIGHT_SHARE = 0.95
FAULTS = (
    *("slow-malloc", "slow-free", "slow-copy", "slow-launch", "stuck", "computing", "garbage", "sleeping", "locked"),
    *("queued", "piped", "pooled", "child", "peer", "saved", "loaded-by-workers", "loaded-by-itself"),
)
"""Beside each other; the one that takes a CPU from its job is alone."""
ALONE = "contended"
OF_OTHER_VERSIONS = {"3.9": "slow-malloc", "3.10": "locked", "3.12": "queued", "3.13": "computing", "3.14": "sleeping"}
OWN_LINE = re.compile(r"(\S+) \(\S*python_faults\.py:(\d+)\)")


class Line(NamedTuple):
    """A line of the job's program. function: without its class."""

    function: str
    number: int


class Episode(NamedTuple):
    """truth: what the job reports. named: the first line of its program in the evidence of its worst chain, if there is one."""

    fault: str
    python: Path
    truth: Line
    named: Line | None


def worst_chain(history: Path, pid: int) -> dict[str, Any] | None:
    """The worst chain of a process, as `explain` has it now."""
    command = (*COMMAND, "explain", f"--history.path={history}", f"--workload=pid={pid}", "--since=2m", "--format=json")
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)
    chains: list[dict[str, Any]] = json.loads(done.stdout)["chains"] if done.returncode == 0 else []
    return chains[0] if chains else None


def evidence_of(history: Path, pid: int) -> str:
    """The evidence of its worst chain, when the lines with the most time are known; of one that is stuck, where it is."""
    chain = worst_chain(history, pid)
    if chain is None or not (chain["evidence"][:1] == [LINES] or chain["cause"] == Cause.STALLED):
        return ""
    return "\n".join(chain["evidence"])


def named_line(text: str) -> Line | None:
    found = OWN_LINE.search(text)
    return Line(found[1].rpartition(".")[2], int(found[2])) if found else None


def played(history: Path, fault: str, python: Path, folder: Path) -> Episode:
    """Runs a job until its chain has evidence."""
    with high_priority():
        job = subprocess.Popen(
            [python, PROGRAM, fault],
            env=standin.environment(),
            cwd=folder,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
    try:
        assert job.stdout is not None
        truth = json.loads(job.stdout.readline())
        text = ""
        with suppress(AssertionError):  # counts as one that names no line
            text = eventually(lambda: evidence_of(history, job.pid), f"evidence of {fault}")
    finally:
        os.killpg(job.pid, signal.SIGKILL)  # with its workers
        job.communicate()
    return Episode(fault, python, Line(truth["function"], truth["line"]), named_line(text))


def others() -> list[tuple[str, Path]]:
    """A fault for each other version of Python that is on this machine."""
    known = [(name.rpartition("-")[2], path) for name, path in interpreters()]
    found = {
        wanted: (fault, path)
        for wanted, fault in OF_OTHER_VERSIONS.items()
        for version, path in known
        if version.startswith(f"{wanted}.")
    }
    return list(found.values())


class TestLines:
    @pytest.mark.timeout(1200)
    def test_nineteen_of_twenty_chains_name_the_right_line(self, tmp_path: Path) -> None:
        """Slow and stuck calls, locks, own code, threads, processes, pipes, sockets, files, garbage, and PyTorch's DataLoader."""
        need_tracing()
        built()
        history = tmp_path / "history" / "history.sqlite"
        jobs = [*((fault, PYTHON) for fault in FAULTS), *others()]
        with (
            running(f"--history.path={history}", "--recording.directory=none"),
            ThreadPoolExecutor(AT_A_TIME) as threads,
        ):
            episodes = list(threads.map(lambda job: played(history, *job, tmp_path), jobs))
            episodes.append(played(history, ALONE, PYTHON, tmp_path))
        wrong = [one for one in episodes if one.named != one.truth]
        print(f"{len(episodes) - len(wrong)} of {len(episodes)} chains name the right line; others: {wrong}")

        assert len(episodes) >= 18
        assert len(wrong) <= (1 - RIGHT_SHARE) * len(episodes)
