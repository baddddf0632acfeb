"""accountant: the books of every process, from tables to times."""

from __future__ import annotations

from collections.abc import Hashable

import pytest

from exporter.accounting.accountant import Accountant, ProcessTime
from exporter.accounting.naming import Cause
from exporter.kernel.abi import Culprit, ThreadState, Victim, Waker
from exporter.kernel.rows import Exposure, Tables
from tests.support.tables import FakeTables

ON_CPU, RUNNABLE, IO, PIPE = ThreadState.ON_CPU, ThreadState.RUNNABLE, ThreadState.IO, ThreadState.PIPE


class Bench:
    """An accountant over fake tables; a second goes by with every tick."""

    def __init__(self) -> None:
        self.kernel = FakeTables()
        self.accountant = Accountant()
        self._tables = Tables(self.kernel.maps, self.kernel.iterate)
        self._now_ns = 0

    def tick(self, *processes: int, owner: Hashable = None) -> dict[int, ProcessTime]:
        """Book everything of these processes."""
        self._now_ns += 1_000_000_000
        owners = {process: process if owner is None else owner for process in processes}
        accounts = self._tables.read_accounts(owners)
        self.accountant.update(accounts, owners, self._now_ns)
        self.accountant.update_threads(accounts)
        return self.accountant.times()


@pytest.fixture
def bench() -> Bench:
    """Empty tables."""
    return Bench()


class TestLosses:
    """From the four tables that say something of them."""

    def test_stall_late_return_chain_and_blame_come_together(self, bench: Bench) -> None:
        """A pipe of 80 (half disk, half waiting for a CPU), a stall of 6 and a late return of 4 without one."""
        bench.kernel.feeding(1, dry_ns={PIPE: 80, RUNNABLE: 6})
        bench.kernel.call(1, "cudaStreamSynchronize", exposure=Exposure(4, 0, 0, 0, 0, 0))
        bench.kernel.chain(1, PIPE, {IO: 500, RUNNABLE: 500})
        bench.kernel.blame(1, 10_000_000, comm=b"stress")
        bench.kernel.blame(1, 10_000_000, victim=Victim.WORKER, culprit=Culprit.OWN, comm=b"python")

        assert bench.tick(1)[1].lost == {
            (Cause.BLOCK_IO, ""): 40,
            (Cause.CPU_OVERSUBSCRIBED, "python"): 40,
            (Cause.CPU_CONTENTION, "stress"): 10,
        }

    def test_processes_are_kept_apart(self, bench: Bench) -> None:
        """Each has culprits of its own."""
        for process, comm in ((1, b"one"), (2, b"two")):
            bench.kernel.feeding(process, dry_ns={RUNNABLE: 6})
            bench.kernel.blame(process, 10_000_000, comm=comm)
        times = bench.tick(1, 2)

        assert times[1].lost == {(Cause.CPU_CONTENTION, "one"): 6}
        assert times[2].lost == {(Cause.CPU_CONTENTION, "two"): 6}

    def test_sleeps_of_threads_that_do_not_feed_say_nothing(self, bench: Bench) -> None:
        """Neither of the loss nor of the chains."""
        bench.kernel.feeding(1, dry_ns={PIPE: 80})
        bench.kernel.chain(1, PIPE, {IO: 500}, victim=Victim.OTHER)
        found = bench.tick(1)[1]

        assert (found.lost, found.chains) == ({(Cause.DATALOADER, ""): 80}, {})

    def test_processes_of_one_owner_share_the_room_for_names(self, bench: Bench) -> None:
        """Sixteen for both."""
        for process in (1, 2):
            bench.kernel.feeding(process, dry_ns={RUNNABLE: 900})
            for number in range(9):
                bench.kernel.blame(process, 10_000_000, comm=b"hog%d of %d" % (number, process), tgid=number + 1)
        times = bench.tick(1, 2, owner="rank 0")

        names = {culprit for process in times.values() for _, culprit in process.lost}
        assert (len(names), "other" in names) == (17, True)


class TestChains:
    """As the kernel has them."""

    def test_sleep_that_a_step_thread_ended_explains_nothing(self, bench: Bench) -> None:
        """That one fed the GPU meanwhile."""
        bench.kernel.chain(1, PIPE, {IO: 500}, waker=Waker.STEP)

        assert bench.tick(1)[1].chains == {}

    def test_wakers_are_added_up(self, bench: Bench) -> None:
        """A worker, another thread, and nobody of the job."""
        bench.kernel.chain(1, PIPE, {IO: 500}, waker=Waker.PROCESS)
        bench.kernel.chain(1, PIPE, {IO: 20, ON_CPU: 3}, waker=Waker.THREAD)
        bench.kernel.chain(1, PIPE, {}, waker=Waker.NOBODY, abstained_ns=7)

        assert bench.tick(1)[1].chains == {("pipe", "io"): 520, ("pipe", "on_cpu"): 3, ("pipe", "unresolved"): 7}

    def test_chain_is_told_by_sleep_and_state(self, bench: Bench) -> None:
        """And what is not known has a name."""
        bench.kernel.chain(1, PIPE, {IO: 500, ON_CPU: 20}, abstained_ns=7)

        assert bench.tick(1)[1].chains == {("pipe", "io"): 500, ("pipe", "on_cpu"): 20, ("pipe", "unresolved"): 7}


class TestThreads:
    """Where all the time went."""

    def test_times_are_there(self, bench: Bench) -> None:
        """By call and state."""
        bench.kernel.thread(1, 11, gaps_ns={ON_CPU: 5})

        assert bench.tick(1)[1].threads == {("gap", "on_cpu"): 5}

    def test_process_that_is_not_alive_has_none(self, bench: Bench) -> None:
        """A row that was left behind."""
        bench.kernel.thread(1, 11, gaps_ns={ON_CPU: 5})

        assert bench.tick(2) == {2: ProcessTime({}, {}, {})}


class TestEnds:
    """Of processes."""

    def test_what_is_open_is_decided(self, bench: Bench) -> None:
        """A wait that nobody was charged with."""
        bench.kernel.feeding(1, dry_ns={RUNNABLE: 6})
        bench.tick(1)
        bench.accountant.finish([1, 2])

        assert bench.accountant.times()[1].lost == {(Cause.UNKNOWN, ""): 6}

    def test_books_are_thrown_away(self, bench: Bench) -> None:
        """Also of one that never had any."""
        bench.tick(1)
        bench.accountant.forget([1, 2])

        assert bench.accountant.times() == {}

    def test_errors_are_those_of_the_oracle(self, bench: Bench) -> None:
        """A thread of which half a second in one is missing."""
        bench.kernel.thread(1, 11, read_ns=0)
        bench.tick(1)
        bench.kernel.thread(1, 11, read_ns=1_000_000_000, booked_ns={ON_CPU: 500_000_000})
        bench.tick(1)

        assert bench.accountant.errors() == {"runnable": 0.0, "wall": 0.5}
