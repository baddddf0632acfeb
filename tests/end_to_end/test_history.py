"""The history of a running exporter: killed at any moment, on a full disk, read without root; and what `explain` says of it."""

from __future__ import annotations

import grp
import json
import random
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import gpustall_standin as standin
from exporter.history.file_guard import GROUP
from tests.support.exporter_process import COMMAND, Exporter, running
from tests.support.history import NOON, SECOND
from tests.support.mounts import mount_namespace
from tests.support.requirements import ROOT, need_tracing
from tests.support.traced import eventually

pytestmark = pytest.mark.end_to_end
PATIENCE_SECONDS = 60
KILLS = 20
HERE = {"PYTHONPATH": str(ROOT)}  # whoever enters a namespace leaves the folder that he is in
NOBODY = 65534

WRITER = """
import sys
from pathlib import Path
from exporter.history.file_guard import claim
from exporter.history.store import Cut, Store
from tests.support.history import NOON, SECOND, a_report, a_window
store = Store(claim(Path(sys.argv[1])), 2 << 20, began_unix_ns=NOON, version="1.0", has_chains=True)
for number in range(int(sys.argv[2]), 1 << 20):
    ended = 10.0 * number
    window = a_window(ended)
    store.write([a_report(ended)], [Cut(window.began_unix_ns, window.ended_unix_ns, [window] * 20)], window.ended_unix_ns)
    print(number, flush=True)
    if number % 20 == 0:
        store.prune(0, [])
"""

# A user without rights may not even reach the interpreter: all of it is loaded before they are given up.
AS_NOBODY = f"""
import heapq, os, sys
from exporter import __main__ as program
program._parser(["explain"])
os.setgroups([int(group) for group in sys.argv[1].split(",") if group])
os.setgid({NOBODY})
os.setuid({NOBODY})
sys.exit(program.main(sys.argv[2:]))
"""


@pytest.fixture(scope="module", autouse=True)
def _possible_here() -> None:
    """Skip, naming what is missing."""
    need_tracing()


def reachable(folder: Path) -> Path:
    """The path of a history in a folder that everybody can reach, as in /var/lib."""
    for one in (folder, *folder.parents[:2]):
        one.chmod(0o755)
    return folder / "state" / "history.sqlite"


@pytest.fixture(scope="module")
def job() -> Iterator[str]:
    """One rank that trains; how --workload names it."""
    command = standin.trainer_command("--ranks=1", "--sync=block", "--quiet")
    process = subprocess.Popen(command, env=standin.environment(), stdout=subprocess.DEVNULL)
    (rank,) = eventually(lambda: Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split(), "a rank")
    yield f"pid={rank}"
    process.terminate()
    process.wait()


def run(*command: str) -> subprocess.CompletedProcess[str]:
    """To its end."""
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_SECONDS, cwd=ROOT, check=False)


