"""SIGKILL at any moment leaves nothing of the exporter in the kernel, in the job, in files and processes."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

import gpustall_standin as standin
from tests.support.breakpoints import patched
from tests.support.exporter_process import COMMAND, exists, kernel_things
from tests.support.held_calls import without_rank
from tests.support.patience import PATIENCE_SECONDS
from tests.support.requirements import need_tracing
from tests.support.traced import STANDIN_LIBRARIES, eventually

pytestmark = pytest.mark.end_to_end
TIMES = 3
SOAK_TIMES = 200
PINNED = Path("/sys/fs/bpf")
TRACEFS_PROBES = Path("/sys/kernel/tracing/uprobe_events")


@pytest.fixture(scope="module", autouse=True)
def _possible_here() -> None:
    need_tracing()


@dataclass
class Job:
    """A training job with its own copies of the libraries. tgid: of its only rank."""

    process: subprocess.Popen[str]
    tgid: int
    libraries: Path

    def patched(self) -> set[str]:
        """Functions with a probe in its memory."""
        return {
            symbol
            for api, name in STANDIN_LIBRARIES.items()
            for symbol in patched(self.tgid, self.libraries / name, api)
        }

    def end(self) -> tuple[int, int]:
        """Ends it. Returns its exit code, and how many calls of the runtime failed."""
        self.process.terminate()
        output, _ = self.process.communicate(timeout=PATIENCE_SECONDS)
        finals = [json.loads(line) for line in output.splitlines() if '"final"' in line]
        assert len(finals) == 1
        return self.process.returncode, sum(one["errors"] for one in finals[0]["calls"]["runtime"].values())


@contextmanager
def _job(libraries: Path) -> Iterator[Job]:
    for name in STANDIN_LIBRARIES.values():
        shutil.copy(standin.build_dir() / name, libraries)
    process = subprocess.Popen(
        [standin.build_dir() / "trainer", "--ranks=1", "--loader-workers=1", "--sync=block", "--quiet"],
        env={**without_rank(), "LD_LIBRARY_PATH": str(libraries)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        yield Job(process, eventually(lambda: _rank_of(process.pid, libraries), "its rank runs"), libraries)
    finally:
        with process:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)


def _rank_of(tgid: int, libraries: Path) -> int | None:
    """The child that has loaded all libraries."""
    for child in Path(f"/proc/{tgid}/task/{tgid}/children").read_text().split():
        maps = Path(f"/proc/{child}/maps").read_text()
        if all(f"{libraries}/{name}" in maps for name in STANDIN_LIBRARIES.values()):
            return int(child)
    return None


class _Killer:
    """Starts exporters in a folder of their own and kills them: one that has put probes into the job, one that has just begun."""

    def __init__(self, job: Job, folder: Path) -> None:
        self._job, self._folder = job, folder
        self._random = random.Random(2187)
        self._pins = _names(PINNED)
        started_at = time.monotonic()
        process = self._start(subprocess.PIPE)
        assert process.stderr is not None
        assert any(b"serving http" in line for line in process.stderr)
        self._eventually(job.patched, "the job has probes")
        self._seconds = time.monotonic() - started_at
        self._kill(process)
        self._kill(self._start())

    def _start(self, stderr: int = subprocess.DEVNULL) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [
                *COMMAND,
                "run",
                "--web.listen-address=127.0.0.1:0",
                "--recording.directory=none",
                "--recording.socket=none",
                "--history.path=none",
            ],
            env={**os.environ, "TMPDIR": str(self._folder)},
            cwd=self._folder,
            stdin=subprocess.DEVNULL,
            stderr=stderr,
            start_new_session=True,
        )

    def _kill(self, process: subprocess.Popen[bytes]) -> None:
        leaks = _leaks()
        with process:
            things = kernel_things(process.pid)
            process.kill()
        assert process.returncode == -signal.SIGKILL
        self._eventually(lambda: not {thing for thing in things if exists(thing)}, f"the kernel has none of {things}")
        if _leaks() > leaks and self._job.patched():
            self._stop_another()
        self._eventually(lambda: not self._job.patched(), "the job has no probe")
        self._eventually(lambda: not _session(process.pid), "no process is left")
        assert list(self._folder.iterdir()) == []
        assert _names(PINNED) <= self._pins
        assert not TRACEFS_PROBES.exists() or str(self._job.libraries) not in TRACEFS_PROBES.read_text()

    def _stop_another(self) -> None:
        """Starts and stops another exporter, which removes probes that the kernel has left.

        If an exporter is killed while it attaches, the kernel may fail to remove a probe, and logs it.
        """
        with self._start(subprocess.PIPE) as process:
            assert process.stderr is not None
            assert any(b"serving http" in line for line in process.stderr)
            process.terminate()

    @staticmethod
    def _eventually(condition: object, what: str) -> None:
        eventually(condition, what)

    def once(self) -> None:
        """Kills an exporter at a random time, until somewhat after it serves."""
        process = self._start()
        time.sleep(self._random.uniform(0, 1.3 * self._seconds))
        self._kill(process)


def _leaks() -> int:
    """How many probes the kernel failed to remove, according to its log."""
    log = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
    found = 0
    try:
        while True:
            try:
                found += b"leaking uprobe" in os.read(log, 8192)
            except BrokenPipeError:  # this record has been written over
                continue
    except BlockingIOError:
        return found
    finally:
        os.close(log)


def _names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()} if folder.exists() else set()


def _session(session: int) -> list[int]:
    """Processes of a session that are still running."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
            except (FileNotFoundError, ProcessLookupError):
                continue
            if int(fields[3]) == session and fields[0] != "Z":
                found.append(int(folder.name))
    return found


class TestKilled:
    @pytest.mark.parametrize(
        "times", [pytest.param(TIMES, id="few"), pytest.param(SOAK_TIMES, id="many", marks=pytest.mark.soak)]
    )
    def test_nothing_is_left_and_the_job_goes_on(self, tmp_path: Path, times: int) -> None:
        """Killed while it loads, attaches or serves. The job ends normally, without a failed call."""
        (tmp_path / "libraries").mkdir()
        (tmp_path / "folder").mkdir()
        with _job(tmp_path / "libraries") as job:
            killer = _Killer(job, tmp_path / "folder")
            for _ in range(times):
                killer.once()
            exit_code, errors = job.end()

        assert (exit_code, errors) == (0, 0)
