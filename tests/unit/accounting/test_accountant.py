"""accounting.accountant: accounts of every process, from rows to times."""

from __future__ import annotations

from collections.abc import Hashable

import pytest

from exporter.accounting.accountant import Accountant, ProcessTime
from exporter.accounting.progress import WorkloadProgress
from exporter.accounting.thread_time import times_by_process
from exporter.causes import Cause
from exporter.kernel.abi import Awaited, Culprit, ThreadState, Victim, Waker
from exporter.kernel.tables import Tables
from tests.support.tables import FakeTables

ON_CPU, RUNNABLE, IO, PIPE = ThreadState.ON_CPU, ThreadState.RUNNABLE, ThreadState.IO, ThreadState.PIPE
SECOND = 1_000_000_000


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
        self.accountant.update_threads(times_by_process(accounts), accounts.threads)
        return self.accountant.times()


@pytest.fixture
def bench() -> Bench:
    """Empty tables."""
    return Bench()


class TestLosses:
    """From the four tables that say something of them."""

    def test_stall_late_return_wakeup_path_and_blame_come_together(self, bench: Bench) -> None:
        """A pipe of 80 (half disk, half waiting for a CPU), a stall of 6 and a late return of 4 without one."""
        bench.kernel.feeding(1, dry_ns={PIPE: 80, RUNNABLE: 6})
        bench.kernel.exposure(1, "cudaStreamSynchronize", exact_ns=4)
        bench.kernel.wakeup(1, PIPE, {IO: 500, RUNNABLE: 500})
        bench.kernel.blame(1, 10_000_000, comm=b"stress")
        bench.kernel.blame(1, 10_000_000, victim=Victim.WORKER, culprit=Culprit.OWN, comm=b"python")

        assert bench.tick(1)[1].lost == {
            (Cause.BLOCK_IO, ""): 40,
            (Cause.CPU_OVERSUBSCRIBED, "python"): 40,
            (Cause.CPU_CONTENTION, "stress"): 10,
        }

    def test_open_stall_is_lost_as_its_thread_waits(self, bench: Bench) -> None:
        """The step thread whose gap began last: since 100 the disk. The other one sleeps in a call."""
        bench.kernel.feeding(1, stalled_since_ns=100, is_dry=True)
        bench.kernel.thread(1, 11, state=PIPE, opened_ns=80, read_ns=170)
        bench.kernel.thread(1, 12, state=IO, opened_ns=90, read_ns=170, open_ns={IO: 75})
        bench.kernel.thread(1, 13, state=PIPE, opened_ns=95, read_ns=170, operation="cudaMalloc")

        assert bench.tick(1)[1].lost == {(Cause.BLOCK_IO, ""): 70}

    def test_write_that_a_stopped_reader_blocks_is_charged_to_it(self, bench: Bench) -> None:
        """It has lasted for 6 s, and has not ended yet."""
        bench.kernel.feeding(1, stalled_since_ns=4 * SECOND, is_dry=True)
        bench.kernel.thread(
            1,
            11,
            state=ThreadState.OUTPUT,
            read_ns=10 * SECOND,
            opened_ns=4 * SECOND,
            open_ns={ThreadState.OUTPUT: 6 * SECOND},
            reader=(4711, Awaited.PROCESS, b"tee"),
        )

        assert bench.tick(1)[1].lost == {(Cause.BLOCKED_OUTPUT, "tee"): 6 * SECOND}

    def test_open_stall_ends_where_its_thread_becomes_idle(self, bench: Bench) -> None:
        """A minute after its last call, of which 10 ns had gone by when the stall began."""
        bench.kernel.feeding(1, stalled_since_ns=100, is_dry=True)
        bench.kernel.thread(1, 12, state=IO, opened_ns=90, read_ns=200_000_000_000, open_ns={IO: 199_999_999_910})

        assert bench.tick(1)[1].lost == {(Cause.BLOCK_IO, ""): 59_999_999_990}

    def test_processes_are_kept_apart(self, bench: Bench) -> None:
        """Each has culprits of its own."""
        for process, comm in ((1, b"one"), (2, b"two")):
            bench.kernel.feeding(process, dry_ns={RUNNABLE: 6})
            bench.kernel.blame(process, 10_000_000, comm=comm)
        times = bench.tick(1, 2)

        assert times[1].lost == {(Cause.CPU_CONTENTION, "one"): 6}
        assert times[2].lost == {(Cause.CPU_CONTENTION, "two"): 6}

    def test_sleeps_of_threads_that_do_not_feed_say_nothing(self, bench: Bench) -> None:
        """Neither of the loss nor of the wake-up paths."""
        bench.kernel.feeding(1, dry_ns={PIPE: 80})
        bench.kernel.wakeup(1, PIPE, {IO: 500}, victim=Victim.OTHER)
        found = bench.tick(1)[1]

        assert (found.lost, found.wakeup_paths) == ({(Cause.OWN_WAIT, ""): 80}, {})

    def test_processes_of_one_owner_share_the_room_for_names(self, bench: Bench) -> None:
        """Sixteen for both."""
        for process in (1, 2):
            bench.kernel.feeding(process, dry_ns={RUNNABLE: 900})
            for number in range(9):
                bench.kernel.blame(process, 10_000_000, comm=b"hog%d of %d" % (number, process), tgid=number + 1)
        times = bench.tick(1, 2, owner="rank 0")

        names = {culprit for process in times.values() for _, culprit in process.lost}
        assert (len(names), "other" in names) == (17, True)


