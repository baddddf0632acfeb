"""Wake-up paths: the sleep of a thread is split over what its waker in the job did, in full or not at all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from exporter.kernel.abi import IntervalKind, ThreadState, Victim, Waker
from exporter.kernel.thread_rows import WakeupKey, WakeupRow
from tests.support import accounts
from tests.support.accounts import UNASKED, Account
from tests.support.traced import Tracer

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
def wakeups(account_tracer: Tracer, wakeups_program: Path, cpu: int) -> Wakeups:
    """Runs the program with GAPS gaps, in each of which a worker works for this long. other: CPU of what is `apart`."""
    accounts.probe(account_tracer, wakeups_program)

    def run(work: str, us: int, *how: str, other: int | None = None, on: int = cpu) -> Account:
        command = ("taskset", "-c", str(on), wakeups_program, work, str(GAPS), str(us), *how)
        return accounts.run(account_tracer, *command, environment={"WAKEUPS_CPU": str(other)})

    return run


def split_ns(account: Account, state: ThreadState) -> dict[ThreadState, int]:
    """The states that the sleeps in a state are split into, without those that it has nothing of."""
    states_ns = zip(ThreadState, account.wakeup_row(state).states_ns, strict=True)
    return {state: ns for state, ns in states_ns if ns}


def wakers(account: Account, state: ThreadState) -> set[Waker]:
    """Kinds of wakers that ended sleeps in a state."""
    return {key.waker for key, row in account.accounts.wakeups.items() if key.state is state and row.windows}


def of_workers(account: Account) -> list[tuple[WakeupKey, WakeupRow]]:
    """All work of workers."""
    return [(key, row) for key, row in account.accounts.wakeups.items() if key.victim is Victim.WORKER]


def ran_ns(account: Account, tolerance: float) -> Between:
    """From the worker's CPU time to its time on a CPU: steal is only booked when it leaves the CPU."""
    cpu_ns, on_cpu_ns = account.truth["worker_cpu_ns"], account.truth["worker_ran_ns"]
    return Between(cpu_ns * (1 - tolerance), max(cpu_ns, on_cpu_ns) * (1 + tolerance))


class TestWorker:
    """A worker process that wakes the step thread: depth 1."""

    def test_split_adds_up_to_the_sleep(self, wakeups: Wakeups) -> None:
        """Each sleep in a gap is split, or has no known waker; to the nanosecond, unless an event was missed."""
        account = wakeups("both", 4000)
        row = account.wakeup_row(ThreadState.PIPE)
        slept_ns = account.interval_ns(IntervalKind.GAP)[ThreadState.PIPE]

        assert sum(row.states_ns) == row.resolved_ns > 0
        assert row.resolved_ns + row.abstained_ns == slept_ns or account.healed
        assert slept_ns <= account.truth["gap_ns"]
        assert wakers(account, ThreadState.PIPE) == {Waker.PROCESS}

    def test_worker_that_computes_is_on_the_cpu(self, wakeups: Wakeups) -> None:
        """It sleeps for nothing."""
        split = split_ns(wakeups("burn", 4000), ThreadState.PIPE)

        assert split[ThreadState.ON_CPU] > 0
        assert split.keys() <= UNASKED

    def test_worker_that_sleeps_is_asleep(self, wakeups: Wakeups) -> None:
        """Its sleep is not of the kind of the step thread's."""
        split = split_ns(wakeups("nap", 4000), ThreadState.PIPE)

        assert split[ThreadState.SLEEP] > 0
        assert split.keys() - UNASKED == {ThreadState.SLEEP}

    def test_worker_beside_hogs_waits_for_its_cpu(self, wakeups: Wakeups, cpu: int) -> None:
        """Two hogs on the same CPU."""
        with accounts.hogs(2, cpu):
            split = split_ns(wakeups("burn", 4000), ThreadState.PIPE)

        assert min(split[ThreadState.ON_CPU], split[ThreadState.RUNNABLE]) > 0
        assert split.keys() <= UNASKED

    def test_all_of_its_work_is_known_whether_or_not_it_is_waited_for(
        self, wakeups: Wakeups, two_cpus: tuple[int, int]
    ) -> None:
        """4 ms in each gap, of which the step thread computes for one itself. Between them it has nothing to do: no work."""
        on, other = two_cpus
        account = wakeups("burn", 4000, "early", "apart", on=on, other=other)
        ((key, row),) = of_workers(account)
        work = dict(zip(ThreadState, row.states_ns, strict=True))

        assert key.waker is Waker.PROCESS
        assert work[ThreadState.ON_CPU] >= max(GAPS * 4 * MS, split_ns(account, ThreadState.PIPE)[ThreadState.ON_CPU])
        assert work[ThreadState.PIPE] == 0
        assert sum(row.states_ns) == row.resolved_ns

    @pytest.mark.acceptance
    @pytest.mark.parametrize(("hogs", "tolerance"), [(0, 0.1), (2, 0.15)])
    def test_split_is_the_cpu_time_of_the_worker(self, wakeups: Wakeups, cpu: int, hogs: int, tolerance: float) -> None:
        """As much as the kernel reports. Beside hogs it waits for longer than it computes."""
        with accounts.hogs(hogs, cpu):
            account = wakeups("burn", 4000)
        split = split_ns(account, ThreadState.PIPE)

        assert account.wakeup_row(ThreadState.PIPE).windows >= GAPS - 1
        assert split[ThreadState.ON_CPU] in ran_ns(account, tolerance)
        assert (split[ThreadState.RUNNABLE] > split[ThreadState.ON_CPU]) is (hogs > 0)


