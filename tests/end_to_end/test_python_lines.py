"""Jobs in Python whose calls become slow, or hang, or whose requests come late: log, explain, top, recordings name the lines."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import gpustall_standin as standin
from tests.support.exporter_process import COMMAND, Exporter, running
from tests.support.interpreters import of_version
from tests.support.priority import high_priority
from tests.support.requirements import need_tracing
from tests.support.standin_gpu import built
from tests.support.traced import eventually

pytestmark = [pytest.mark.end_to_end, pytest.mark.acceptance]
PROGRAM = Path(__file__).with_name("python_job.py")
NAME = PROGRAM.name
PYTHON = "/usr/bin/python3"
LEAST_SECONDS = 0.015
"""A slow allocation: it takes 20 ms from 15 s on."""


def line_of(text: str) -> int:
    """Number of the line of the job's program that has this text."""
    lines = PROGRAM.read_text(encoding="utf-8").splitlines()
    return next(number for number, line in enumerate(lines, 1) if text in line)


class Job(NamedTuple):
    """A running python_job.py, and the exporter that traces it. The fault begins when the job has run for 15 s."""

    exporter: Exporter
    pid: int

    def evidence(self, wanted: str) -> str:
        """The evidence of the job's chain that has `wanted` in it."""

        def found() -> str | None:
            for line in self.exporter.logs.splitlines():
                evidence = re.search(r'evidence="(.*?)(?<!\\)"', line)
                if evidence and f" pid={self.pid} " in line and wanted in evidence[1]:
                    return evidence[1]
            return None

        return eventually(found, f"evidence with {wanted}")


class Jobs(NamedTuple):
    """One for each fault, all at once: each is calm for 15 s."""

    slow: Job
    stuck: Job
    stuck_task: Job
    slow_requests: Job
    history: Path


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Jobs]:
    """Tests do not change them. The program is in the working directory of the jobs."""
    need_tracing()
    built()
    newest = str(of_version("3.14")[1])
    pythons = {"slow": PYTHON, "stuck": PYTHON, "stuck_task": newest, "slow_requests": newest}
    history = tmp_path_factory.mktemp("history") / "history.sqlite"
    with running(f"--history.path={history}") as exporter, ExitStack() as stack:
        with high_priority():
            started = [
                subprocess.Popen([python, PROGRAM, fault], env=standin.environment(), cwd=PROGRAM.parent)
                for fault, python in pythons.items()
            ]
        for job in started:
            stack.callback(job.wait)
            stack.callback(job.kill)
        yield Jobs(*(Job(exporter, job.pid) for job in started), history)


class TestLines:
    def test_slow_calls_are_named_by_line(self, jobs: Jobs) -> None:
        """Each step allocates, and each allocation takes 20 ms instead of microseconds."""
        evidence = jobs.slow.evidence("cudaMalloc")

        assert evidence.startswith("lines of Python with the most time since the chain began: ")
        assert re.search(
            rf"cudaMalloc: [\d.]+ s in \d+ slow calls?, [\d.]+ s at most, from allocate \({NAME}:{line_of('# allocates')}\)",
            evidence,
        )

    def test_stuck_call_is_named_by_line(self, jobs: Jobs) -> None:
        """The step thread waits for a kernel that takes an hour."""
        evidence = jobs.stuck.evidence(NAME)

        place = rf"train_step \({NAME}:{line_of('# waits')}\) < main \({NAME}:{line_of('# steps')}\) < <module>"
        assert re.search(rf"has been in cudaStreamSynchronize for [\d.]+ s, called by .*{place}", evidence)


class TestTasks:
    def test_task_that_waits_for_a_stuck_one_is_named_by_line(self, jobs: Jobs) -> None:
        """A step in a task never ends, and the server waits for the task."""
        evidence = jobs.stuck_task.evidence("awaited by")

        place = rf"answer \({NAME}:{line_of('# answers')}\) < in task answer 7"
        assert re.search(rf"has been in cudaStreamSynchronize for [\d.]+ s, called by .*{place}", evidence)
        assert f" < awaited by task Task-1 at serve ({NAME}:{line_of('# serves')}) < Handle._run (asyncio/" in evidence

    def test_line_is_named_where_a_task_waits_while_none_runs(self, jobs: Jobs) -> None:
        """Each step waits a second for its request: the thread waits for events, and the GPU for the thread."""
        evidence = jobs.slow_requests.evidence("no task runs")

        place = f"request ({NAME}:{line_of('# a request')}) through sleep (asyncio/tasks.py:"
        assert f"; no task runs; 1 task waits: task Task-1 at {place}" in evidence


