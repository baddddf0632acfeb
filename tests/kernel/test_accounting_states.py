"""States: every nanosecond of a thread is booked once, to the state that the program was in."""

from __future__ import annotations

import resource
from collections.abc import Callable
from pathlib import Path

import pytest

from exporter.kernel.abi import Culprit, IntervalKind, ThreadState
from tests.support import accounts
from tests.support.accounts import UNASKED, Account, share
from tests.support.traced import Tracer, tracer

WAITS = 23
MS = 1_000_000

Waits = Callable[..., Account]


@pytest.fixture
def waits(account_tracer: Tracer, waits_program: Path) -> Waits:
    """Runs the program in one mode, WAITS times, and reads the accounts. cpu: the only one that it may use."""
    accounts.probe(account_tracer, waits_program)

    def run(place: str, way: str, us: int = 2000, times: int = WAITS, cpu: int | None = None) -> Account:
        pinned = () if cpu is None else ("taskset", "-c", str(cpu))
        command = (*pinned, waits_program, place, way, str(times), str(us))
        return accounts.run(account_tracer, *command, environment={"WAITS_FILE": str(waits_program)})

    return run


WITH_CHILD = frozenset(
    ("pipe", "socket", "polled-socket", "unix-socket", "polled-unix-socket", "polled-pipe", "child", "stopped")
)


BEGUN_BEFORE = WITH_CHILD | {"timerfd"}
"""Ways in which the 10 ms begin before the system call that waits: a thread without a CPU in between waits in it for less."""


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
        """The whole sleep, and no other one; a helping child is waited for, too. A missed event costs one sleep.

        To start the child may take a sleep of no class: fork(2) waits while another process changes control groups.
        """
        account = waits("call", way, us=10_000)
        states_ns = account.call_ns("cudaEventRecord")
        of_child = {ThreadState.CHILD, ThreadState.OTHER} if way in WITH_CHILD else set()

        assert states_ns.keys() - UNASKED <= {state} | of_child
        without_cpu_ns = sum(states_ns.get(one, 0) for one in UNASKED) if way in BEGUN_BEFORE else 0
        assert (WAITS - account.healed) * 10 * MS <= states_ns[state] + without_cpu_ns
        assert states_ns[state] <= account.truth["inside_ns"]

    def test_direct_read_is_io(self, waits: Waits) -> None:
        """O_DIRECT; the thread sleeps for nothing else, or not at all if a virtual disk answers at once."""
        states_ns = waits("call", "reads", times=50).call_ns("cudaEventRecord")

        assert states_ns.keys() - UNASKED <= {ThreadState.IO}

    @pytest.mark.parametrize("way", ["spin", "yields"])
    def test_thread_that_asks_for_no_sleep_has_none(self, waits: Waits, way: str) -> None:
        """sched_yield() leaves the thread runnable, and its switches count as voluntary."""
        states_ns = waits("call", way).call_ns("cudaEventRecord")

        assert states_ns.keys() <= UNASKED
        assert states_ns[ThreadState.ON_CPU] > 0

    def test_being_preempted_is_no_sleep(self, waits: Waits, cpu: int) -> None:
        """Beside a hog on the same CPU: neither the flag of the switch nor the task state alone shows a preemption."""
        with accounts.hogs(1, cpu):
            states_ns = waits("call", "burn", 50_000, 5, cpu=cpu).call_ns("cudaEventRecord")

        assert states_ns.keys() <= UNASKED
        assert states_ns[ThreadState.RUNNABLE] > 0

    @pytest.mark.acceptance
    def test_thread_beside_a_hog_waits_for_a_third_of_the_time(self, waits: Waits, cpu: int) -> None:
        """And for the CPU alone."""
        with accounts.hogs(1, cpu):
            states_ns = waits("call", "spin", 100_000, 5, cpu=cpu).call_ns("cudaEventRecord")

        assert share(states_ns, ThreadState.RUNNABLE) > 0.3


