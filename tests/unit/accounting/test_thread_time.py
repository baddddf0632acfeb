"""thread_time: every nanosecond of a thread, by call and state."""

from __future__ import annotations

import pytest

from exporter.accounting.thread_time import ThreadTime, Times, times_by_process
from exporter.kernel.abi import IntervalKind, ThreadState, Victim
from exporter.kernel.tables import Tables
from tests.support.tables import FakeTables

ON_CPU, GPU_WAIT, RUNNABLE = ThreadState.ON_CPU, ThreadState.GPU_WAIT, ThreadState.RUNNABLE
LOCK, POLL, SLEEP = ThreadState.LOCK, ThreadState.POLL, ThreadState.SLEEP


@pytest.fixture
def kernel() -> FakeTables:
    """Empty tables."""
    return FakeTables()


def times(kernel: FakeTables, process: int = 1) -> Times:
    """Times of one process."""
    return times_by_process(Tables(kernel.maps, kernel.iterate).read_accounts([process])).get(process, {})


class TestCalls:
    """Those that have returned, and those that are open."""

    def test_state_is_kept_apart_by_operation(self, kernel: FakeTables) -> None:
        """A launch and an allocation."""
        kernel.call(1, "cudaLaunchKernel", states_ns={ON_CPU: 5, RUNNABLE: 2})
        kernel.call(1, "cudaMalloc", states_ns={ON_CPU: 7})

        assert times(kernel) == {
            ("cudaLaunchKernel", "on_cpu"): 5,
            ("cudaLaunchKernel", "runnable"): 2,
            ("cudaMalloc", "on_cpu"): 7,
        }

    def test_communicators_are_added_up(self, kernel: FakeTables) -> None:
        """The operation is the label."""
        kernel.call(1, "ncclAllReduce", communicator=1, states_ns={ON_CPU: 5})
        kernel.call(1, "ncclAllReduce", communicator=2, states_ns={ON_CPU: 6})

        assert times(kernel) == {("ncclAllReduce", "on_cpu"): 11}

    @pytest.mark.parametrize("operation", ["cudaStreamSynchronize", "cuCtxSynchronize", "cudaEventSynchronize"])
    def test_spinning_for_the_gpu_is_waiting_for_it(self, kernel: FakeTables, operation: str) -> None:
        """So are polling and sleeping; waiting for a CPU is not."""
        kernel.call(1, operation, states_ns={ON_CPU: 1, GPU_WAIT: 2, POLL: 4, SLEEP: 8, RUNNABLE: 16, LOCK: 32})

        assert times(kernel) == {
            (operation, "gpu_wait"): 15,
            (operation, "runnable"): 16,
            (operation, "lock"): 32,
        }

    @pytest.mark.parametrize("operation", ["cudaMemcpy", "cudaMemcpyAsync", "cudaEventQuery"])
    def test_copy_works_and_waits(self, kernel: FakeTables, operation: str) -> None:
        """On a CPU it copies, or does something else between two queries."""
        kernel.call(1, operation, states_ns={ON_CPU: 1, GPU_WAIT: 2, POLL: 4, SLEEP: 8})

        assert times(kernel) == {(operation, "on_cpu"): 1, (operation, "gpu_wait"): 14}

    def test_open_call_counts_already(self, kernel: FakeTables) -> None:
        """A hang shows while it lasts."""
        kernel.call(1, "cudaStreamSynchronize", states_ns={ON_CPU: 5})
        kernel.thread(1, 11, operation="cudaStreamSynchronize", open_ns={ON_CPU: 100}, gaps_ns={ON_CPU: 3})

        assert times(kernel) == {("cudaStreamSynchronize", "gpu_wait"): 105, ("gap", "on_cpu"): 3}


class TestGaps:
    """Time in no call."""

    def test_gaps_of_ended_and_living_threads_are_added_up(self, kernel: FakeTables) -> None:
        """Gaps of step threads."""
        kernel.interval(1, IntervalKind.GAP, {LOCK: 5})
        kernel.thread(1, 11, gaps_ns={LOCK: 6}, idle_ns={LOCK: 7})

        assert times(kernel) == {("gap", "lock"): 11, ("idle", "lock"): 7}

    def test_open_gap_is_counted_once(self, kernel: FakeTables) -> None:
        """It is among the gaps already."""
        kernel.thread(1, 11, open_ns={LOCK: 6}, gaps_ns={LOCK: 6})

        assert times(kernel) == {("gap", "lock"): 6}

    def test_gaps_of_other_threads_are_kept_apart(self, kernel: FakeTables) -> None:
        """A watchdog's work delays no step."""
        kernel.interval(1, IntervalKind.OTHER_GAP, {SLEEP: 5})
        kernel.thread(1, 11, victim=Victim.OTHER, gaps_ns={SLEEP: 6})

        assert times(kernel) == {("other_gap", "sleep"): 11}

    def test_worker_is_a_worker_whatever_it_does(self, kernel: FakeTables) -> None:
        """It makes no call."""
        kernel.interval(1, IntervalKind.WORKER, {ON_CPU: 5})
        kernel.thread(1, 11, victim=Victim.WORKER, booked_ns={ON_CPU: 6}, gaps_ns={ON_CPU: 99})

        assert times(kernel) == {("worker", "on_cpu"): 11}

    def test_calls_that_never_returned_have_a_place_of_their_own(self, kernel: FakeTables) -> None:
        """In no histogram, but in the time of the thread."""
        kernel.interval(1, IntervalKind.ABANDONED, {ON_CPU: 5})
        kernel.interval(1, IntervalKind.IDLE, {SLEEP: 6})

        assert times(kernel) == {("abandoned", "on_cpu"): 5, ("idle", "sleep"): 6}

    def test_processes_are_kept_apart(self, kernel: FakeTables) -> None:
        """By their numbers."""
        kernel.thread(1, 11, gaps_ns={LOCK: 6})
        kernel.thread(2, 21, gaps_ns={LOCK: 9})

        assert (times(kernel, 1), times(kernel, 2)) == ({("gap", "lock"): 6}, {("gap", "lock"): 9})


class TestMonotone:
    """What was given stays."""

    def test_value_that_would_go_back_stays(self) -> None:
        """A call ended while the tables were read; the next reading has it."""
        time = ThreadTime()
        time.update({("gap", "lock"): 10})
        time.update({("gap", "lock"): 4})
        in_between = dict(time.reported())
        time.update({("gap", "lock"): 12})

        assert (in_between, time.reported()) == ({("gap", "lock"): 10}, {("gap", "lock"): 12})

    def test_sum_below_zero_is_no_sum_of_centuries(self, kernel: FakeTables) -> None:
        """A switch was missed, and 5 ns of a gap belonged to another state."""
        kernel.thread(1, 11, gaps_ns={POLL: 2**64 - 5})
        time = ThreadTime()
        time.update(times(kernel))
        below = dict(time.reported())
        kernel.thread(1, 12, gaps_ns={POLL: 7})
        time.update(times(kernel))

        assert (below, time.reported()) == ({}, {("gap", "poll"): 2})

    def test_value_that_is_missing_stays(self) -> None:
        """Once written, always written."""
        time = ThreadTime()
        time.update({("cudaFree", "on_cpu"): 10})
        time.update({})

        assert time.reported() == {("cudaFree", "on_cpu"): 10}
