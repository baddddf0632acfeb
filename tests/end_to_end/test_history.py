"""The history of a running exporter: killed at any moment, on a full disk, read without root by `explain`."""

from __future__ import annotations

import grp
import json
import random
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import gpustall_standin as standin
from exporter.history.file_guard import GROUP
from tests.support.exporter_process import COMMAND, Exporter, running
from tests.support.history import NOON, SECOND
from tests.support.mounts import mount_namespace
from tests.support.patience import PATIENCE_SECONDS
from tests.support.requirements import ROOT, need_tracing
from tests.support.traced import eventually

pytestmark = pytest.mark.end_to_end
HERE = {"PYTHONPATH": str(ROOT)}  # a process that enters a namespace loses its working directory
UNPRIVILEGED = 65534

WRITER = """
import sys
from pathlib import Path
from exporter.history.file_guard import claim
from exporter.history.store import Store
from exporter.history.window_batch import WindowBatch
from tests.support.history import NOON, SECOND, an_event, a_window
store = Store(claim(Path(sys.argv[1])), 2 << 20, began_unix_ns=NOON, version="1.0", has_chains=True)
for number in range(int(sys.argv[2]), 1 << 20):
    ended = 10.0 * number
    window = a_window(ended)
    store.write([an_event(ended)], [WindowBatch(window.began_unix_ns, window.ended_unix_ns, [window] * 20)], window.ended_unix_ns)
    print(number, flush=True)
    if number % 20 == 0:
        store.prune(0, [])
"""

# A user without permissions may not be able to read the interpreter: all of it is loaded before the user is changed.
AS_UNPRIVILEGED = f"""
import heapq, os, sys
from exporter import __main__ as program
program._parser("explain")
os.setgroups([int(group) for group in sys.argv[1].split(",") if group])
os.setgid({UNPRIVILEGED})
os.setuid({UNPRIVILEGED})
sys.exit(program.main(sys.argv[2:]))
"""


@pytest.fixture(scope="module", autouse=True)
def _possible_here() -> None:
    need_tracing()


@contextmanager
def reachable() -> Iterator[Path]:
    """The path of a history in a folder that every user can reach, as in /var/lib: not pytest's, which the next pytest closes."""
    with tempfile.TemporaryDirectory(prefix="gpu-stall-history-") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder) / "state" / "history.sqlite"


@pytest.fixture(scope="module")
def job() -> Iterator[str]:
    """A job of one rank; yields its value of --workload."""
    command = standin.trainer_command("--ranks=1", "--sync=block", "--quiet")
    process = subprocess.Popen(command, env=standin.environment(), stdout=subprocess.DEVNULL)
    (rank,) = eventually(lambda: Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split(), "a rank")
    yield f"pid={rank}"
    process.terminate()
    process.wait()


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS, cwd=ROOT, check=False)


