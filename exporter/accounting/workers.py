"""What the workers of a process do for a step, usually and lately. What has grown of it is what makes them late.

In: the work of workers, cumulative, what was lost in sleeps that another thread ends, and how far the process has come. Out: the
part of a loss to workers by what has grown. Partner in C: wakeup_end_work() in bpf/lib/wakeup.bpf.h.

Much of a worker's work is hidden behind that of the GPU. Once something delays a worker, its step waits while the worker computes
as it always has: that computing is not the reason.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from exporter.accounting.sharing import shared
from exporter.kernel.abi import ThreadState, Waker
from exporter.kernel.thread_rows import WakeupRow
from exporter.units import NANOSECONDS

Work = tuple[Waker, ThreadState]
"""Kind of a worker, and its state."""


class WorkDone(NamedTuple):
    """Cumulative. rows: what workers did, by their kind. progress: how far the process has come, in any unit of equal steps."""

    rows: Mapping[Waker, WakeupRow]
    progress: int


NO_WORK = WorkDone({}, 0)

PERIOD_NS: Final = NANOSECONDS
PERIODS_NEEDED: Final = 6
PERIODS_KEPT: Final = 15
USUAL_SHARE: Final = 4
"""One in so many periods is usual, those with the least loss, and at most PERIODS_KEPT: a fault of seconds is not usual soon."""

KEPT_NS: Final = 240 * NANOSECONDS
"""What has lasted for so long is usual."""


class _Period(NamedTuple):
    """A second, or longer until the process has come any further. lost_ns, did: in that time."""

    ended_ns: int
    progress: int
    lost_ns: int
    did: Mapping[Work, int]

    @property
    def cost_ns(self) -> float:
        return self.lost_ns / self.progress


class _Sums(NamedTuple):
    """Since the first update."""

    at_ns: int
    work: WorkDone
    lost_ns: int

    def since(self, before: _Sums) -> _Period:
        did: dict[Work, int] = {}
        for waker, row in self.work.rows.items():
            old = before.work.rows.get(waker)
            for state in ThreadState:
                grown_ns = row.states_ns[state] - (old.states_ns[state] if old else 0)
                if grown_ns > 0:
                    did[waker, state] = grown_ns
        return _Period(self.at_ns, self.work.progress - before.work.progress, self.lost_ns - before.lost_ns, did)


class Workers:
    """Those of one process."""

    def __init__(self) -> None:
        self._closed = 0
        self._cheapest: list[_Period] = []
        self._usual = _Period(0, 0, 0, {})
        self._now = _Sums(0, NO_WORK, 0)
        self._begins: deque[_Sums] = deque(maxlen=2)  # of the last period, and of the open one

    def update(self, work: WorkDone, lost_ns: int, now_ns: int) -> None:
        """lost_ns: since the last update, in sleeps that another thread ends."""
        self._now = _Sums(now_ns, work, self._now.lost_ns + lost_ns)
        if not work.rows:
            return
        if not self._begins:
            self._begins.append(self._now)
            return
        begin = self._begins[-1]
        if now_ns - begin.at_ns >= PERIOD_NS and work.progress > begin.work.progress:
            self._begins.append(self._now)
            self._close(self._now.since(begin))

    def _close(self, period: _Period) -> None:
        self._closed += 1
        kept = [one for one in (*self._cheapest, period) if period.ended_ns - one.ended_ns < KEPT_NS]
        self._cheapest = sorted(kept, key=lambda one: (one.cost_ns, -one.ended_ns))[:PERIODS_KEPT]
        if self._closed >= PERIODS_NEEDED:
            self._usual = _sum(self._cheapest[: max(self._closed // USUAL_SHARE, 1)])

    def share(self, during_sleeps: Mapping[Work, int]) -> Mapping[Work, int]:
        """Divides the same time by what has grown; as it is where growth does not explain it.

        during_sleeps: a loss to workers in nanoseconds, by what they did during the sleeps of step threads.
        """
        if not self._begins or not self._usual.progress or not during_sleeps:
            return during_sleeps
        usual, latest = self._usual, self._now.since(self._begins[0])
        as_usual = {did: ns * max(latest.progress, 1) // usual.progress for did, ns in usual.did.items()}
        grown = {did: ns - as_usual.get(did, 0) for did, ns in latest.did.items() if ns > as_usual.get(did, 0)}
        usual_cost_ns = min(usual.lost_ns * max(latest.progress, 1) // usual.progress, latest.lost_ns)
        if not latest.lost_ns or 2 * sum(grown.values()) < latest.lost_ns - usual_cost_ns:
            return during_sleeps
        loss_ns = sum(during_sleeps.values())
        usual_loss_ns = loss_ns * usual_cost_ns // latest.lost_ns
        parts = shared(usual_loss_ns, during_sleeps)
        for did, ns in (shared(loss_ns - usual_loss_ns, grown) if grown else {}).items():
            parts[did] = parts.get(did, 0) + ns
        return {did: ns for did, ns in parts.items() if ns}


def _sum(periods: Iterable[_Period]) -> _Period:
    ended_ns = progress = lost_ns = 0
    did: dict[Work, int] = {}
    for period in periods:
        ended_ns = max(ended_ns, period.ended_ns)
        progress += period.progress
        lost_ns += period.lost_ns
        for one, ns in period.did.items():
            did[one] = did.get(one, 0) + ns
    return _Period(ended_ns, progress, lost_ns, did)
