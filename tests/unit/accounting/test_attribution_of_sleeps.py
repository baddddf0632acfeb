"""attribution: the cause and the culprit of a sleep follow from what its waker, writer, reader or holder did."""

from __future__ import annotations

import pytest

from exporter.kernel.abi import Awaited, Culprit, ThreadState, Victim, Waker
from exporter.kernel.awaited_rows import AwaitedBy
from exporter.kernel.thread_rows import BlameKey
from tests.support.lost_time import CC_OF_OTHER, LOGGER_THREAD, OWN_OF_WORKER, STRESS, TEE, WORKER, XZ, Books

ON_CPU, RUNNABLE, IO, LOCK, PIPE, SOCKET, OUTPUT = (
    ThreadState.ON_CPU,
    ThreadState.RUNNABLE,
    ThreadState.IO,
    ThreadState.LOCK,
    ThreadState.PIPE,
    ThreadState.SOCKET,
    ThreadState.OUTPUT,
)
OWN_OF_OTHER = BlameKey(1, Victim.OTHER, Culprit.OWN, 100, 0, 7, b"python")
RSYNC = AwaitedBy(803, Awaited.PROCESS, b"rsync")


@pytest.fixture
def books() -> Books:
    """Nothing lost yet."""
    return Books()


class TestWakeupPaths:
    """What the one did that was waited for."""

    def test_stall_is_made_of_what_the_worker_did(self, books: Books) -> None:
        """A pipe, behind which a worker computed for a tenth of the time and read from a disk for the rest."""
        books.wakeup_path(PIPE, {ON_CPU: 100, IO: 900})

        assert books.book({PIPE: 50}) == {("dataloader", ""): 5, ("block_io", ""): 45}

    def test_worker_that_waits_for_a_cpu_is_charged_to_who_held_it(self, books: Books) -> None:
        """And not to who held that of the step threads."""
        books.wakeup_path(PIPE, {RUNNABLE: 100})
        books.charge(STRESS, 300)
        books.charge(OWN_OF_WORKER, 300)

        assert books.book({PIPE: 50}) == {("cpu_oversubscribed", "python"): 50}

    def test_late_worker_is_charged_with_what_has_grown_of_its_work(self, books: Books) -> None:
        """It computes for 40 ns in each step, hidden behind the GPU, and then reads from a disk for 60 ns besides: two thirds of
        the wait is seen to be computing, and all of it is the disk's.
        """
        for second in range(10):
            books.steps(10, {ON_CPU: 40})
            books.book(at=second)
        books.steps(10, {ON_CPU: 40, IO: 60})
        books.wakeup_path(PIPE, {ON_CPU: 400, IO: 200})

        assert books.book({PIPE: 600}, at=10) == {("block_io", ""): 600}

    def test_thread_of_the_process_is_charged_where_no_worker_is(self, books: Books) -> None:
        """A thread that fetches data."""
        books.wakeup_path(LOCK, {RUNNABLE: 100})
        books.charge(CC_OF_OTHER, 300)

        assert books.book({LOCK: 50}) == {("cpu_contention", "cc1"): 50}

    def test_unresolved_part_keeps_the_cause_of_the_sleep(self, books: Books) -> None:
        """A socket whose writer is on another machine, half of the time."""
        books.wakeup_path(SOCKET, {ON_CPU: 100}, abstained_ns=100)

        assert books.book({SOCKET: 50}) == {("dataloader", ""): 25, ("network", ""): 25}

    @pytest.mark.parametrize(
        ("state", "cause"),
        [("PIPE", "own_wait"), ("SOCKET", "network"), ("LOCK", "lock"), ("POLL", "own_wait"), ("OTHER", "other")],
    )
    def test_sleep_without_a_wakeup_path_keeps_its_cause(self, books: Books, state: str, cause: str) -> None:
        """What comes through a pipe comes from a worker only where one is seen."""
        assert books.book({ThreadState[state]: 50}) == {(cause, ""): 50}

    def test_waker_that_slept_itself_leaves_the_cause_to_the_sleep(self, books: Books) -> None:
        """The holder of a lock, a thread of the same process, slept with it."""
        books.wakeup_path(LOCK, {ThreadState.SLEEP: 100}, waker=Waker.THREAD)

        assert books.book({LOCK: 50}) == {("lock", ""): 50}

    @pytest.mark.parametrize("state", [ThreadState.POLL, ThreadState.PIPE])
    @pytest.mark.parametrize("waker", [Waker.THREAD, Waker.LOADER])
    def test_event_loop_that_passes_requests_on_is_an_own_wait(
        self, books: Books, waker: Waker, state: ThreadState
    ) -> None:
        """A server's thread waited until one came, and another thread slept until it was handed on; often, or once in a while."""
        books.wakeup_path(LOCK, {state: 100}, waker=waker)

        assert books.book({LOCK: 50}) == {("own_wait", ""): 50}

    def test_thread_that_works_ahead_is_the_dataloader(self, books: Books) -> None:
        """Whether it computed or slept."""
        books.wakeup_path(LOCK, {ON_CPU: 50, ThreadState.SLEEP: 50}, waker=Waker.LOADER)

        assert books.book({LOCK: 50}) == {("dataloader", ""): 50}

    def test_holder_that_computes_leaves_the_cause_to_the_sleep(self, books: Books) -> None:
        """It is no worker."""
        books.wakeup_path(LOCK, {ON_CPU: 100}, waker=Waker.THREAD)

        assert books.book({LOCK: 50}) == {("lock", ""): 50}

    def test_worker_behind_a_lock_is_the_dataloader(self, books: Books) -> None:
        """A thread of the process handed its data on; whether it computed or slept."""
        books.wakeup_path(LOCK, {ON_CPU: 100, ThreadState.SLEEP: 100}, waker=Waker.PROCESS)

        assert books.book({LOCK: 50}) == {("dataloader", ""): 50}

    def test_wakers_share_by_what_they_did(self, books: Books) -> None:
        """A worker that computed for three quarters of the time, a holder for one."""
        books.wakeup_path(LOCK, {ON_CPU: 300}, waker=Waker.PROCESS)
        books.wakeup_path(LOCK, {ON_CPU: 100}, waker=Waker.THREAD)

        assert books.book({LOCK: 80}) == {("dataloader", ""): 60, ("lock", ""): 20}

    def test_only_what_is_new_of_a_wakeup_path_counts(self, books: Books) -> None:
        """First the disk, then the CPU."""
        books.wakeup_path(PIPE, {IO: 900})
        books.book()
        books.wakeup_path(PIPE, {IO: 900, ON_CPU: 100})

        assert books.book({PIPE: 50}) == {("dataloader", ""): 50}

    def test_wakeup_path_of_another_state_says_nothing(self, books: Books) -> None:
        """A lock is not a pipe."""
        books.wakeup_path(PIPE, {IO: 900})

        assert books.book({LOCK: 50}) == {("lock", ""): 50}

    @pytest.mark.parametrize("state", ["PIPE", "SOCKET", "POLL"])
    def test_worker_that_sleeps_or_waits_for_data_itself_is_the_dataloader(self, books: Books, state: str) -> None:
        """Half of the time for a time-out, half for a pipe."""
        books.wakeup_path(ThreadState[state], {ThreadState.SLEEP: 50, PIPE: 50})

        assert books.book({ThreadState[state]: 50}) == {("dataloader", ""): 50}

    def test_worker_that_reads_back_pages_is_a_major_fault(self, books: Books) -> None:
        """For the part that the kernel says."""
        books.wakeup_path(PIPE, {ON_CPU: 40, ThreadState.FAULT: 60})

        assert books.book({PIPE: 50}) == {("dataloader", ""): 20, ("major_fault", ""): 30}

    def test_worker_whose_writes_are_blocked_is_blocked_output(self, books: Books) -> None:
        """It prints to a log whose reader is slow."""
        books.wakeup_path(PIPE, {OUTPUT: 100})
        books.awaited = {(OUTPUT, TEE): 70}

        assert books.book({PIPE: 50}) == {("blocked_output", "tee"): 50}

    def test_worker_that_hands_its_data_over_slowly_is_the_dataloader(self, books: Books) -> None:
        """No program outside the job reads what it writes."""
        books.wakeup_path(PIPE, {OUTPUT: 100})

        assert books.book({PIPE: 50}) == {("dataloader", ""): 50}

    def test_quota_of_a_worker_is_quota(self, books: Books) -> None:
        """Like every other state of it."""
        books.wakeup_path(PIPE, {ThreadState.THROTTLED: 1})

        assert books.book({PIPE: 50}) == {("cpu_quota", ""): 50}


