"""What others of the job did while a thread waited for them: the wait is split, conserved, or left alone."""

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

Chains = Callable[..., Account]


@dataclass(frozen=True)
class Between:
    """From one bound to the other."""

    lowest: float
    highest: float

    def __contains__(self, value: float) -> bool:
        return self.lowest <= value <= self.highest


@pytest.fixture
def chains(account_tracer: Tracer, chains_program: Path) -> Chains:
    """Runs the program: GAPS gaps, in each of which somebody works for so long."""
    accounts.probe(account_tracer, chains_program)

    def run(work: str, us: int, *how: str) -> Account:
        return accounts.run(account_tracer, "taskset", "-c", "1", chains_program, work, str(GAPS), str(us), *how)

    return run


def split_ns(account: Account, state: ThreadState) -> dict[ThreadState, int]:
    """What the sleeps in a state were made of."""
    return dict(zip(ThreadState, account.chain(state).states_ns, strict=True))


def ran_ns(account: Account, tolerance: float) -> Between:
    """From the CPU time the worker had to the time it was on a CPU: what a hypervisor takes is booked when it leaves it."""
    cpu_ns, on_cpu_ns = account.truth["worker_cpu_ns"], account.truth["worker_ran_ns"]
    return Between(cpu_ns * (1 - tolerance), max(cpu_ns, on_cpu_ns) * (1 + tolerance))


class TestWorker:
    """A process that makes the data: depth 1."""

    def test_split_adds_up_to_the_sleep(self, chains: Chains) -> None:
        """Every window was resolved, and nothing abstained."""
        row = chains("both", 4000).chain(ThreadState.PIPE)

        assert sum(row.states_ns) == row.resolved_ns
        assert row.windows >= GAPS - 1
        assert row.abstained_ns <= row.resolved_ns * 0.1

    def test_worker_that_computes_is_on_the_cpu(self, chains: Chains) -> None:
        """As much CPU time as the kernel says it used."""
        account = chains("burn", 4000)
        split = split_ns(account, ThreadState.PIPE)

        assert split[ThreadState.ON_CPU] in ran_ns(account, 0.1)

    def test_worker_that_sleeps_is_asleep(self, chains: Chains) -> None:
        """30 times 4 ms and what timers come too late."""
        split = split_ns(chains("nap", 4000), ThreadState.PIPE)

        assert GAPS * 3.9 * MS <= split[ThreadState.SLEEP] <= GAPS * 8 * MS

    def test_worker_beside_hogs_waits_for_its_cpu(self, chains: Chains) -> None:
        """Two hogs on the same CPU: it computes no longer than before, and waits for longer than it computes."""
        with accounts.hogs(2, cpu=1):
            account = chains("burn", 4000)
        split = split_ns(account, ThreadState.PIPE)

        assert split[ThreadState.ON_CPU] in ran_ns(account, 0.15)
        assert split[ThreadState.RUNNABLE] > split[ThreadState.ON_CPU]


class TestSockets:
    """The same worker behind a socket."""

    @pytest.mark.parametrize(
        "how", [("unix",), ("tcp",), ("unix", "polled"), ("tcp", "polled"), ("tcp", "apart")], ids="-".join
    )
    def test_writer_is_the_waker(self, chains: Chains, how: tuple[str, ...]) -> None:
        """Over the loopback interface a soft interrupt wakes the reader, within the system call of the writer."""
        account = chains("burn", 4000, *how)
        row = account.chain(ThreadState.SOCKET)
        wakers = {key.waker for key in account.accounts.chains if key.state is ThreadState.SOCKET}

        assert wakers <= {Waker.PROCESS, Waker.NOBODY}
        assert row.windows >= GAPS - 1 - account.healed
        assert row.states_ns[ThreadState.ON_CPU] in ran_ns(account, 0.1)

    def test_busy_process_is_no_waker_of_a_thread_that_a_time_out_wakes(self, chains: Chains) -> None:
        """Nobody sends anything: its time-outs stay nobody's doing, whatever the busy process does."""
        row = chains("nap", 4000, "alone", "busy", "tcp").chain(ThreadState.POLL)

        assert row.windows == 0


class TestHelper:
    """A thread between the worker and the step thread: depth 2."""

    def test_what_the_worker_did_comes_through(self, chains: Chains) -> None:
        """The step thread waits for a lock, the helper for the worker, which computes for 2 ms and sleeps for 2."""
        account = chains("both", 4000, "helper")
        split = split_ns(account, ThreadState.LOCK)

        assert split[ThreadState.ON_CPU] in ran_ns(account, 0.3)
        assert GAPS * 1.5 * MS <= split[ThreadState.SLEEP] <= GAPS * 6 * MS
        assert split[ThreadState.PIPE] < 0.2 * account.truth["gap_ns"]


class TestAbstaining:
    """Nobody of the job ended the wait."""

    def test_time_out_is_nobodys_doing(self, chains: Chains) -> None:
        """A timer's interrupt wakes the thread, whoever was interrupted by it."""
        row = chains("burn", 4000, "alone").chain(ThreadState.POLL)

        assert row.windows == 0
        assert row.abstained_ns >= (GAPS - 1) * 3 * MS


class TestInterrupts:
    """Whoever is interrupted by what wakes a thread did not wake it: another process of the job, busy on the same CPU."""

    def test_busy_process_is_no_waker_of_a_thread_whose_time_is_up(self, chains: Chains) -> None:
        """The step thread's own 30 time-outs of 4 ms: nobody ended them."""
        row = chains("nap", 4000, "alone", "busy").chain(ThreadState.POLL)

        assert row.windows == 0
        assert row.abstained_ns >= (GAPS - 1) * 3 * MS

    def test_busy_process_is_no_waker_of_a_worker_that_naps(self, chains: Chains) -> None:
        """The worker's nap stays a nap, and does not become what the busy process did.

        30 of 8 ms, of which the first one is over when the step thread falls asleep: it sees a quarter at least.
        """
        split = split_ns(chains("nap", 8000, "early", "apart", "busy"), ThreadState.PIPE)

        assert split[ThreadState.SLEEP] >= GAPS * 2 * MS
        assert split[ThreadState.ON_CPU] < 0.5 * split[ThreadState.SLEEP]


class TestAcrossCpus:
    """The worker writes on CPU 0, the step thread is woken on CPU 1, by an interrupt from the other one."""

    @pytest.mark.hardware_speed
    def test_writer_is_the_waker(self, chains: Chains) -> None:
        """Always: every sleep is split over what the worker did, which computed; an event that was not shown costs one."""
        account = chains("burn", 4000, "apart")
        wakers = {key.waker for key in account.accounts.chains if key.state is ThreadState.PIPE}
        row = account.chain(ThreadState.PIPE)

        assert wakers <= {Waker.PROCESS, Waker.NOBODY}
        assert row.windows >= GAPS - 1 - account.healed
        assert row.states_ns[ThreadState.ON_CPU] in ran_ns(account, 0.1)

    @pytest.mark.hardware_speed
    def test_short_waits_are_split_as_long_ones_are(self, chains_program: Path, account_tracer: Tracer) -> None:
        """A thousand of a fifth of a millisecond: a worker that is awake before the step thread sleeps is no obstacle."""
        accounts.probe(account_tracer, chains_program)
        account = accounts.run(account_tracer, "taskset", "-c", "1", chains_program, "burn", "1000", "200", "apart")
        row = account.chain(ThreadState.PIPE)

        assert row.windows >= 999 - account.healed
        assert row.states_ns[ThreadState.ON_CPU] in ran_ns(account, 0.1)
