"""conditions: what is wrong with a process besides slow steps, and since when."""

from __future__ import annotations

from exporter.causes import Cause
from exporter.chains.capture import Captures
from exporter.chains.conditions import Conditions, Wrong
from exporter.chains.memory import Allocations
from tests.unit.chains.job import SECOND

MIB = 1 << 20


def wrong(conditions: Conditions, at_seconds: float) -> dict[Cause, Wrong]:
    """Those that hold."""
    return {one.cause: one for one in conditions.all(round(at_seconds * SECOND)) if one.since_ns}


class TestConditions:
    def test_each_is_named_whether_it_holds_or_not(self) -> None:
        """So that the end of one is seen, too."""
        conditions = Conditions(0)
        conditions.update(Allocations(), Captures(), 0, SECOND)

        assert [(one.cause, one.since_ns, one.detail) for one in conditions.all(SECOND)] == [
            (Cause.CUDA_OOM, 0, ""),
            (Cause.MEMORY_LEAK, 0, ""),
            (Cause.GRAPH_ABANDONED, 0, ""),
        ]

    def test_allocation_that_failed_is_out_of_memory_after_five_seconds(self) -> None:
        """Since the failure, with the size of the request."""
        conditions = Conditions(0)
        conditions.update(Allocations(failed=1, refused_bytes=64 * MIB), Captures(), 0, 10 * SECOND)

        assert wrong(conditions, 14.9) == {}
        oom = wrong(conditions, 15)[Cause.CUDA_OOM]
        assert oom.since_ns == 10 * SECOND
        assert oom.detail.startswith("64.0 MiB asked for")

    def test_memory_that_grows_is_a_leak(self) -> None:
        """16 MiB more in each half second of fifty steps."""
        conditions = Conditions(0)
        for tick in range(1, 41):
            conditions.update(Allocations(live_bytes=16 * MIB * tick), Captures(), 50 * tick, tick * SECOND // 2)

        leak = wrong(conditions, 20)[Cause.MEMORY_LEAK]
        assert "MiB more within" in leak.detail

    def test_capture_that_does_not_end_is_abandoned_after_ten_seconds(self) -> None:
        conditions = Conditions(0)
        for second in (1, 6, 11):
            conditions.update(Allocations(), Captures(begun=1), 0, second * SECOND)

        abandoned = wrong(conditions, 11)[Cause.GRAPH_ABANDONED]
        assert abandoned.since_ns == SECOND
        assert abandoned.detail == "a capture has begun and not ended for more than 10 s"
