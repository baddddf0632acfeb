"""Capabilities: the exporter under exactly those it asks for, and what is missing without each of them.

The jobs belong to another user. One has its libraries in a directory that other users may not search, the other has deleted them.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

import gpustall_standin as standin
from exporter.host.capabilities import READING, Capability
from exporter.host.privileges import NEEDS, Need
from exporter.kernel import loader, perf_events
from tests.support import held_calls
from tests.support.exporter_process import COMMAND, Exporter, running
from tests.support.few_capabilities import event_openers, only_with
from tests.support.held_calls import HeldCalls, fresh_rank
from tests.support.patience import PATIENCE_SECONDS
from tests.support.requirements import need_command, need_tracing
from tests.support.traced import STANDIN_LIBRARIES, eventually, only

pytestmark = pytest.mark.end_to_end
INFO = "gpustall_workload_info"
USER = 1000
ALL = tuple(need.capability for need in NEEDS)
LIBRARIES = len(STANDIN_LIBRARIES)
SOME_NEEDS = (next(one for one in NEEDS if one.is_vital), next(one for one in NEEDS if not one.is_vital))


@pytest.fixture(scope="module", autouse=True)
def _skip_unless_possible() -> None:
    """Skip, naming what is missing."""
    need_tracing()
    need_command("setpriv", "util-linux")


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that any user may search, unlike those of pytest."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


def without(capability: Capability) -> Sequence[str]:
    """All but one."""
    return only_with(*(one for one in ALL if one is not capability))


@contextmanager
def others_job(folder: Path, *, is_private: bool = False, is_deleted: bool = False) -> Iterator[tuple[HeldCalls, str]]:
    """Another user's process that has not made its 23 calls yet, and its rank."""
    folder.mkdir()
    for name in STANDIN_LIBRARIES.values():
        shutil.copy(standin.build_dir() / name, folder)
    for path in (folder, *folder.iterdir()):
        os.chown(path, USER, USER)
    folder.chmod(0o700 if is_private else 0o755)
    rank = fresh_rank()
    with held_calls.held_calls("cudaMalloc:23", rank=rank, libraries=folder, user=USER, group=USER) as calls:
        if is_deleted:
            shutil.rmtree(folder)
        yield calls, rank


def counted(exporter: Exporter, rank: str) -> float:
    """Calls of a rank."""
    return exporter.scrape().total("gpustall_cuda_operations_total", rank=rank, operation="cudaMalloc")


def attached(exporter: Exporter, folder: Path) -> int:
    """Probed libraries of a folder."""
    return exporter.logs.count(f"attached to {folder}/")


def failures(exporter: Exporter) -> dict[str, float]:
    """Library files that are not probed, by reason."""
    return exporter.scrape().by("reason", "gpustall_exporter_attach_failures_total")


def unreadable(exporter: Exporter) -> float:
    """Processes whose mappings cannot be read."""
    return exporter.scrape().total("gpustall_exporter_unreadable_processes")


def unreadable_to(before: Sequence[str]) -> set[int]:
    """Processes whose mappings cannot be read by a process under this command."""
    script = 'for folder in /proc/[0-9]*; do cat "$folder/maps" >/dev/null || echo "${folder#/proc/}"; done 2>/dev/null'
    done = subprocess.run(
        [*before, "sh", "-c", script], check=True, capture_output=True, text=True, timeout=PATIENCE_SECONDS
    )
    return {int(line) for line in done.stdout.split()}


