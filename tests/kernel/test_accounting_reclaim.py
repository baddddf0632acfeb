"""Direct reclaim is CPU work, not sleep: a program whose pages do not fit into its cgroup."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from exporter.kernel.abi import ThreadState
from tests.faults.injectors import NotPossible, cgroups, cpu, disk, memory
from tests.support import accounts
from tests.support.accounts import Account
from tests.support.traced import Tracer

MS = 1_000_000
MIB = 1 << 20
PAGES_BYTES = 64 * MIB
PASSES = 5


@pytest.fixture
def group() -> Iterator[cgroups.Group]:
    """A cgroup with half the memory that the pages need."""
    try:
        with cgroups.group("memory", "reclaim") as found, memory.limit(found, PAGES_BYTES // 2):
            yield found
    except NotPossible as reason:
        pytest.skip(str(reason))


@pytest.fixture
def pages() -> Iterator[Path]:
    """A file on the disk, none of it in the page cache."""
    with disk.file_of(PAGES_BYTES) as path:
        disk.forget_pages(path)
        yield path


@pytest.fixture
def reclaimed(account_tracer: Tracer, waits_program: Path, group: cgroups.Group, pages: Path) -> Account:
    """The program in the group."""
    accounts.probe(account_tracer, waits_program)
    command = (*cpu.in_groups([group.path]), waits_program, "call", "maps", str(PASSES))
    return accounts.run(account_tracer, *command, environment={"WAITS_FILE": str(pages)})


class TestReclaim:
    """A file of 64 MiB, mapped and read from end to end five times."""

    def test_pages_that_do_not_fit_are_reclaimed(self, reclaimed: Account) -> None:
        """Each pass has to free pages of the last one. An empty call in between reclaims nothing."""
        states_ns = reclaimed.call_ns("cudaEventRecord")

        assert states_ns[ThreadState.RECLAIM] > 0
        assert reclaimed.truth["inside_ns"] <= sum(states_ns.values()) <= reclaimed.truth["wall_ns"]
        assert ThreadState.RECLAIM not in reclaimed.call_ns("cudaLaunchKernel")

    @pytest.mark.acceptance
    def test_reclaim_time_is_on_the_cpu(self, reclaimed: Account) -> None:
        """Each pass frees at least 32 MiB or 8,192 pages, at no less than 0.1 us each, and does not sleep for memory."""
        states_ns = reclaimed.call_ns("cudaEventRecord")

        assert states_ns[ThreadState.RECLAIM] > PASSES * 8192 * 100
        assert states_ns.get(ThreadState.MEMORY, 0) < 0.1 * states_ns[ThreadState.RECLAIM]

    @pytest.mark.acceptance
    def test_pages_that_fit_need_no_reclaim(self, account_tracer: Tracer, waits_program: Path, pages: Path) -> None:
        """The same program without a limit."""
        accounts.probe(account_tracer, waits_program)
        environment = {"WAITS_FILE": str(pages)}
        account = accounts.run(account_tracer, waits_program, "call", "maps", str(PASSES), environment=environment)

        assert ThreadState.RECLAIM not in account.call_ns("cudaEventRecord")
