"""The account is the same for every attachment kind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from exporter.config.probes import AttachKind
from exporter.kernel.abi import IntervalKind, ThreadState
from tests.support import accounts
from tests.support.traced import Tracer, tracer

NAPS = 23
MS = 1_000_000


@pytest.fixture
def probed(attach_kind: AttachKind, waits_program: Path) -> Iterator[Tracer]:
    """Probes on the three functions of the program that waits, by each attachment kind in turn."""
    with tracer(attach_kind) as found:
        accounts.probe(found, waits_program)
        assert found.kernel.attach_kind is attach_kind
        yield found


class TestLinks:
    """Session links, multi links, single perf events."""

    def test_states_add_up_to_the_elapsed_time(self, probed: Tracer, waits_program: Path) -> None:
        """From the first call to the end of the thread there is nothing between one call or gap and the next.

        The program looks at its clock when that has begun and before it ends.
        """
        account = accounts.run(probed, waits_program, "call", "nap", str(NAPS), "2000")
        calls_ns = [sum(account.call_ns(name).values()) for name in accounts.FUNCTIONS]
        gaps_ns = sum(account.interval_ns(IntervalKind.GAP).values())

        assert sum(calls_ns) + gaps_ns >= account.truth["total_ns"]
        assert sum(account.call_ns("cudaEventRecord").values()) <= account.truth["wall_ns"]

    def test_sleeps_in_calls_are_booked_to_the_calls(self, probed: Tracer, waits_program: Path) -> None:
        """23 sleeps of 2 ms, less one for each missed event; the gaps between have none, unless one was missed."""
        account = accounts.run(probed, waits_program, "call", "nap", str(NAPS), "2000")

        assert account.call_ns("cudaEventRecord")[ThreadState.SLEEP] >= (NAPS - account.healed) * 2 * MS
        assert account.interval_ns(IntervalKind.GAP).get(ThreadState.SLEEP, 0) <= account.healed * MS
        assert probed.drops() == {}