class TestWakeupPaths:
    """As the kernel has them."""

    def test_sleep_that_a_step_thread_ended_explains_nothing(self, bench: Bench) -> None:
        """A step thread fed the GPU in that time."""
        bench.kernel.wakeup(1, PIPE, {IO: 500}, waker=Waker.STEP)

        assert bench.tick(1)[1].wakeup_paths == {}

    def test_work_of_workers_is_no_path(self, bench: Bench) -> None:
        """What they did for all of their work, whether or not a step thread slept."""
        bench.kernel.wakeup(1, ON_CPU, {ON_CPU: 500}, victim=Victim.WORKER)

        assert bench.tick(1)[1].wakeup_paths == {}

    def test_wakers_are_added_up(self, bench: Bench) -> None:
        """A worker, another thread, and a program outside of the job."""
        bench.kernel.wakeup(1, PIPE, {IO: 500}, waker=Waker.PROCESS)
        bench.kernel.wakeup(1, PIPE, {IO: 20, ON_CPU: 3}, waker=Waker.THREAD)
        bench.kernel.wakeup(1, PIPE, {}, waker=Waker.OTHER, abstained_ns=7)

        assert bench.tick(1)[1].wakeup_paths == {("pipe", "io"): 520, ("pipe", "on_cpu"): 3, ("pipe", "unresolved"): 7}

    def test_wakeups_are_summed_by_sleep_and_waker_state(self, bench: Bench) -> None:
        """And what is not known has a name."""
        bench.kernel.wakeup(1, PIPE, {IO: 500, ON_CPU: 20}, abstained_ns=7)

        assert bench.tick(1)[1].wakeup_paths == {("pipe", "io"): 500, ("pipe", "on_cpu"): 20, ("pipe", "unresolved"): 7}


