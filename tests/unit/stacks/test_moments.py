"""moments: the stack of a thread that feeds the GPU is taken when it shows the cause."""

from __future__ import annotations

from exporter.causes import Cause
from exporter.kernel.abi import OPERATION_NONE
from exporter.kernel.operations import NUMBERS
from exporter.kernel.stacks import Stack
from exporter.stacks.line_samples import INTERVAL_SECONDS, SAMPLES
from exporter.stacks.moments import take_showing
from tests.support.stacks import a_stack

IN_GPU_WAIT = a_stack()
IN_LAUNCH = a_stack(operation=NUMBERS["cudaLaunchKernel"])
WAITS = a_stack(operation=OPERATION_NONE)
RUNS = a_stack(operation=OPERATION_NONE, is_running=True)


class Thread:
    """Is in each state in turn, and stays in the last one."""

    def __init__(self, *states: Stack | None) -> None:
        self.states = states
        self.taken = 0
        self.slept = 0.0

    def take(self, tid: int) -> Stack | None:
        assert tid == 4711
        state = self.states[min(self.taken, len(self.states) - 1)]
        self.taken += 1
        return state

    def sleep(self, seconds: float) -> None:
        self.slept += seconds

    def showing(self, cause: Cause) -> Stack | None:
        return take_showing(cause, 4711, self.take, self.sleep)


class TestMoments:
    def test_wait_of_the_job_is_taken_while_it_waits_outside_calls(self) -> None:
        thread = Thread(IN_GPU_WAIT, RUNS, IN_LAUNCH, WAITS, RUNS)

        assert thread.showing(Cause.OWN_WAIT) == WAITS
        assert (thread.taken, round(thread.slept / INTERVAL_SECONDS)) == (4, 3)

    def test_code_of_the_job_is_taken_while_it_runs_outside_calls(self) -> None:
        assert Thread(WAITS, IN_LAUNCH, RUNS).showing(Cause.OWN_CODE) == RUNS

    def test_lock_is_taken_while_the_thread_waits_also_in_a_call_that_is_no_wait_for_the_gpu(self) -> None:
        assert Thread(RUNS, IN_GPU_WAIT, IN_LAUNCH).showing(Cause.LOCK) == IN_LAUNCH

    def test_output_is_taken_while_the_thread_waits(self) -> None:
        assert Thread(RUNS, WAITS).showing(Cause.BLOCKED_OUTPUT) == WAITS

    def test_first_stack_is_taken_for_a_cause_that_stays(self) -> None:
        """Such as a hang."""
        thread = Thread(RUNS, WAITS)

        assert thread.showing(Cause.NCCL_HANG) == RUNS
        assert thread.taken == 1

    def test_last_stack_is_taken_if_none_shows_the_cause(self) -> None:
        thread = Thread(IN_GPU_WAIT, *[IN_LAUNCH] * (SAMPLES - 2), RUNS, WAITS)

        assert thread.showing(Cause.OWN_WAIT) == RUNS
        assert thread.taken == SAMPLES

    def test_thread_that_has_ended_has_none(self) -> None:
        thread = Thread(None)

        assert thread.showing(Cause.OWN_WAIT) is None
        assert thread.taken == 1

    def test_last_stack_of_a_thread_that_has_ended_since_is_kept(self) -> None:
        assert Thread(IN_GPU_WAIT, None).showing(Cause.OWN_WAIT) == IN_GPU_WAIT