class TestSockets:
    """The same worker with a socket."""

    @pytest.mark.parametrize(
        "how", [("unix",), ("tcp",), ("unix", "polled"), ("tcp", "polled"), ("tcp", "apart")], ids="-".join
    )
    def test_writer_is_the_waker(self, wakeups: Wakeups, request: pytest.FixtureRequest, how: tuple[str, ...]) -> None:
        """Over the loopback interface a soft interrupt wakes the reader, within the system call of the writer."""
        on, other = request.getfixturevalue("two_cpus") if "apart" in how else (request.getfixturevalue("cpu"), None)
        state = ThreadState.PIPE if "unix" in how else ThreadState.SOCKET
        account = wakeups("burn", 4000, *how, on=on, other=other)

        assert wakers(account, state) == {Waker.PROCESS}
        assert split_ns(account, state)[ThreadState.ON_CPU] > 0

    def test_busy_process_is_not_the_waker_after_a_time_out(self, wakeups: Wakeups) -> None:
        """No data is sent: its time-outs have no waker, whatever the busy process does."""
        account = wakeups("nap", 4000, "alone", "busy", "tcp")

        assert wakers(account, ThreadState.POLL) == set()


class TestHelper:
    """A helper thread between the worker and the step thread: depth 2."""

    def test_time_of_the_worker_passes_through_the_helper(self, wakeups: Wakeups) -> None:
        """The step thread waits for a lock, the helper for the worker, which computes for 2 ms and sleeps for 2."""
        account = wakeups("both", 4000, "helper")
        split, row = split_ns(account, ThreadState.LOCK), account.wakeup_row(ThreadState.LOCK)

        assert Waker.PROCESS in wakers(account, ThreadState.LOCK)
        assert min(split[ThreadState.ON_CPU], split[ThreadState.SLEEP]) > 0
        assert sum(row.states_ns) == row.resolved_ns
        assert (
            row.resolved_ns + row.abstained_ns == account.interval_ns(IntervalKind.GAP)[ThreadState.LOCK]
            or account.healed
        )

    @pytest.mark.acceptance
    def test_split_is_the_time_of_the_worker(self, wakeups: Wakeups) -> None:
        """Little is left of the helper's own wait."""
        account = wakeups("both", 4000, "helper")
        split = split_ns(account, ThreadState.LOCK)

        assert split[ThreadState.ON_CPU] in ran_ns(account, 0.3)
        assert GAPS * 1.5 * MS <= split[ThreadState.SLEEP] <= GAPS * 6 * MS
        assert split.get(ThreadState.PIPE, 0) < 0.2 * account.truth["gap_ns"]


