"""Direct reclaim and OOM kills by cgroup, against the kernel's own counters."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from exporter.kernel import loader
from exporter.kernel.memory_rows import MemoryRow, forget_group, read_memory, read_pages
from tests.faults.injectors import NotPossible, cgroups, cpu, disk, memory
from tests.support import accounts
from tests.support.traced import Tracer, tracer

MIB = 1 << 20
PAGE_BYTES = 4096
LIMIT_BYTES = 32 * MIB
PASSES = 5
KILLS = 3

GROWS = "held = [bytearray(4096) for _ in range(1 << 30)]"
GROWS_IN_A_THREAD = (
    "import threading, time;"
    "[threading.Thread(target=time.sleep, args=(60,), daemon=True).start() for _ in range(7)];" + GROWS
)
WAITS_TO_BE_ENDED = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    """Cgroups of a test, with a memory limit."""
    with ExitStack() as found:
        yield found


def limited(stack: ExitStack, name: str) -> cgroups.Group:
    """A cgroup limited to 32 MiB, without swap."""
    try:
        group = stack.enter_context(cgroups.group("memory", name))
        stack.enter_context(memory.limit(group, LIMIT_BYTES))
    except NotPossible as reason:
        pytest.skip(str(reason))
    return group


def run_in(group: cgroups.Group, program: str) -> None:
    """Runs a Python program in the group, which must be killed by a signal."""
    done = subprocess.run([*cpu.in_groups([group.path]), sys.executable, "-S", "-c", program], check=False)
    assert done.returncode == -9


def rows_of(tracer: Tracer) -> dict[int, MemoryRow]:
    """Rows by number of the group."""
    return dict(read_memory(tracer.kernel.maps["memory_groups"]))


def row_of(tracer: Tracer, group: cgroups.Group) -> MemoryRow | None:
    """The number of a group is the inode number of its directory."""
    return rows_of(tracer).get(group.path.stat().st_ino)


class TestOomKills:
    """A group limited to 32 MiB, and programs that need more."""

    @pytest.mark.parametrize("program", [GROWS, GROWS_IN_A_THREAD])
    def test_oom_kills_are_those_of_the_kernel(self, account_tracer: Tracer, stack: ExitStack, program: str) -> None:
        """Each process counts once, however many threads it had."""
        group = limited(stack, "kills")
        for _ in range(KILLS):
            run_in(group, program)
        row = row_of(account_tracer, group)

        assert row is not None
        assert row.oom_kills == memory.oom_kills(group) == KILLS
        assert row.path == f"/{group.path.name}"

    def test_other_sigkill_is_no_oom_kill(self, account_tracer: Tracer, stack: ExitStack) -> None:
        """The same signal from another process."""
        group = limited(stack, "others")
        run_in(group, WAITS_TO_BE_ENDED)
        row = row_of(account_tracer, group)

        assert row is None or row.oom_kills == 0

    def test_deleted_row_begins_at_zero(self, account_tracer: Tracer, stack: ExitStack) -> None:
        group = limited(stack, "again")
        run_in(group, GROWS)
        forget_group(account_tracer.tables.shares, group.path.stat().st_ino)
        before = row_of(account_tracer, group)
        run_in(group, GROWS)
        row = row_of(account_tracer, group)

        assert before is None
        assert row is not None
        assert row.oom_kills == 1

    def test_group_beyond_the_map_is_counted_as_dropped(self, stack: ExitStack) -> None:
        """Room for one group of an owner, so for two in all; three owners have one with an OOM kill."""
        groups = [limited(stack, name) for name in ("one", "two", "three")]
        with tracer(capacities={"memory_groups": 1}) as small:
            for group in groups:
                run_in(group, GROWS)
            rows, drops = rows_of(small), small.drops()

        assert len(rows) == 2
        assert drops["memory memory_groups_full"] >= 1


class TestReclaim:
    """A file of 64 MiB, read five times in a group limited to 32 MiB."""

    def test_reclaim_is_counted_for_the_group(self, account_tracer: Tracer, stack: ExitStack) -> None:
        """Each pass has to free pages of the last one."""
        row = self._reclaimed(account_tracer, stack)

        assert min(row.reclaimed_pages, row.reclaims.sum_ns, row.reclaims.counts.total) > 0
        assert not account_tracer.drops()

    @pytest.mark.acceptance
    def test_reclaimed_pages_are_those_that_do_not_fit(self, account_tracer: Tracer, stack: ExitStack) -> None:
        """At least 32 MiB or 8,192 pages in each pass, at no less than 50 ns each."""
        row = self._reclaimed(account_tracer, stack)
        least_pages = PASSES * LIMIT_BYTES // PAGE_BYTES * 9 // 10

        assert least_pages <= row.reclaimed_pages < 4 * least_pages
        assert row.reclaims.sum_ns > least_pages * 50
        assert row.reclaims.counts.total > least_pages // 1000

    @staticmethod
    def _reclaimed(account_tracer: Tracer, stack: ExitStack) -> MemoryRow:
        """The row of the group."""
        group = limited(stack, "reclaims")
        path = stack.enter_context(disk.file_of(2 * LIMIT_BYTES))
        disk.forget_pages(path)
        read = f"for i in $(seq {PASSES}); do cat {path}; done"
        subprocess.run([*cpu.in_groups([group.path]), "sh", "-c", read], stdout=subprocess.DEVNULL, check=True)
        row = row_of(account_tracer, group)
        assert row is not None
        return row

    @pytest.mark.acceptance
    def test_group_without_a_limit_has_no_row(self, account_tracer: Tracer, stack: ExitStack) -> None:
        """It reads the same file."""
        try:
            group = stack.enter_context(cgroups.group("memory", "free"))
        except NotPossible as reason:
            pytest.skip(str(reason))
        path = stack.enter_context(disk.file_of(2 * LIMIT_BYTES))
        subprocess.run([*cpu.in_groups([group.path]), "cat", path], stdout=subprocess.DEVNULL, check=True)

        assert row_of(account_tracer, group) is None


class TestPages:
    """Pages that the kernel allocates for a traced process."""

    def test_each_page_that_is_read_is_an_allocation(self, waits_program: Path, stack: ExitStack) -> None:
        """A mapped file of 16 MiB that is not in the page cache is 4,096 pages."""
        assert self._allocated(waits_program, stack) >= 4096

    @pytest.mark.acceptance
    def test_each_page_that_is_read_is_one_allocation(self, waits_program: Path, stack: ExitStack) -> None:
        """The process itself allocates some hundred."""
        assert 4096 <= self._allocated(waits_program, stack) < 4096 + 1024

    @staticmethod
    def _allocated(waits_program: Path, stack: ExitStack) -> int:
        """Pages of a program that reads the file."""
        path = stack.enter_context(disk.file_of(16 * MIB))
        disk.forget_pages(path)
        with tracer(subjects=(*loader.SUBJECTS, "pages")) as found:
            accounts.probe(found, waits_program)
            accounts.run(found, waits_program, "call", "maps", "1", environment={"WAITS_FILE": str(path)})
            ((_, pages),) = read_pages(found.kernel.maps["page_allocations"])
        return pages

    def test_pages_are_not_counted_by_default(self, account_tracer: Tracer) -> None:
        """The program is not loaded."""
        assert "pages_alloc" not in account_tracer.kernel.programs
