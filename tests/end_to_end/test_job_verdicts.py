"""The verdict about a job from the history of a running exporter: its ranks, and the one that stops."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import gpustall_standin as standin
from exporter.errors import NotPossibleHere
from exporter.fleet.job_verdict import JobKind, JobVerdict, verdicts
from exporter.fleet.node_ranks import node_report
from tests.support.exporter_process import running
from tests.support.requirements import need_tracing
from tests.support.traced import eventually

pytestmark = [pytest.mark.end_to_end, pytest.mark.acceptance]
SINCE_SECONDS = 300.0


@pytest.fixture(scope="module", autouse=True)
def _possible_here() -> None:
    need_tracing()


@pytest.fixture
def history(tmp_path: Path) -> Iterator[Path]:
    """The history of an exporter whose probes are in the job's libraries before the job makes communicators."""
    path = tmp_path / "state" / "history.sqlite"
    with running(f"--history.path={path}"):
        first = standin.trainer_command("--ranks=2", "--steps=300", "--sync=block", "--quiet")
        subprocess.run(first, env=standin.environment(), stdout=subprocess.DEVNULL, check=True)
        yield path


def verdict(path: Path, *kinds: JobKind) -> JobVerdict | None:
    """The only one, if it is of these kinds."""
    try:
        found = verdicts({"here": node_report(path, SINCE_SECONDS)}, SINCE_SECONDS)
    except NotPossibleHere:  # not written yet
        return None
    return found[0] if len(found) == 1 and found[0].kind in kinds else None


def test_rank_that_is_stopped_hangs_its_job(history: Path) -> None:
    """Two ranks make collectives; then one of them gets SIGSTOP, and enters none any more."""
    command = standin.trainer_command("--ranks=2", "--sync=block", "--quiet")
    with subprocess.Popen(command, env=standin.environment(), stdout=subprocess.DEVNULL) as job:
        try:
            known = eventually(lambda: verdict(history, *JobKind), "the job is known")
            assert (known.ranks, known.seen, known.conflicts) == (2, 2, ())

            ranks = Path(f"/proc/{job.pid}/task/{job.pid}/children").read_text().split()
            stopped = int(ranks[1])
            os.kill(stopped, signal.SIGSTOP)
            hung = eventually(lambda: verdict(history, JobKind.HANG), "the job hangs")
            assert [one.tgid for one in hung.late] == [stopped]
        finally:
            for rank in Path(f"/proc/{job.pid}/task/{job.pid}/children").read_text().split():
                os.kill(int(rank), signal.SIGKILL)
            job.kill()