def ended(before: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """`run`, which must fail to start."""
    flags = (
        "run",
        "--web.listen-address=127.0.0.1:0",
        "--history.path=none",
        "--recording.directory=none",
        "--recording.socket=none",
    )
    return subprocess.run(
        [*before, *COMMAND, *flags], check=False, capture_output=True, text=True, timeout=PATIENCE_SECONDS
    )


def statuses(exporter: Exporter) -> list[str]:
    """/proc's status of every thread; one that answers a scrape may end in this moment."""
    found = []
    for path in Path(f"/proc/{exporter.process.pid}/task").glob("*/status"):
        with suppress(FileNotFoundError, ProcessLookupError):
            found.append(path.read_text())
    return found


def held(texts: Sequence[str]) -> set[tuple[str, ...]]:
    """Permitted and effective capabilities of threads, in one if they are the same."""
    return {tuple(set(re.findall(r"^Cap(?:Prm|Eff):\t(\w+)$", text, re.MULTILINE))) for text in texts}


class TestExactly:
    """Under exactly the required capabilities."""

    def test_another_user_s_job_is_traced_where_proc_hides_it(self, folder: Path) -> None:
        """/proc is mounted with hidepid=2: a process is there only for those who may trace it."""
        need_command("unshare", "util-linux")
        hidden = ("unshare", "--mount", "sh", "-c", 'mount -t proc -o hidepid=2 proc /proc && exec "$@"', "sh")
        with (
            others_job(folder / "lib", is_private=True) as (calls, rank),
            running(under=(*hidden, *only_with(*ALL))) as exporter,
        ):
            eventually(lambda: attached(exporter, folder / "lib") >= LIBRARIES, "its libraries are probed")
            calls.make()
            eventually(lambda: counted(exporter, rank) == 23, "its calls are counted")

    @pytest.mark.parametrize("kind", ["is_private", "is_deleted"])
    def test_another_user_s_job_is_traced(self, folder: Path, kind: str) -> None:
        """Every call, wherever its libraries are, and with its rank."""
        with (
            others_job(folder / "libraries", **{kind: True}) as (calls, rank),
            running(under=only_with(*ALL)) as exporter,
        ):
            eventually(lambda: attached(exporter, folder) == LIBRARIES, "the libraries are probed")
            calls.make()
            eventually(lambda: counted(exporter, rank) == 23, "23 calls are counted")

    def test_all_other_capabilities_are_dropped(self) -> None:
        """When it is started with more; in every thread, and for good. That of the log has none."""
        with running() as exporter:
            texts = statuses(exporter)
            openers = event_openers(exporter.process.pid)

        if loader.links_many(None) and not perf_events.is_paranoid():
            assert openers == []
        assert held(texts) == {("0" * 16,), (f"{sum(1 << one for one in ALL):016x}",)}
        assert all("NoNewPrivs:\t1" in text for text in texts)


class TestMissing:
    """What each capability is for shows when it is missing."""

    @pytest.mark.parametrize("capability", [Capability.BPF, Capability.PERFMON])
    def test_run_fails_without_bpf_and_perfmon(self, capability: Capability) -> None:
        """Exit code 3, and one line that names both."""
        done = ended(without(capability))

        assert done.returncode == 3
        assert done.stderr.count("\n") == 1
        assert "CAP_BPF and CAP_PERFMON" in done.stderr

    @pytest.mark.parametrize(
        ("capability", "kind"),
        [
            (Capability.DAC_READ_SEARCH, "is_private"),
            (Capability.CHECKPOINT_RESTORE, "is_deleted"),
        ],
    )
    def test_another_user_s_job_is_not_probed_without_them(
        self, folder: Path, capability: Capability, kind: str
    ) -> None:
        """It is counted, and the log names the missing capability."""
        with others_job(folder / "libraries", **{kind: True}), running(under=without(capability)) as exporter:
            eventually(lambda: failures(exporter).get("denied"), "it is counted")
            logs = exporter.logs

        assert f"attached to {folder}" not in logs
        assert capability.label in logs

    def test_another_user_s_job_is_not_seen_without_ptrace(self, folder: Path) -> None:
        """It is one of the processes whose mappings the exporter's readers cannot read without it: all are counted."""
        readers = only_with(*(one for one in READING if one is not Capability.SYS_PTRACE))
        with (
            others_job(folder / "libraries") as (calls, _),
            running(under=without(Capability.SYS_PTRACE)) as exporter,
        ):
            eventually(lambda: unreadable(exporter) == len(unreadable_to(readers)), "they are counted")
            assert unreadable_to(readers) >= set(calls.tgids)
            logs = exporter.logs

        assert f"attached to {folder}" not in logs
        assert "CAP_SYS_PTRACE" in logs

    def test_library_in_an_open_directory_is_probed_without_the_last_two(self, folder: Path) -> None:
        """The usual case. The rank stays unknown: only the owner may read the environment."""
        wanted = (Capability.BPF, Capability.PERFMON, Capability.SYS_PTRACE)
        with others_job(folder / "libraries") as (calls, _), running(under=only_with(*wanted)) as exporter:
            eventually(lambda: attached(exporter, folder) == LIBRARIES, "the libraries are probed")
            calls.make()
            tgid = str(only(calls.tgids))
            info = eventually(lambda: exporter.scrape().matching(INFO, pid=tgid), "it is exported")

        assert only(info).labels["rank"] == ""

    @pytest.mark.parametrize(
        "need",
        [pytest.param(one, marks=() if one in SOME_NEEDS else pytest.mark.acceptance) for one in NEEDS],
        ids=lambda one: one.capability.label,
    )
    def test_check_shows_the_cost(self, need: Need) -> None:
        """With exit code 3 when almost no job would be traced."""
        done = subprocess.run(
            [*without(need.capability), *COMMAND, "check", "--web.listen-address=127.0.0.1:0"],
            check=False,
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
        )

        assert f"without {need.capability.label} {need.cost}" in " ".join(done.stdout.split())
        assert done.returncode == (3 if need.is_vital else 0)


class TestAttachOnce:
    """--probes.attach-once."""

    def test_probed_libraries_stay_and_no_others_are_added(self, folder: Path) -> None:
        """With two capabilities left in every thread but that of the log, for the names of processes."""
        with others_job(folder / "libraries") as (calls, rank), running("--probes.attach-once") as exporter:
            calls.make()
            eventually(lambda: counted(exporter, rank) == 23, "23 calls are counted")
            with others_job(folder / "others"):
                eventually(lambda: failures(exporter).get("frozen"), "another library is refused")
            texts = statuses(exporter)
            logs = exporter.logs

        assert logs.count(f"attached to {folder}") == LIBRARIES
        assert "library (frozen)" in logs
        left = 1 << Capability.SYS_PTRACE | 1 << Capability.DAC_READ_SEARCH
        assert held(texts) == {("0" * 16,), (f"{left:016x}",)}