class TestPipes:
    """Reads whose worker is not followed, and writes."""

    def test_program_outside_the_job_that_writes_is_named(self, books: Books) -> None:
        """`xz -dc data.xz | train`."""
        books.awaited = {(PIPE, XZ): 70}

        assert books.book({PIPE: 50}) == {("own_wait", "xz"): 50}

    def test_worker_that_writes_is_the_dataloader(self, books: Books) -> None:
        """What it did is unknown."""
        books.awaited = {(PIPE, WORKER): 70}

        assert books.book({PIPE: 50}) == {("dataloader", ""): 50}

    def test_thread_of_the_job_that_writes_is_no_worker(self, books: Books) -> None:
        """It wakes an event loop."""
        books.awaited = {(PIPE, LOGGER_THREAD): 70}

        assert books.book({PIPE: 50}) == {("own_wait", "logger"): 50}

    def test_blocked_write_is_charged_to_the_readers(self, books: Books) -> None:
        """In proportion to what was slept for each."""
        books.awaited = {(OUTPUT, TEE): 30, (OUTPUT, RSYNC): 10}

        assert books.book({OUTPUT: 80}) == {("blocked_output", "tee"): 60, ("blocked_output", "rsync"): 20}

    def test_blocked_write_without_a_known_reader_has_no_culprit(self, books: Books) -> None:
        """It was stopped before the exporter started."""
        assert books.book({OUTPUT: 80}) == {("blocked_output", ""): 80}

    def test_reader_is_remembered_for_five_seconds(self, books: Books) -> None:
        """What was slept and what was lost need not be read at once."""
        books.awaited = {(OUTPUT, TEE): 30}
        books.book({}, at=0.0)
        books.book({OUTPUT: 5}, at=5.0)
        assert not books.loss.is_at_rest
        books.book({OUTPUT: 7}, at=6.0)

        assert books.lost() == {("blocked_output", "tee"): 5, ("blocked_output", ""): 7}

    def test_child_that_was_waited_for_is_named(self, books: Books) -> None:
        """`subprocess.run()` in each step."""
        books.awaited = {(ThreadState.CHILD, RSYNC): 30}

        assert books.book({ThreadState.CHILD: 80}) == {("own_wait", "rsync"): 80}


