"""Computes how long the GPU was left without new work, by the state of the thread that should have given it.

In: the feeding timeline of a process (struct feeding_row), and what its waits for the GPU say about late stalls. Out: nanoseconds
lost since the last update, by state. A stall while the GPU has no work is lost in full. A later one may be hidden behind queued
work, as far as the next wait for the GPU is shorter for it.

The kernel records a stall when it ends. The certain part of an open one is counted in advance, and deducted afterwards.
"""

from __future__ import annotations

from typing import NamedTuple

from exporter.accounting.sharing import shared
from exporter.kernel.abi import THREAD_STATES, ThreadState
from exporter.kernel.thread_rows import FeedingRow, States

_ZEROS: States = (0,) * THREAD_STATES
_NONE = FeedingRow(0, 0, 0, 0, _ZEROS, _ZEROS, *(0,) * 8)


class OpenStall(NamedTuple):
    """An open stall. state: of the thread that the GPU waits for; for_ns: time in that state since its last call.

    until_ns: now, or when the thread became idle.
    """

    state: ThreadState
    for_ns: int
    until_ns: int


class LateStalls(NamedTuple):
    """What waits for the GPU say of the late stalls before them. lost_ns: since the last update. undecided_ns: not known yet.

    longest_wait_ns: how long the GPU may have queued work for; None while that is not known.
    """

    lost_ns: int = 0
    undecided_ns: int = 0
    longest_wait_ns: int | None = None


_NO_LATE_STALLS = LateStalls()


class FeedingLoss:
    """The feeding timeline of one process."""

    def __init__(self) -> None:
        self._before = _NONE
        self._late_ns = list(_ZEROS)  # of stalls that may be undecided
        self._lost_late_ns = 0  # whose states have not been read yet
        self._advanced_ns = 0

    def update(
        self, row: FeedingRow, late: LateStalls = _NO_LATE_STALLS, stall: OpenStall | None = None
    ) -> dict[ThreadState, int]:
        """Lost since the last update; only states that lost time. stall: the open one; None when threads were not read."""
        lost = self._of_ended(row, late)
        for state, lost_ns in lost.items():
            returned_ns = min(lost_ns, self._advanced_ns)
            self._advanced_ns -= returned_ns
            lost[state] -= returned_ns
        if stall is not None and row.stalled_since_ns:
            # What it did before is recorded when the stall ends.
            surely_ns = _surely_lost_ns(row, stall.until_ns, late.longest_wait_ns)
            more_ns = min(max(surely_ns - self._advanced_ns, 0), stall.for_ns)
            self._advanced_ns += more_ns
            lost[stall.state] = lost.get(stall.state, 0) + more_ns
        return {state: lost_ns for state, lost_ns in lost.items() if lost_ns}

    def _of_ended(self, row: FeedingRow, late: LateStalls) -> dict[ThreadState, int]:
        before, self._before = self._before, row
        lost = {state: _grown(row.dry_ns[state], before.dry_ns[state]) for state in ThreadState}
        for state in ThreadState:
            self._late_ns[state] += _grown(row.late_ns[state], before.late_ns[state])
        self._lost_late_ns += late.lost_ns
        weights = dict(zip(ThreadState, self._late_ns, strict=True))
        if self._lost_late_ns and any(weights.values()):
            for state, part_ns in shared(self._lost_late_ns, weights).items():
                lost[state] += part_ns
            self._lost_late_ns = 0
        open_ns = row.cycle_late_ns + late.undecided_ns
        if sum(self._late_ns) > open_ns and row.waits != before.waits:
            kept = shared(open_ns, weights)
            self._late_ns = [kept[state] for state in ThreadState]
        return lost


def _surely_lost_ns(row: FeedingRow, until_ns: int, longest_wait_ns: int | None) -> int:
    """The certain part of the open stall: the GPU may still have queued work."""
    open_ns = max(until_ns - row.stalled_since_ns, 0)
    if row.is_dry:
        return open_ns
    return 0 if longest_wait_ns is None else max(open_ns - longest_wait_ns, 0)


def _grown(now: int, then: int) -> int:
    return max(now - then, 0)
