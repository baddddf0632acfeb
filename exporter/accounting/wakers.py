"""What wakers did while step threads slept in one state, and which part of that explains lost time.

In: wake-up paths, cumulative, and what was lost to that state. Out: lost time by what wakers did. Partner in C:
bpf/lib/wakeup.bpf.h.

A server's thread waits for requests and for locks in the same state. What such sleeps usually cost, little where the GPU still
has work, is known from the cheaper half of the last seconds. What is lost beyond that is divided by what wakers did beyond the
usual.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Final

from exporter.accounting.sharing import Growth, Weights, shared
from exporter.kernel.abi import ThreadState, Waker
from exporter.kernel.thread_rows import WakeupRow
from exporter.units import NANOSECONDS

Did = tuple[Waker, ThreadState]
"""Kind of a waker, and its state."""

PERIOD_NS: Final = NANOSECONDS
PERIOD_MAX_NS: Final = 2 * PERIOD_NS
"""A longer one contains a time without any change."""

PERIODS_KEPT: Final = 30
PERIODS_NEEDED: Final = 6


class _Period:
    """A second or so. did: nanoseconds; None where it is unknown."""

    def __init__(self, began_ns: int = 0) -> None:
        self.began_ns = began_ns
        self.wall_ns = 0
        self.lost_ns = 0
        self.did: dict[Did | None, int] = {}

    def add(self, grown: Mapping[Did | None, int], lost_ns: int, wall_ns: int) -> None:
        self.wall_ns += wall_ns
        self.lost_ns += lost_ns
        for did, ns in grown.items():
            self.did[did] = self.did.get(did, 0) + ns

    @property
    def slept_ns(self) -> int:
        return sum(self.did.values())

    @property
    def cost(self) -> float:
        """Lost, as a share of the sleeps."""
        return self.lost_ns / max(self.slept_ns, 1)


class Wakers:
    """Those of one process, for one state of its step threads."""

    def __init__(self) -> None:
        self._rows: dict[Waker, WakeupRow] = {}
        self._growth: Growth[Did | None] = Growth()
        self._weights: Weights[Did | None] = Weights()
        self._closed: deque[_Period] = deque(maxlen=PERIODS_KEPT)
        self._usual = _Period()
        self._last = _Period()
        self._open: _Period | None = None

    def update(self, rows: dict[Waker, WakeupRow], lost_ns: int, now_ns: int) -> None:
        """lost_ns: since the last update, to this state."""
        grown: dict[Did | None, int] = {}
        if rows != self._rows:
            did: dict[Did | None, int] = {None: sum(row.abstained_ns for row in rows.values())}
            for waker, row in rows.items():
                did |= {(waker, state): row.states_ns[state] for state in ThreadState if row.states_ns[state]}
            grown = self._growth.since(did)
        self._rows = rows
        self._weights.update(grown, now_ns)
        if self._open is None:  # since when these have grown is unknown
            self._open = _Period(now_ns)
            return
        if self._open.wall_ns >= PERIOD_NS:
            self._close(self._open)
            self._open = _Period(self._open.began_ns + self._open.wall_ns)
        self._open.add(grown, lost_ns, now_ns - self._open.began_ns - self._open.wall_ns)

    def _close(self, period: _Period) -> None:
        self._last = period
        if period.wall_ns <= PERIOD_MAX_NS and period.did:
            self._closed.append(period)
        if len(self._closed) >= PERIODS_NEEDED:
            self._usual = _sum(sorted(self._closed, key=lambda one: one.cost)[: len(self._closed) // 2])

    @property
    def is_at_rest(self) -> bool:
        """No charge is remembered."""
        return not self._weights.current()

    def share(self, lost_ns: int) -> dict[Did | None, int]:
        """What wakers did -> nanoseconds."""
        return shared(lost_ns, self._beyond_usual() or self._weights.current() or {None: 1})

    def _beyond_usual(self) -> dict[Did | None, int]:
        """Nanoseconds lost in the last second or two by what wakers did; empty where that is not known."""
        latest, usual = _sum([self._last, *([self._open] if self._open else [])]), self._usual
        if not usual.wall_ns or not latest.lost_ns:
            return {}
        as_usual = {
            did: min(ns, usual.did.get(did, 0) * latest.wall_ns // usual.wall_ns) for did, ns in latest.did.items()
        }
        beyond = {did: ns - as_usual[did] for did, ns in latest.did.items()}
        usual_cost_ns = min(round(usual.cost * sum(as_usual.values())), latest.lost_ns)
        rest_ns = latest.lost_ns - usual_cost_ns
        if 2 * sum(beyond.values()) < rest_ns:
            return {}
        parts = shared(usual_cost_ns, as_usual) if usual_cost_ns else {}
        for did, ns in (shared(rest_ns, beyond) if rest_ns else {}).items():
            parts[did] = parts.get(did, 0) + ns
        return {did: ns for did, ns in parts.items() if ns}


def _sum(periods: Iterable[_Period]) -> _Period:
    whole = _Period()
    for period in periods:
        whole.add(period.did, period.lost_ns, period.wall_ns)
    return whole