class TestLocks:
    """The holder is the culprit; what it did is no cause, unless others kept it from it."""

    def test_holder_is_the_culprit(self, books: Books) -> None:
        """A thread of the same process, by the thread's name."""
        books.wakeup_path(LOCK, {ON_CPU: 100}, waker=Waker.THREAD)
        books.awaited = {(LOCK, LOGGER_THREAD): 100}

        assert books.book({LOCK: 50}) == {("lock", "logger"): 50}

    def test_holder_in_another_process_is_the_culprit(self, books: Books) -> None:
        """A file is locked, by a program outside the job."""
        books.wakeup_path(LOCK, {}, abstained_ns=100, waker=Waker.OTHER)
        books.awaited = {(LOCK, RSYNC): 100}

        assert books.book({LOCK: 50}) == {("lock", "rsync"): 50}

    def test_worker_that_holds_the_lock_of_a_file_is_no_dataloader(self, books: Books) -> None:
        """It hands on no data."""
        books.wakeup_path(LOCK, {ON_CPU: 60, ThreadState.SLEEP: 40}, waker=Waker.HOLDER)
        books.awaited = {(LOCK, WORKER): 100}

        assert books.book({LOCK: 50}) == {("lock", "python"): 50}

    def test_holder_that_waits_for_a_cpu_behind_the_job_itself_is_still_the_lock(self, books: Books) -> None:
        """Workers that have not changed are not the reason."""
        books.wakeup_path(LOCK, {ON_CPU: 50, RUNNABLE: 50}, waker=Waker.THREAD)
        books.charge(OWN_OF_OTHER, 300)
        books.awaited = {(LOCK, LOGGER_THREAD): 100}

        assert books.book({LOCK: 50}) == {("lock", "logger"): 50}

    def test_holder_that_waits_for_a_cpu_behind_another_program(self, books: Books) -> None:
        """That part is the program's."""
        books.wakeup_path(LOCK, {ON_CPU: 40, RUNNABLE: 60}, waker=Waker.THREAD)
        books.charge(CC_OF_OTHER, 300)
        books.awaited = {(LOCK, LOGGER_THREAD): 100}

        assert books.book({LOCK: 50}) == {("lock", "logger"): 20, ("cpu_contention", "cc1"): 30}

    @pytest.mark.parametrize(
        ("state", "cause"), [("IO", "block_io"), ("FAULT", "major_fault"), ("THROTTLED", "cpu_quota")]
    )
    def test_holder_that_waits_for_something_else(self, books: Books, state: str, cause: str) -> None:
        """A disk, a page, its quota."""
        books.wakeup_path(LOCK, {ON_CPU: 40, ThreadState[state]: 60}, waker=Waker.THREAD)

        assert books.book({LOCK: 50}) == {("lock", ""): 20, (cause, ""): 30}

    def test_holder_whose_writes_are_blocked(self, books: Books) -> None:
        """It holds the lock of the log."""
        books.wakeup_path(LOCK, {OUTPUT: 100}, waker=Waker.THREAD)
        books.awaited = {(OUTPUT, TEE): 100, (LOCK, LOGGER_THREAD): 100}

        assert books.book({LOCK: 50}) == {("blocked_output", "tee"): 50}

    def test_undecided_wait_of_a_holder_is_reported(self, books: Books) -> None:
        """Charges come later; a process that ends has none."""
        books.wakeup_path(LOCK, {RUNNABLE: 100}, waker=Waker.THREAD)
        books.book({LOCK: 50}, at=1.0)
        assert books.loss.undecided_ns() == 50
        books.loss.finish()

        assert books.lost() == {("unknown", ""): 50}