def explain(path: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    """`explain` of a history."""
    return run(*COMMAND, "explain", f"--history.path={path}", *flags)


def explain_as_nobody(path: Path, workload: str, *groups: int) -> subprocess.CompletedProcess[str]:
    """The same without any right but those of the groups."""
    flags = (f"--history.path={path}", f"--workload={workload}")
    return run(sys.executable, "-c", AS_NOBODY, ",".join(map(str, groups)), "explain", *flags)


def readers_group() -> tuple[int, ...]:
    """The number of the group that may read; nothing on a machine that has no such group."""
    return tuple(group.gr_gid for group in grp.getgrall() if group.gr_name == GROUP)


def numbers_of(path: Path) -> tuple[str, set[int]]:
    """What SQLite thinks of a file that nobody writes, and the windows in it."""
    connection = sqlite3.connect(path)
    (sound,) = connection.execute("pragma integrity_check").fetchone()
    ends = {ended for (ended,) in connection.execute("select ended_unix_ns from cuts")}
    connection.close()
    return sound, ends


def own(exporter: Exporter, name: str) -> float:
    """A metric of the exporter about its history."""
    return exporter.scrape().total(f"gpustall_exporter_history_{name}")


class TestKilled:
    """SIGKILL, while it writes."""

    def test_file_is_sound_and_nothing_written_is_lost(self, tmp_path: Path) -> None:
        """Twenty times the same file goes on, each time killed in the middle of some write."""
        path = tmp_path / "state" / "history.sqlite"
        rng = random.Random(7561)
        last = -1
        for _ in range(KILLS):
            first = last + 1  # of what is older than the rest the oldest goes
            writer = subprocess.Popen(
                [sys.executable, "-c", WRITER, str(path), str(first)], stdout=subprocess.PIPE, text=True, cwd=ROOT
            )
            assert writer.stdout is not None
            assert writer.stdout.readline() == f"{first}\n"
            time.sleep(rng.uniform(0, 0.2))
            writer.kill()
            said, _ = writer.communicate()
            last = max(map(int, said.split("\n")[:-1]), default=first)  # the last line may be half a number
            sound, ends = numbers_of(path)

            assert sound == "ok"
            assert NOON + 10 * last * SECOND in ends


@dataclass(frozen=True)
class Readings:
    """Of a history whose exporter went on, was killed, had begun anew and ended."""

    path: Path
    as_text: str
    as_document: dict[str, Any]
    of_a_rank_that_is_none: subprocess.CompletedProcess[str]
    by_nobody: subprocess.CompletedProcess[str]
    while_written: subprocess.CompletedProcess[str]
    after_kill: subprocess.CompletedProcess[str]
    after_end: subprocess.CompletedProcess[str]


@pytest.fixture(scope="module")
def readings(job: str, tmp_path_factory: pytest.TempPathFactory) -> Readings:
    """By a member of the group, but where it is said by whom; a window takes ten seconds to come."""
    path, group = reachable(tmp_path_factory.mktemp("readings")), readers_group()
    of_job = (f"--workload={job}", "--per-process")
    with running(f"--history.path={path}") as exporter:
        eventually(lambda: explain(path, *of_job).returncode == 0, "a window is read", PATIENCE_SECONDS)
        while_written = explain_as_nobody(path, job, *group)
        text = explain(path, *of_job).stdout
        document = json.loads(explain(path, *of_job, "--format=json").stdout)
        unknown, by_nobody = explain(path, "--workload=rank=77"), explain_as_nobody(path, job)
        exporter.process.kill()
        exporter.process.wait()
        after_kill = explain_as_nobody(path, job, *group)
    with running(f"--history.path={path}") as exporter:
        eventually(lambda: own(exporter, "success") == 1, "it goes on", PATIENCE_SECONDS)
    after_end = explain_as_nobody(path, job, *group)
    return Readings(path, text, document, unknown, by_nobody, while_written, after_kill, after_end)


@pytest.mark.skipif(not readers_group(), reason=f"this machine has no group {GROUP}")
class TestReaders:
    """Without root, and whether or not somebody writes."""

    def test_group_reads_while_it_is_written(self, readings: Readings) -> None:
        """By an exporter that runs."""
        assert "rank 0" in readings.while_written.stdout, readings.while_written

    def test_group_reads_what_was_killed(self, readings: Readings) -> None:
        """No one has written since."""
        assert "rank 0" in readings.after_kill.stdout, readings.after_kill

    def test_group_reads_what_has_ended(self, readings: Readings) -> None:
        """The file is sound, although it was killed before."""
        assert "rank 0" in readings.after_end.stdout, readings.after_end
        assert readings.after_end.stdout.startswith("The exporter stopped at ")
        assert numbers_of(readings.path)[0] == "ok"

    def test_others_are_told_who_may(self, readings: Readings) -> None:
        """In one line."""
        assert readings.by_nobody.returncode == 3
        assert readings.by_nobody.stderr == (
            f"gpu-stall-exporter: you may not read {readings.path}; ask as root, or as a member of the group {GROUP}\n"
        )


class TestDisk:
    """That fails."""

    def test_full_disk_is_said_once_and_over_when_there_is_room(self, job: str, tmp_path: Path) -> None:
        """The exporter goes on meanwhile."""
        with mount_namespace() as namespace:
            disk = namespace.mount("tmpfs", "tmpfs", tmp_path / "disk", "size=512k", "mode=0750")
            path, filler = disk / "history.sqlite", namespace.seen(disk / "filler")
            with running(f"--history.path={path}", under=namespace.enter, environment=HERE) as exporter:
                eventually(lambda: own(exporter, "success") == 1, "the history is begun", PATIENCE_SECONDS)
                run("dd", "if=/dev/zero", f"of={filler}", "bs=4k")  # until there is no room
                eventually(lambda: own(exporter, "write_failures_total"), "a write has failed", PATIENCE_SECONDS)
                ticks = exporter.scrape().total("gpustall_exporter_ticks_total")
                eventually(
                    lambda: exporter.scrape().total("gpustall_exporter_ticks_total") > ticks + 4,
                    "it ticks",
                    PATIENCE_SECONDS,
                )
                assert own(exporter, "success") == 0
                filler.unlink()
                eventually(lambda: own(exporter, "success") == 1, "it is written again", PATIENCE_SECONDS)
                said = [line for line in exporter.logs.splitlines() if 'msg="history' in line]

        assert len(said) == 2
        assert "cannot write" in said[0]
        assert "is written again" in said[1]

    def test_read_only_disk_is_said_once(self, tmp_path: Path) -> None:
        """And does not keep the exporter from serving."""
        with mount_namespace() as namespace:
            disk = namespace.mount("tmpfs", "tmpfs", tmp_path / "disk", "ro", "mode=0750")
            with running(f"--history.path={disk}/history.sqlite", under=namespace.enter, environment=HERE) as exporter:
                eventually(lambda: "history is off" in exporter.logs, "it is said", PATIENCE_SECONDS)
                assert own(exporter, "success") == 0
                assert f"cannot write {disk}/history.sqlite-lock: Read-only file system" in exporter.logs


class TestExplain:
    """Of whatever is there, or not."""

    def test_no_file_is_one_clear_line(self, tmp_path: Path) -> None:
        """With what to do."""
        done = explain(tmp_path / "none.sqlite")

        assert (done.returncode, done.stdout) == (3, "")
        assert done.stderr.startswith(f"gpu-stall-exporter: there is no history at {tmp_path}/none.sqlite; start")

    def test_document_says_what_the_text_says(self, job: str, readings: Readings) -> None:
        """Of a job at work."""
        (process,) = readings.as_document["processes"]
        assert "cudaLaunchKernel" in readings.as_text
        assert (process["rank"], process["comm"], f"pid={process['pid']}") == ("0", "trainer", job)
        assert (readings.as_document["version"], readings.as_document["exporter"]["is_running"]) == (1, True)
        assert process["steps"] > 100
        assert 0.001 < process["step_mean_seconds"] < 1
        assert {"cudaLaunchKernel", "cudaStreamSynchronize"} <= {one["operation"] for one in process["operations"]}
        assert process["voluntary_switches"] > 100

    def test_rank_that_is_none_is_told_the_others(self, readings: Readings) -> None:
        """In one line."""
        assert readings.of_a_rank_that_is_none.returncode == 2
        assert "no process matches 'rank=77'; there are rank 0" in readings.of_a_rank_that_is_none.stderr
