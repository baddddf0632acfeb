"""How long did nobody give the GPU work? By the state of the thread that was waited for.

In: the feeding timeline of a process (struct feeding_row). Out: nanoseconds lost since the last time, by state. A stall while
the GPU is dry is lost in full. One that comes later may be hidden behind the work the GPU has: as far as the next wait for it
is shorter than usual.
"""

from __future__ import annotations

from exporter.accounting.baseline import Baseline
from exporter.accounting.sharing import shared
from exporter.kernel.abi import THREAD_STATES, ThreadState
from exporter.kernel.thread_rows import FeedingRow, States

_ZEROS: States = (0,) * THREAD_STATES
_NONE = FeedingRow(0, 0, 0, 0, _ZEROS, _ZEROS, 0, 0, 0, 0, 0, 0)


class FeedingLoss:
    """Of one process."""

    def __init__(self) -> None:
        self._before = _NONE
        self._baseline = Baseline()
        self._late_ns = list(_ZEROS)  # since a late loss was last booked

    def update(self, row: FeedingRow) -> dict[ThreadState, int]:
        """What was lost since the last time; states without a loss are left out."""
        before, self._before = self._before, row
        if row == before:
            return {}
        lost = [_grown(now, then) for now, then in zip(row.dry_ns, before.dry_ns, strict=True)]
        for state in ThreadState:
            self._late_ns[state] += _grown(row.late_ns[state], before.late_ns[state])
        self._baseline.see(_grown(row.clean_waits, before.clean_waits), _grown(row.clean_wait_ns, before.clean_wait_ns))
        late_ns = self._late(
            _grown(row.stalled_waits, before.stalled_waits),
            _grown(row.stalled_wait_ns, before.stalled_wait_ns),
            _grown(row.stalled_late_ns, before.stalled_late_ns),
        )
        if late_ns:
            weights = dict(zip(ThreadState, self._late_ns, strict=True))
            if not any(weights.values()):
                weights[ThreadState.OTHER] = 1
            for state, part_ns in shared(late_ns, weights).items():
                lost[state] += part_ns
            self._late_ns = list(_ZEROS)
        return {state: lost[state] for state in ThreadState if lost[state]}

    def _late(self, waits: int, waited_ns: int, stalled_ns: int) -> int:
        """The late stalls that the GPU's work did not hide. Nothing while too little is known of waits without stalls."""
        if not self._baseline.is_known:
            return 0
        hidden_ns = min(max(self._baseline.expected_ns(waits) - waited_ns, 0), stalled_ns)
        return stalled_ns - hidden_ns


def _grown(now: int, then: int) -> int:
    return max(now - then, 0)
