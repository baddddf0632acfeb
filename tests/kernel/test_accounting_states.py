"""States: every nanosecond of a thread is booked once, to the state that the program was in."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from exporter.kernel.abi import Culprit, IntervalKind, ThreadState
from tests.support import accounts
from tests.support.accounts import Account, share
from tests.support.traced import Tracer, tracer

pytestmark = pytest.mark.whole_machine

WAITS = 23
MS = 1_000_000
PROBE_NS = 20_000  # cost of the probes of one call outside it, on a busy machine

Waits = Callable[..., Account]


@pytest.fixture
def waits(account_tracer: Tracer, waits_program: Path) -> Waits:
    """Runs the program in one mode, WAITS times, and reads the accounts."""
    accounts.probe(account_tracer, waits_program)

    def run(place: str, way: str, us: int = 2000, times: int = WAITS, cpu: str = "0,1") -> Account:
        file = {"WAITS_FILE": str(waits_program)}
        return accounts.run(
            account_tracer, "taskset", "-c", cpu, waits_program, place, way, str(times), str(us), environment=file
        )

    return run


class TestClasses:
    """Waits of 10 ms, each in one system call, inside a probed call."""

    @pytest.mark.parametrize(
        ("way", "state"),
        [
            ("nap", ThreadState.SLEEP),
            ("poll", ThreadState.POLL),
            ("select", ThreadState.POLL),
            ("epoll", ThreadState.POLL),
            ("futex", ThreadState.LOCK),
            ("timerfd", ThreadState.OTHER),
            ("pipe", ThreadState.PIPE),
            ("socket", ThreadState.SOCKET),
            ("polled-socket", ThreadState.SOCKET),
            ("unix-socket", ThreadState.PIPE),
            ("polled-unix-socket", ThreadState.PIPE),
            ("polled-sockets", ThreadState.POLL),
            ("polled-listener", ThreadState.POLL),
            ("polled-pipe", ThreadState.POLL),
            ("child", ThreadState.CHILD),
            ("stopped", ThreadState.STOPPED),
        ],
    )
    def test_sleep_has_the_state_of_its_system_call(self, waits: Waits, way: str, state: ThreadState) -> None:
        """At least nine tenths of the sleeps; the rest is the end of a helping child."""
        states_ns = waits("call", way, us=10_000).call_ns("cudaEventRecord")
        asleep = {s: ns for s, ns in states_ns.items() if s not in (ThreadState.ON_CPU, ThreadState.RUNNABLE)}

        assert share(asleep, state) > 0.9
        assert asleep[state] > WAITS * 9.8 * MS

    def test_direct_read_is_io(self, waits: Waits) -> None:
        """O_DIRECT; the thread sleeps for nothing else, or not at all if a virtual disk answers at once."""
        states_ns = waits("call", "reads", times=50).call_ns("cudaEventRecord")
        asleep = {s: ns for s, ns in states_ns.items() if s not in (ThreadState.ON_CPU, ThreadState.RUNNABLE)}
        if not asleep:
            pytest.skip("this disk answers fifty times before the thread sleeps")

        assert share(asleep, ThreadState.IO) > 0.9

    def test_spinning_is_on_the_cpu(self, waits: Waits) -> None:
        """Or waiting for a CPU, but never asleep."""
        states_ns = waits("call", "spin").call_ns("cudaEventRecord")

        assert set(states_ns) <= {ThreadState.ON_CPU, ThreadState.RUNNABLE}

    def test_yielding_is_no_sleep(self, waits: Waits) -> None:
        """sched_yield() leaves the thread runnable, and the switch counts as involuntary."""
        account = waits("call", "yields")

        assert set(account.call_ns("cudaEventRecord")) <= {ThreadState.ON_CPU, ThreadState.RUNNABLE}
        assert account.switches()[0] == account.truth["voluntary"]

    def test_being_preempted_is_no_sleep(self, waits: Waits) -> None:
        """Beside a hog on the same CPU: neither the flag of the switch nor the task state alone shows a preemption."""
        with accounts.hogs(1, cpu=1):
            states_ns = waits("call", "spin", 100_000, 5, cpu="1").call_ns("cudaEventRecord")

        assert set(states_ns) <= {ThreadState.ON_CPU, ThreadState.RUNNABLE}
        assert states_ns[ThreadState.RUNNABLE] > 0.3 * sum(states_ns.values())


class TestConservation:
    """Against measurements of the program itself."""

    @pytest.mark.parametrize("way", ["spin", "nap", "pipe", "yields"])
    def test_states_add_up_to_the_time_in_the_call(self, waits: Waits, way: str) -> None:
        """Except the time of the probes, and the time between them and the program's own clock readings."""
        account = waits("call", way)
        beyond_ns = account.truth["wall_ns"] - sum(account.call_ns("cudaEventRecord").values())

        assert 0 <= beyond_ns <= WAITS * PROBE_NS + sum(account.interval_ns(IntervalKind.GAP).values())

    def test_states_add_up_to_the_time_in_the_gap(self, waits: Waits) -> None:
        """The gap that the program waits in, and the two short ones around it."""
        account = waits("gap", "nap")
        gaps_ns = account.interval_ns(IntervalKind.GAP)

        assert gaps_ns[ThreadState.SLEEP] >= WAITS * 2 * MS
        assert sum(gaps_ns.values()) >= account.truth["wall_ns"] - WAITS * PROBE_NS

    @pytest.mark.parametrize("way", ["nap", "pipe", "spin"])
    def test_switches_are_those_the_kernel_counts(self, waits: Waits, way: str) -> None:
        """voluntary_ctxt_switches; off by at most one for each missed event."""
        account = waits("call", way)
        voluntary, _ = account.switches()

        assert abs(voluntary - account.truth["voluntary"]) <= account.healed

    @pytest.mark.hardware_speed
    def test_waiting_for_a_cpu_is_the_kernel_s_run_delay(self, waits: Waits) -> None:
        """Under contention without wake-ups the two agree; an event that was not shown costs a slice at most.

        But for what a hypervisor took, which the kernel counts for the machine alone.
        """
        with accounts.hogs(1, cpu=1):
            account = waits("call", "spin", 100_000, 5, cpu="1")
        stolen_ns = account.blame_ns().get((Culprit.HYPERVISOR, b""), 0)
        runnable_ns = account.call_ns("cudaEventRecord")[ThreadState.RUNNABLE] - stolen_ns

        assert runnable_ns == pytest.approx(account.truth["run_delay_ns"], rel=0.02, abs=account.healed * 8 * MS)

    def test_wake_ups_only_add_to_run_delay(self, waits: Waits) -> None:
        """The kernel leaves out the time from the wake-up to the next update of its clock."""
        account = waits("call", "nap")
        runnable_ns = account.call_ns("cudaEventRecord")[ThreadState.RUNNABLE]

        assert runnable_ns >= account.truth["run_delay_ns"] * 0.99 - (account.healed + 1) * MS


class TestIdle:
    """The part of a gap beyond `idle_ns` is idle."""

    @pytest.mark.hardware_speed
    def test_gap_is_cut_where_it_became_idle(self, waits_program: Path) -> None:
        """Three gaps of 300 ms with a limit of 100 ms: 300 ms are gap, 600 ms idle."""
        with tracer(idle_ns=100 * MS) as found:
            accounts.probe(found, waits_program)
            account = accounts.run(found, waits_program, "gap", "nap", "3", "300000")

        gap_ns = sum(account.interval_ns(IntervalKind.GAP).values())
        idle_ns = sum(account.interval_ns(IntervalKind.IDLE).values())

        assert 300 * MS <= gap_ns <= 330 * MS
        assert gap_ns + idle_ns >= account.truth["wall_ns"] - 3 * PROBE_NS
