"""Interrupts that come while a thread is on its CPU: it did not run then, it waited for them."""

from __future__ import annotations

from pathlib import Path

import pytest

from exporter.kernel.abi import Culprit, IntervalKind, ThreadState
from tests.faults.injectors import NotPossible, interrupts
from tests.support import accounts
from tests.support.accounts import Account
from tests.support.traced import Tracer

MS = 1_000_000
SHARE = 0.4


@pytest.fixture
def probed(account_tracer: Tracer, waits_program: Path) -> Tracer:
    """Probes on the program that waits."""
    accounts.probe(account_tracer, waits_program)
    return account_tracer


def in_a_storm(tracer: Tracer, *command: str | Path) -> Account:
    """What a program on CPU 0 did, of which soft interrupts took SHARE."""
    try:
        with interrupts.storm(0, "1", SHARE):
            return accounts.run(tracer, "taskset", "-c", "0", *command)
    except NotPossible as reason:
        pytest.skip(str(reason))


class TestStorm:
    """Packets that are dear to receive, on the CPU of a thread that spins."""

    def test_what_they_take_is_a_wait_behind_interrupts(self, probed: Tracer, waits_program: Path) -> None:
        """Half of what was asked for at least, and not more than half beyond it."""
        account = in_a_storm(probed, waits_program, "call", "spin", "20", "50000")
        print(account.call_ns("cudaEventRecord"), account.blame_ns(), account.truth, account.healed)
        wall_ns = account.truth["wall_ns"]

        assert 0.5 * SHARE * wall_ns < account.blame_ns()[Culprit.IRQ, b""] < 1.5 * SHARE * wall_ns