class TestConservation:
    """Against measurements of the program itself."""

    @pytest.mark.parametrize("way", ["spin", "nap", "pipe", "yields", "stopped"])
    def test_states_add_up_to_the_time_in_the_call(self, waits: Waits, way: str) -> None:
        """The program reads its clock just inside and just outside each call."""
        account = waits("call", way)
        booked_ns = sum(account.call_ns("cudaEventRecord").values())

        assert account.truth["inside_ns"] <= booked_ns <= account.truth["wall_ns"]

    def test_states_add_up_to_the_time_in_the_gap(self, waits: Waits) -> None:
        """The gap that the program waits in, and the two short ones around it."""
        account = waits("gap", "nap")
        gaps_ns = account.interval_ns(IntervalKind.GAP)

        assert (WAITS - account.healed) * 2 * MS <= gaps_ns[ThreadState.SLEEP]
        assert account.truth["wall_ns"] <= sum(gaps_ns.values())

    @pytest.mark.parametrize("place", ["call", "sync", "gap"])
    def test_calls_and_gaps_add_up_to_the_life_of_the_thread(self, waits: Waits, place: str) -> None:
        """From its first call to its end, without a hole and without an overlap."""
        account = waits(place, "nap")
        life_ns = account.read_ns - account.truth["began_ns"]

        assert account.truth["total_ns"] <= sum(account.booked_ns().values()) <= life_ns

    @pytest.mark.parametrize("way", ["spin", "nap", "yields"])
    def test_voluntary_switches_are_those_the_kernel_counts(self, waits: Waits, way: str) -> None:
        """At least those between two of the program's readings, at most those of its whole life; missed ones are no switches."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_nvcsw
        account = waits("call", way)
        most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_nvcsw - before
        voluntary, _ = account.switches()

        assert account.truth["voluntary"] - account.healed <= voluntary <= most

    @pytest.mark.hardware_speed
    @pytest.mark.acceptance
    def test_waiting_for_a_cpu_is_the_kernel_s_run_delay(self, waits: Waits, cpu: int) -> None:
        """Under contention without wake-ups the two agree; an event that was not shown costs a slice at most.

        But for what a hypervisor took, which the kernel counts for the machine alone.
        """
        with accounts.hogs(1, cpu):
            account = waits("call", "spin", 100_000, 5, cpu=cpu)
        stolen_ns = account.blame_ns().get((Culprit.HYPERVISOR, b""), 0)
        runnable_ns = account.call_ns("cudaEventRecord")[ThreadState.RUNNABLE] - stolen_ns

        assert runnable_ns == pytest.approx(account.truth["run_delay_ns"], rel=0.02, abs=account.healed * 8 * MS)

    @pytest.mark.acceptance
    def test_wake_ups_only_add_to_run_delay(self, waits: Waits) -> None:
        """The kernel leaves out the time from the wake-up to the next update of its clock."""
        account = waits("call", "nap")
        runnable_ns = account.call_ns("cudaEventRecord")[ThreadState.RUNNABLE]

        assert runnable_ns >= account.truth["run_delay_ns"] * 0.99 - (account.healed + 1) * MS


class TestIdle:
    """The part of a gap beyond `idle_ns` is idle."""

    def test_gap_is_cut_where_it_became_idle(self, waits_program: Path) -> None:
        """Three gaps of 300 ms with a limit of 100 ms: 300 ms are gap, and so is the time before and after; 600 ms are idle."""
        with tracer(idle_ns=100 * MS) as found:
            accounts.probe(found, waits_program)
            account = accounts.run(found, waits_program, "gap", "nap", "3", "300000")
        gap_ns = sum(account.interval_ns(IntervalKind.GAP).values())
        idle_ns = sum(account.interval_ns(IntervalKind.IDLE).values())
        life_ns = account.read_ns - account.truth["began_ns"]

        assert 300 * MS <= gap_ns <= 300 * MS + life_ns - account.truth["wall_ns"]
        assert account.truth["wall_ns"] - 300 * MS <= idle_ns
        assert account.truth["wall_ns"] <= gap_ns + idle_ns <= life_ns
