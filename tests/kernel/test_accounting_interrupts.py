"""Interrupts on top of a running thread count as waiting for a CPU."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from exporter.kernel.abi import Culprit, ThreadState
from tests.faults.injectors import NotPossible, interrupts
from tests.support import accounts
from tests.support.accounts import Account
from tests.support.traced import Tracer, eventually, only

pytestmark = pytest.mark.acceptance

MS = 1_000_000
SHARE = 0.4


@pytest.fixture
def probed(account_tracer: Tracer, waits_program: Path) -> Tracer:
    """Probes on the program that waits."""
    accounts.probe(account_tracer, waits_program)
    return account_tracer


@contextmanager
def storm(cpus: tuple[int, int]) -> Iterator[None]:
    """Soft interrupts take SHARE of the first CPU. The second one sends the packets."""
    try:
        with interrupts.storm(cpus[0], str(cpus[1]), SHARE):
            yield
    except NotPossible as reason:
        pytest.skip(str(reason))


def in_a_storm(tracer: Tracer, cpus: tuple[int, int], *command: str | Path) -> Account:
    """What a program did on the first CPU."""
    with storm(cpus):
        return accounts.run(tracer, "taskset", "-c", str(cpus[0]), *command)


def of_interrupts_ns(account: Account) -> int:
    """Time charged to interrupts."""
    return account.blame_ns().get((Culprit.IRQ, b""), 0)


class TestStorm:
    """Packets that are expensive to receive, on the CPU of a spinning thread."""

    @pytest.mark.hardware_speed
    @pytest.mark.parametrize(("times", "us"), [(20, 50_000), (5_000, 200)])
    def test_interrupt_time_is_a_wait_blamed_on_interrupts(
        self, probed: Tracer, waits_program: Path, two_cpus: tuple[int, int], times: int, us: int
    ) -> None:
        """Between half and one and a half of the configured share; also in calls shorter than an interrupt."""
        account = in_a_storm(probed, two_cpus, waits_program, "call", "spin", str(times), str(us))

        assert (
            0.5 * SHARE * account.truth["wall_ns"] < of_interrupts_ns(account) < 1.5 * SHARE * account.truth["wall_ns"]
        )

    def test_states_still_add_up_to_the_time_in_the_call(
        self, probed: Tracer, waits_program: Path, two_cpus: tuple[int, int]
    ) -> None:
        """Interrupt time is in no other state."""
        account = in_a_storm(probed, two_cpus, waits_program, "call", "spin", "20", "50000")
        states_ns = account.call_ns("cudaEventRecord")

        assert set(states_ns) <= {ThreadState.ON_CPU, ThreadState.RUNNABLE}
        assert account.truth["inside_ns"] <= sum(states_ns.values()) <= account.truth["wall_ns"]

    def test_charges_still_add_up_to_the_waits(
        self, probed: Tracer, waits_program: Path, two_cpus: tuple[int, int]
    ) -> None:
        """Beside hogs, which are not charged for interrupts on top of them."""
        with accounts.hogs(2, two_cpus[0]):
            account = in_a_storm(probed, two_cpus, waits_program, "call", "spin", "10", "50000")

        assert sum(account.blame_ns().values()) == account.waited_ns()

    def test_waits_are_run_delay_plus_interrupts(
        self, probed: Tracer, waits_program: Path, two_cpus: tuple[int, int]
    ) -> None:
        """The kernel counts no wait while the thread is on its CPU."""
        with (
            storm(two_cpus),
            accounts.running("taskset", "-c", str(two_cpus[0]), waits_program, "call", "spin", "40", "50000"),
        ):
            thread = eventually(
                lambda: [one for one in probed.tables.read_threads() if one.run_delay_ns > 200 * MS], "it waits"
            )
            row = only(thread)

        assert row.booked_ns[ThreadState.RUNNABLE] == pytest.approx(row.run_delay_ns, rel=0.03, abs=20 * MS)

    def test_interrupts_during_a_sleep_cost_nothing(
        self, probed: Tracer, waits_program: Path, two_cpus: tuple[int, int]
    ) -> None:
        """The thread does not want the CPU then."""
        account = in_a_storm(probed, two_cpus, waits_program, "call", "nap", "10", "50000")

        assert of_interrupts_ns(account) < 0.05 * account.truth["wall_ns"]