class TestAbstaining:
    """No thread of the job ends the wait: a timer interrupt wakes the thread, whatever it interrupts."""

    @pytest.mark.parametrize("how", [("alone",), ("alone", "busy")], ids="-".join)
    def test_time_out_has_no_waker(self, wakeups: Wakeups, how: tuple[str, ...]) -> None:
        """30 time-outs of 4 ms, also beside a process of the job that never stops computing. A missed event costs one."""
        account = wakeups("burn", 4000, *how)
        row = account.wakeup_row(ThreadState.POLL)

        assert row.windows == 0
        assert (GAPS - account.healed) * 4 * MS <= row.abstained_ns <= account.truth["gap_ns"]


class TestInterrupts:
    """A process of the job that is interrupted by a wake-up on its CPU did not cause it."""

    def test_busy_process_is_not_the_waker_of_a_sleeping_worker(
        self, wakeups: Wakeups, two_cpus: tuple[int, int]
    ) -> None:
        """The worker's sleep stays a sleep."""
        on, other = two_cpus
        account = wakeups("nap", 8000, "early", "apart", "busy", on=on, other=other)

        assert split_ns(account, ThreadState.PIPE)[ThreadState.SLEEP] > 0

    @pytest.mark.acceptance
    def test_sleep_of_the_worker_is_no_time_of_the_busy_process(
        self, wakeups: Wakeups, two_cpus: tuple[int, int]
    ) -> None:
        """30 sleeps of 8 ms; part of each is over when the step thread falls asleep, so at least a quarter is in the split."""
        on, other = two_cpus
        split = split_ns(wakeups("nap", 8000, "early", "apart", "busy", on=on, other=other), ThreadState.PIPE)

        assert split[ThreadState.SLEEP] >= GAPS * 2 * MS
        assert split[ThreadState.ON_CPU] < 0.5 * split[ThreadState.SLEEP]


class TestAcrossCpus:
    """The worker writes on one CPU, the step thread is woken on another one by an inter-processor interrupt."""

    def test_writer_is_the_waker(self, wakeups: Wakeups, two_cpus: tuple[int, int]) -> None:
        """What it computes is in the split."""
        on, other = two_cpus
        account = wakeups("burn", 4000, "apart", on=on, other=other)
        row = account.wakeup_row(ThreadState.PIPE)

        assert wakers(account, ThreadState.PIPE) == {Waker.PROCESS}
        assert sum(row.states_ns) == row.resolved_ns
        assert split_ns(account, ThreadState.PIPE)[ThreadState.ON_CPU] > 0

    @pytest.mark.hardware_speed
    @pytest.mark.acceptance
    @pytest.mark.parametrize(("gaps", "us"), [(GAPS, 4000), (1000, 200)])
    def test_short_waits_are_split_like_long_ones(
        self,
        wakeups_program: Path,
        account_tracer: Tracer,
        two_cpus: tuple[int, int],
        gaps: int,
        us: int,
    ) -> None:
        """Also if the worker is awake before the step thread sleeps; a missed event costs one sleep."""
        on, other = two_cpus
        accounts.probe(account_tracer, wakeups_program)
        command = ("taskset", "-c", str(on), wakeups_program, "burn", str(gaps), str(us), "apart")
        account = accounts.run(account_tracer, *command, environment={"WAKEUPS_CPU": str(other)})
        row = account.wakeup_row(ThreadState.PIPE)

        assert row.windows >= gaps - 1 - account.healed
        assert row.states_ns[ThreadState.ON_CPU] in ran_ns(account, 0.1)