class SlowJob(NamedTuple):
    """A job whose allocations are slow, and the exporter that has reported it."""

    exporter: Exporter
    history: Path
    pid: int

    def printed(self, command: str, *flags: str) -> str:
        """By a command that needs no root."""
        done = subprocess.run([*COMMAND, command, *flags], capture_output=True, text=True, timeout=30, check=True)
        return done.stdout

    def call_sites(self) -> list[dict[str, Any]]:
        """Its allocations in its chains, the worst first, as `explain` has them, once the fault has made them slow.

        Other work on the machine may make some of its calls slow before, and open other chains.
        """
        command = (*COMMAND, "explain", f"--history.path={self.history}", f"--workload=pid={self.pid}", "--format=json")
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
        chains = json.loads(done.stdout)["chains"] if done.returncode == 0 else []
        return [site for site in allocations(chains) if site["slow_seconds"] > LEAST_SECONDS * site["slow_calls"]]

    def recorded_sites(self) -> list[dict[str, Any]]:
        """The same in recordings."""
        found = []
        for capsule in self.exporter.capsules.glob("*.capsule"):
            chains = json.loads(self.printed("explain", f"--recording={capsule}", "--format=json"))["chains"]
            found += allocations([chain for chain in chains if chain["pid"] == self.pid])
        return found


def allocations(chains: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Call sites of chains that allocate."""
    return [site for chain in chains for site in chain["call_sites"] if site["operation"] == "cudaMalloc"]


@pytest.fixture(scope="module")
def slow_job(jobs: Jobs) -> SlowJob:
    """The history has its slow calls."""
    found = SlowJob(jobs.slow.exporter, jobs.history, jobs.slow.pid)
    eventually(found.call_sites, "the history has slow calls of the chain")
    return found


class TestSurfaces:
    def test_history_has_whole_frames_of_the_chain(self, slow_job: SlowJob) -> None:
        """And `explain` their number and time."""
        site = slow_job.call_sites()[0]

        assert (site["api"], site["operation"]) == ("runtime", "cudaMalloc")
        assert site["frames"][0] == {"file": str(PROGRAM), "function": "allocate", "line": line_of("# allocates")}
        assert [frame["function"] for frame in site["frames"]] == ["allocate", "train_step", "main", "<module>"]
        assert LEAST_SECONDS < site["slow_seconds"] / site["slow_calls"] < 0.2

    def test_explain_names_the_line_in_its_text(self, slow_job: SlowJob) -> None:
        flags = (f"--history.path={slow_job.history}", f"--workload=pid={slow_job.pid}", "--per-process")
        text = slow_job.printed("explain", *flags)

        line = f"from allocate ({NAME}:{line_of('# allocates')})"
        assert re.search(r"^  lines   ", text, re.MULTILINE)
        assert line in text
        assert "slow operation" in text

    def test_top_names_the_line_below_the_operation(self, slow_job: SlowJob) -> None:
        text = slow_job.printed("top", f"--url={slow_job.exporter.url}", "--once", "--interval=3s")

        place = rf"allocate \({NAME}:{line_of('# allocates')}\)"
        assert re.search(rf"^cudaMalloc .*\n  slow [\d.]+/s of [\d.]+ms, \d+%: {place}$", text, re.MULTILINE)

    def test_recording_names_the_line(self, slow_job: SlowJob) -> None:
        """It is written some seconds after the chain has opened. Other work on the machine may have caused others."""
        site = eventually(slow_job.recorded_sites, "there is a recording of its allocations")[0]

        assert site["frames"][0] == {"file": str(PROGRAM), "function": "allocate", "line": line_of("# allocates")}

    def test_line_is_no_label(self, slow_job: SlowJob) -> None:
        """Each one would be a series."""
        assert b"python_job.py" not in slow_job.exporter.get().body
        assert b"python_job.py" in slow_job.exporter.get("/call-sites").body