class TestInterrupts:
    """What they took."""

    def test_interrupts_are_summed_over_all_threads(self, bench: Bench) -> None:
        """Also where the GPU lost nothing by it; other culprits are none of it."""
        bench.kernel.blame(1, 7, culprit=Culprit.IRQ, comm=b"", tgid=0)
        bench.kernel.blame(1, 20, victim=Victim.WORKER, culprit=Culprit.IRQ, comm=b"", tgid=0)
        bench.kernel.blame(1, 500, culprit=Culprit.TASK, comm=b"hog")

        assert bench.tick(1)[1].interrupted_ns == 27


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
    """Processes that have ended."""

    def test_what_is_open_is_decided(self, bench: Bench) -> None:
        """A wait without a culprit."""
        bench.kernel.feeding(1, dry_ns={RUNNABLE: 6})
        bench.tick(1)
        bench.accountant.finish([1, 2])

        assert bench.accountant.times()[1].lost == {(Cause.UNKNOWN, ""): 6}

    def test_books_are_thrown_away(self, bench: Bench) -> None:
        """Also of one that never had any."""
        bench.tick(1)
        bench.accountant.forget([1, 2])

        assert bench.accountant.times() == {}

    def test_errors_are_those_of_the_self_check(self, bench: Bench) -> None:
        """A thread of which half a second in one is missing."""
        bench.kernel.thread(1, 11, read_ns=0)
        bench.tick(1)
        bench.kernel.thread(1, 11, read_ns=1_000_000_000, booked_ns={ON_CPU: 500_000_000})
        bench.tick(1)

        assert bench.accountant.errors() == {"runnable": 0.0, "wall": 0.5}


class TestStanding:
    """What a diagnosis asks at every tick."""

    def test_losses_and_what_is_undecided(self, bench: Bench) -> None:
        """A stall of 6 waits for its culprit, a late return of 4 as well; the disk needs none. 64 calls were made."""
        bench.kernel.feeding(1, dry_ns={RUNNABLE: 6, IO: 3}, hits=(64, 0, 0))
        bench.kernel.exposure(1, "cudaStreamSynchronize", exact_ns=4)
        bench.tick(1)

        assert bench.accountant.progress(1) == WorkloadProgress({(Cause.BLOCK_IO, ""): 3}, 4, 10, calls=64)

    def test_losses_are_the_very_object_while_nothing_is_booked(self, bench: Bench) -> None:
        """And another one when something was; the old one stays as it is."""
        bench.kernel.feeding(1, dry_ns={IO: 3})
        bench.tick(1)
        first = bench.accountant.progress(1).lost_ns
        bench.tick(1)
        again = bench.accountant.progress(1).lost_ns
        bench.kernel.feeding(1, dry_ns={IO: 5})
        bench.tick(1)

        assert again is first == {(Cause.BLOCK_IO, ""): 3}
        assert bench.accountant.progress(1).lost_ns == {(Cause.BLOCK_IO, ""): 5}

    def test_process_without_books_is_nowhere(self, bench: Bench) -> None:
        """It has not come yet."""
        assert bench.accountant.progress(7) == WorkloadProgress({})

    def test_those_that_moved_are_known(self, bench: Bench) -> None:
        """Process 2 rests."""
        bench.kernel.feeding(1)
        bench.kernel.feeding(2)
        bench.tick(1, 2)
        bench.kernel.feeding(1, dry_ns={IO: 3})
        bench.tick(1, 2)

        assert bench.accountant.moved == {1}

    def test_culprits_are_known_by_their_tgids(self, bench: Bench) -> None:
        """The worst first; one that another process waited for is none."""
        bench.kernel.feeding(1)
        bench.kernel.blame(1, 1_000, comm=b"stress", tgid=667)
        bench.kernel.blame(1, 2_000, comm=b"stress", tgid=668)
        bench.kernel.blame(1, 9_000, comm=b"cc1", tgid=669)
        bench.kernel.blame(2, 9_000, comm=b"stress", tgid=670)
        bench.tick(1, 2)

        assert bench.accountant.tgids_of(1, "stress") == (668, 667)

    def test_those_that_were_awaited_are_known_by_their_tgids(self, bench: Bench) -> None:
        """But a thread of the same process has none."""
        bench.kernel.awaited(1, ThreadState.OUTPUT, by=(4711, Awaited.PROCESS, b"tee"), slept_ns=100)
        bench.kernel.awaited(1, ThreadState.LOCK, by=(0, Awaited.THREAD, b"tee"), slept_ns=900)
        bench.tick(1)

        assert bench.accountant.tgids_of(1, "tee") == (4711,)
