"""Wake-up paths: the sleep of a thread is split over what its waker in the job did, in full or not at all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from exporter.kernel.abi import ThreadState, Waker
from tests.support import accounts
from tests.support.accounts import Account
from tests.support.traced import Tracer

pytestmark = pytest.mark.whole_machine

MS = 1_000_000
GAPS = 30

Wakeups = Callable[..., Account]


@dataclass(frozen=True)
class Between:
    """Within two bounds."""

    lowest: float
    highest: float

    def __contains__(self, value: float) -> bool:
        return self.lowest <= value <= self.highest


@pytest.fixture
def wakeups(account_tracer: Tracer, wakeups_program: Path) -> Wakeups:
    """Runs the program with GAPS gaps, in each of which a worker works for this long."""
    accounts.probe(account_tracer, wakeups_program)

    def run(work: str, us: int, *how: str) -> Account:
        return accounts.run(account_tracer, "taskset", "-c", "1", wakeups_program, work, str(GAPS), str(us), *how)

    return run


def split_ns(account: Account, state: ThreadState) -> dict[ThreadState, int]:
    """The states that the sleeps in a state are split into."""
    return dict(zip(ThreadState, account.wakeup_row(state).states_ns, strict=True))


def ran_ns(account: Account, tolerance: float) -> Between:
    """From the worker's CPU time to its time on a CPU: steal is only booked when it leaves the CPU."""
    cpu_ns, on_cpu_ns = account.truth["worker_cpu_ns"], account.truth["worker_ran_ns"]
    return Between(cpu_ns * (1 - tolerance), max(cpu_ns, on_cpu_ns) * (1 + tolerance))


class TestWorker:
    """A worker process that wakes the step thread: depth 1."""

    def test_split_adds_up_to_the_sleep(self, wakeups: Wakeups) -> None:
        """Every window is resolved."""
        row = wakeups("both", 4000).wakeup_row(ThreadState.PIPE)

        assert sum(row.states_ns) == row.resolved_ns
        assert row.windows >= GAPS - 1
        assert row.abstained_ns <= row.resolved_ns * 0.1

    def test_worker_that_computes_is_on_the_cpu(self, wakeups: Wakeups) -> None:
        """As much CPU time as the kernel reports."""
        account = wakeups("burn", 4000)
        split = split_ns(account, ThreadState.PIPE)

        assert split[ThreadState.ON_CPU] in ran_ns(account, 0.1)

    def test_worker_that_sleeps_is_asleep(self, wakeups: Wakeups) -> None:
        """30 times 4 ms, and the delay of the timers."""
        split = split_ns(wakeups("nap", 4000), ThreadState.PIPE)

        assert GAPS * 3.9 * MS <= split[ThreadState.SLEEP] <= GAPS * 8 * MS

    def test_worker_beside_hogs_waits_for_its_cpu(self, wakeups: Wakeups) -> None:
        """Two hogs on the same CPU: it computes as long as before, and waits for longer than it computes."""
        with accounts.hogs(2, cpu=1):
            account = wakeups("burn", 4000)
        split = split_ns(account, ThreadState.PIPE)

        assert split[ThreadState.ON_CPU] in ran_ns(account, 0.15)
        assert split[ThreadState.RUNNABLE] > split[ThreadState.ON_CPU]


class TestSockets:
    """The same worker with a socket."""

    @pytest.mark.parametrize(
        "how", [("unix",), ("tcp",), ("unix", "polled"), ("tcp", "polled"), ("tcp", "apart")], ids="-".join
    )
    def test_writer_is_the_waker(self, wakeups: Wakeups, how: tuple[str, ...]) -> None:
        """Over the loopback interface a soft interrupt wakes the reader, within the system call of the writer."""
        state = ThreadState.PIPE if "unix" in how else ThreadState.SOCKET
        account = wakeups("burn", 4000, *how)
        row = account.wakeup_row(state)
        wakers = {key.waker for key in account.accounts.wakeups if key.state is state}

        assert wakers <= {Waker.PROCESS, Waker.OTHER}
        assert row.windows >= GAPS - 1 - account.healed
        assert row.states_ns[ThreadState.ON_CPU] in ran_ns(account, 0.1)

    def test_busy_process_is_not_the_waker_after_a_time_out(self, wakeups: Wakeups) -> None:
        """No data is sent: its time-outs have no waker, whatever the busy process does."""
        row = wakeups("nap", 4000, "alone", "busy", "tcp").wakeup_row(ThreadState.POLL)

        assert row.windows == 0