def explain(path: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    return run(*COMMAND, "explain", f"--history.path={path}", *flags)


def of_many_steps(path: Path, *flags: str) -> dict[str, Any] | None:
    """The document of `explain` when its one process has made more than 100 steps: the first window may have a few of them."""
    done = explain(path, *flags, "--format=json")
    document = json.loads(done.stdout) if done.returncode == 0 else {}
    return document if any(process["steps"] > 100 for process in document.get("processes", ())) else None


def explain_unprivileged(path: Path, workload: str, *groups: int) -> subprocess.CompletedProcess[str]:
    """`explain` as a user without permissions, but with these groups."""
    flags = (f"--history.path={path}", f"--workload={workload}")
    return run(sys.executable, "-c", AS_UNPRIVILEGED, ",".join(map(str, groups)), "explain", *flags)


def readers_group() -> tuple[int, ...]:
    """The number of the group that may read; empty if this machine has no such group."""
    return tuple(group.gr_gid for group in grp.getgrall() if group.gr_name == GROUP)


def integrity_and_ends(path: Path) -> tuple[str, set[int]]:
    """Result of SQLite's integrity check, and the ends of windows in the file."""
    connection = sqlite3.connect(path)
    (integrity,) = connection.execute("pragma integrity_check").fetchone()
    ends = {ended for (ended,) in connection.execute("select ended_unix_ns from windows")}
    connection.close()
    return integrity, ends


def own(exporter: Exporter, name: str) -> float:
    """A metric of the exporter about its history."""
    return exporter.scrape().total(f"gpustall_exporter_history_{name}")


class TestKilled:
    @pytest.mark.parametrize("kills", [3, pytest.param(20, marks=pytest.mark.acceptance)])
    def test_sigkill_during_a_write_loses_nothing(self, tmp_path: Path, kills: int) -> None:
        """Each time with the same file."""
        path = tmp_path / "state" / "history.sqlite"
        rng = random.Random(7561)
        last = -1
        for _ in range(kills):
            first = last + 1  # pruning deletes the oldest
            writer = subprocess.Popen(
                [sys.executable, "-c", WRITER, str(path), str(first)], stdout=subprocess.PIPE, text=True, cwd=ROOT
            )
            assert writer.stdout is not None
            assert writer.stdout.readline() == f"{first}\n"
            time.sleep(rng.uniform(0, 0.2))
            writer.kill()
            output, _ = writer.communicate()
            last = max(map(int, output.split("\n")[:-1]), default=first)  # the last line may be half a number
            integrity, ends = integrity_and_ends(path)

            assert integrity == "ok"
            assert NOON + 10 * last * SECOND in ends


@dataclass(frozen=True)
class Readings:
    """`explain` while the exporter runs, after it was killed, and after it was started again and stopped."""

    path: Path
    text: str
    document: dict[str, Any]
    unknown_rank: subprocess.CompletedProcess[str]
    without_permission: subprocess.CompletedProcess[str]
    while_written: subprocess.CompletedProcess[str]
    after_kill: subprocess.CompletedProcess[str]
    after_end: subprocess.CompletedProcess[str]


@pytest.fixture(scope="module")
def readings(job: str) -> Iterator[Readings]:
    """The first window takes ten seconds; a chain of the job, which is enough for exit code 0, may be there before it."""
    group, of_job = readers_group(), (f"--workload={job}", "--per-process")
    with reachable() as path:
        with running(f"--history.path={path}") as exporter:
            document = eventually(lambda: of_many_steps(path, *of_job), "windows are read")
            while_written = explain_unprivileged(path, job, *group)
            text = explain(path, *of_job).stdout
            unknown, without_permission = explain(path, "--workload=rank=77"), explain_unprivileged(path, job)
            exporter.process.kill()
            exporter.process.wait()
            after_kill = explain_unprivileged(path, job, *group)
        with running(f"--history.path={path}") as exporter:
            eventually(lambda: own(exporter, "success") == 1, "the next run writes")
        after_end = explain_unprivileged(path, job, *group)
        yield Readings(path, text, document, unknown, without_permission, while_written, after_kill, after_end)


@pytest.mark.skipif(not readers_group(), reason=f"this machine has no group {GROUP}")
class TestReaders:
    """Without root."""

    def test_group_reads_while_the_exporter_writes(self, readings: Readings) -> None:
        assert "rank 0" in readings.while_written.stdout, readings.while_written

    def test_group_reads_after_the_exporter_was_killed(self, readings: Readings) -> None:
        assert "rank 0" in readings.after_kill.stdout, readings.after_kill

    def test_group_reads_after_the_exporter_has_stopped(self, readings: Readings) -> None:
        """The exporter was killed before."""
        assert "rank 0" in readings.after_end.stdout, readings.after_end
        assert readings.after_end.stdout.startswith("The exporter stopped at ")
        assert integrity_and_ends(readings.path)[0] == "ok"

    def test_other_users_get_an_error_that_names_the_group(self, readings: Readings) -> None:
        assert readings.without_permission.returncode == 3
        assert readings.without_permission.stderr == (
            f"gpu-stall-exporter: no permission to read {readings.path}; run it as root or as a member of the group {GROUP}\n"
        )


class TestDisk:
    def test_full_disk_is_logged_once_and_the_exporter_goes_on(self, job: str, tmp_path: Path) -> None:
        """The history is written again when there is room."""
        with mount_namespace() as namespace:
            disk = namespace.mount("tmpfs", "tmpfs", tmp_path / "disk", "size=512k", "mode=0750")
            path, filler = disk / "history.sqlite", namespace.seen(disk / "filler")
            with running(f"--history.path={path}", under=namespace.enter, environment=HERE) as exporter:
                eventually(lambda: own(exporter, "success") == 1, "the history is written")
                run("dd", "if=/dev/zero", f"of={filler}", "bs=4k")  # until there is no room
                eventually(lambda: own(exporter, "write_failures_total"), "a write has failed")
                ticks = exporter.scrape().total("gpustall_exporter_ticks_total")
                eventually(lambda: exporter.scrape().total("gpustall_exporter_ticks_total") > ticks + 4, "it ticks")
                assert own(exporter, "success") == 0
                filler.unlink()
                eventually(lambda: own(exporter, "success") == 1, "it is written again")
                logged = [line for line in exporter.logs.splitlines() if 'msg="history' in line]

        assert len(logged) == 2
        assert "cannot write" in logged[0]
        assert "has resumed" in logged[1]

    def test_read_only_disk_does_not_keep_the_exporter_from_serving(self, tmp_path: Path) -> None:
        with mount_namespace() as namespace:
            disk = namespace.mount("tmpfs", "tmpfs", tmp_path / "disk", "ro", "mode=0750")
            with running(f"--history.path={disk}/history.sqlite", under=namespace.enter, environment=HERE) as exporter:
                eventually(lambda: "history writes paused" in exporter.logs, "it is logged")
                assert own(exporter, "success") == 0
                assert f"cannot write {disk}/history.sqlite-lock: Read-only file system" in exporter.logs


class TestExplain:
    def test_missing_file_is_an_error_with_a_remedy(self, tmp_path: Path) -> None:
        done = explain(tmp_path / "none.sqlite")

        assert (done.returncode, done.stdout) == (3, "")
        assert done.stderr.startswith(f"gpu-stall-exporter: no history at {tmp_path}/none.sqlite; start")

    def test_text_and_document_show_the_operations_of_a_job(self, job: str, readings: Readings) -> None:
        (process,) = readings.document["processes"]
        assert "cudaLaunchKernel" in readings.text
        assert (process["rank"], process["comm"], f"pid={process['pid']}") == ("0", "trainer", job)
        assert (readings.document["version"], readings.document["exporter"]["is_running"]) == (1, True)
        assert process["step_mean_seconds"] > 0.001
        assert {"cudaLaunchKernel", "cudaStreamSynchronize"} <= {one["operation"] for one in process["operations"]}
        assert process["voluntary_switches"] > 0

    def test_unknown_rank_is_an_error_that_names_the_others(self, readings: Readings) -> None:
        """Others may run on the machine, too."""
        assert readings.unknown_rank.returncode == 2
        before, _, names = readings.unknown_rank.stderr.partition("; there are ")
        assert before.endswith("no process matches 'rank=77'")
        assert "rank 0 " in names
