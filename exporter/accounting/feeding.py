"""Computes how long the GPU was left without new work, by the state of the thread that should have given it.

In: the feeding timeline of a process (struct feeding_row). Out: nanoseconds lost since the last update, by state. A stall while
the GPU has no work is lost in full. A later one may be hidden behind queued work: as far as the next wait for the GPU is shorter
than its baseline. For a job that stalls in every cycle only a ceiling of that baseline is known.

The kernel records a stall when it ends. The certain part of an open one is counted in advance, and deducted afterwards.
"""

from __future__ import annotations

from typing import NamedTuple

from exporter.accounting.sharing import shared
from exporter.accounting.wait_baseline import MIN_CLEAN, Ceiling, WaitBaseline
from exporter.kernel.abi import THREAD_STATES, ThreadState
from exporter.kernel.thread_rows import FeedingRow, States

_ZEROS: States = (0,) * THREAD_STATES
_NONE = FeedingRow(0, 0, 0, 0, _ZEROS, _ZEROS, *(0,) * 12)


class OpenStall(NamedTuple):
    """An open stall. state: of the thread that the GPU waits for; for_ns: time in that state since its last call.

    until_ns: now, or when the thread became idle.
    """

    state: ThreadState
    for_ns: int
    until_ns: int


class FeedingLoss:
    """The feeding timeline of one process."""

    def __init__(self) -> None:
        self._before = _NONE
        self._baseline = WaitBaseline()
        self._ceiling = Ceiling()
        self._late_ns = list(_ZEROS)  # of undecided stalls
        self._waits = self._waited_ns = self._stalled_ns = 0  # undecided
        self._advanced_ns = 0

    def update(self, row: FeedingRow, stall: OpenStall | None = None) -> dict[ThreadState, int]:
        """Lost since the last update; only states that lost time. stall: the open one; None when threads were not read."""
        lost = self._of_ended(row)
        for state, lost_ns in lost.items():
            returned_ns = min(lost_ns, self._advanced_ns)
            self._advanced_ns -= returned_ns
            lost[state] -= returned_ns
        if stall is not None and row.stalled_since_ns:
            # What it did before is recorded when the stall ends.
            more_ns = min(max(self._surely_lost_ns(row, stall.until_ns) - self._advanced_ns, 0), stall.for_ns)
            self._advanced_ns += more_ns
            lost[stall.state] = lost.get(stall.state, 0) + more_ns
        return {state: lost_ns for state, lost_ns in lost.items() if lost_ns}

    def _surely_lost_ns(self, row: FeedingRow, until_ns: int) -> int:
        """The certain part of the open stall: the GPU may still have queued work for one baseline wait."""
        open_ns = max(until_ns - row.stalled_since_ns, 0)
        if row.is_dry:
            return open_ns
        return max(open_ns - self._baseline.expected_ns(1), 0) if self._baseline.is_known else 0

    def _of_ended(self, row: FeedingRow) -> dict[ThreadState, int]:
        before, self._before = self._before, row
        if row == before:
            return {}
        lost = [_grown(now, then) for now, then in zip(row.dry_ns, before.dry_ns, strict=True)]
        for state in ThreadState:
            self._late_ns[state] += _grown(row.late_ns[state], before.late_ns[state])
        self._baseline.add(_grown(row.clean_waits, before.clean_waits), _grown(row.clean_wait_ns, before.clean_wait_ns))
        self._waits += _grown(row.stalled_waits, before.stalled_waits)
        self._waited_ns += _grown(row.stalled_wait_ns, before.stalled_wait_ns)
        self._stalled_ns += _grown(row.stalled_late_ns, before.stalled_late_ns)
        if self._waits >= (1 if self._baseline.is_known else MIN_CLEAN):
            for state, part_ns in self._decide(row.cycle_late_ns).items():
                lost[state] += part_ns
        return dict(zip(ThreadState, lost, strict=True))

    def _decide(self, open_ns: int) -> dict[ThreadState, int]:
        """Late stalls that queued work did not hide, by state. open_ns: late stalls whose wait is still to come."""
        weights = dict(zip(ThreadState, self._late_ns, strict=True))
        if not any(weights.values()):
            weights[ThreadState.OTHER] = 1
        late_ns = self._late()
        self._waits = self._waited_ns = self._stalled_ns = 0
        kept = shared(min(open_ns, sum(self._late_ns)), weights)
        self._late_ns = [kept[state] for state in ThreadState]
        return shared(late_ns, weights)

    def _late(self) -> int:
        self._ceiling.add(self._waits, self._waited_ns, self._stalled_ns)
        usual = self._baseline if self._baseline.is_known else self._ceiling
        hidden_ns = max(usual.expected_ns(self._waits) - self._waited_ns, 0)
        return max(self._stalled_ns - hidden_ns, 0)


def _grown(now: int, then: int) -> int:
    return max(now - then, 0)