class TestHelper:
    """A helper thread between the worker and the step thread: depth 2."""

    def test_time_of_the_worker_passes_through_the_helper(self, wakeups: Wakeups) -> None:
        """The step thread waits for a lock, the helper for the worker, which computes for 2 ms and sleeps for 2."""
        account = wakeups("both", 4000, "helper")
        split = split_ns(account, ThreadState.LOCK)

        assert split[ThreadState.ON_CPU] in ran_ns(account, 0.3)
        assert GAPS * 1.5 * MS <= split[ThreadState.SLEEP] <= GAPS * 6 * MS
        assert split[ThreadState.PIPE] < 0.2 * account.truth["gap_ns"]


class TestAbstaining:
    """No thread of the job ends the wait."""

    def test_time_out_has_no_waker(self, wakeups: Wakeups) -> None:
        """A timer interrupt wakes the thread, whatever it interrupts."""
        row = wakeups("burn", 4000, "alone").wakeup_row(ThreadState.POLL)

        assert row.windows == 0
        assert row.abstained_ns >= (GAPS - 1) * 3 * MS


class TestInterrupts:
    """A process of the job that is interrupted by a wake-up on its CPU did not cause it."""

    def test_busy_process_is_not_the_waker_of_the_step_thread(self, wakeups: Wakeups) -> None:
        """The step thread has 30 time-outs of 4 ms of its own, without a waker."""
        row = wakeups("nap", 4000, "alone", "busy").wakeup_row(ThreadState.POLL)

        assert row.windows == 0
        assert row.abstained_ns >= (GAPS - 1) * 3 * MS

    def test_busy_process_is_not_the_waker_of_a_sleeping_worker(self, wakeups: Wakeups) -> None:
        """The worker's sleep stays a sleep, and does not become time of the busy process.

        30 sleeps of 8 ms; part of each is over when the step thread falls asleep, so at least a quarter is in the split.
        """
        split = split_ns(wakeups("nap", 8000, "early", "apart", "busy"), ThreadState.PIPE)

        assert split[ThreadState.SLEEP] >= GAPS * 2 * MS
        assert split[ThreadState.ON_CPU] < 0.5 * split[ThreadState.SLEEP]


class TestAcrossCpus:
    """The worker writes on CPU 0, the step thread is woken on CPU 1 by an inter-processor interrupt."""

    @pytest.mark.hardware_speed
    def test_writer_is_the_waker(self, wakeups: Wakeups) -> None:
        """Every sleep is split over the worker's computing; a missed event costs one sleep."""
        account = wakeups("burn", 4000, "apart")
        wakers = {key.waker for key in account.accounts.wakeups if key.state is ThreadState.PIPE}
        row = account.wakeup_row(ThreadState.PIPE)

        assert wakers <= {Waker.PROCESS, Waker.OTHER}
        assert row.windows >= GAPS - 1 - account.healed
        assert row.states_ns[ThreadState.ON_CPU] in ran_ns(account, 0.1)

    @pytest.mark.hardware_speed
    def test_short_waits_are_split_like_long_ones(self, wakeups_program: Path, account_tracer: Tracer) -> None:
        """A thousand waits of 0.2 ms, also if the worker is awake before the step thread sleeps."""
        accounts.probe(account_tracer, wakeups_program)
        account = accounts.run(account_tracer, "taskset", "-c", "1", wakeups_program, "burn", "1000", "200", "apart")
        row = account.wakeup_row(ThreadState.PIPE)

        assert row.windows >= 999 - account.healed
        assert row.states_ns[ThreadState.ON_CPU] in ran_ns(account, 0.1)
