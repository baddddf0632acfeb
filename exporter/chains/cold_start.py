"""Cost of a job's first steps beyond steady ones: modules are loaded, memory is allocated, graphs are instantiated.

In: time spent in calls when the rhythm is known, and a while later. Out: the cost by effect, and whether it is significant.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from exporter.chains.chain import Effect
from exporter.chains.spending import Spending
from exporter.chains.thresholds import COLD_NS, STEADY_NS
from exporter.units import NANOSECONDS

COLD_EFFECTS = (Effect.LAUNCH, Effect.ALLOC, Effect.GRAPH)
"""Calls that are expensive only the first time: a wait for the GPU or a copy loads nothing."""
_SAID = {Effect.LAUNCH: "launches", Effect.ALLOC: "allocations", Effect.GRAPH: "graphs"}


class _Known(NamedTuple):
    now_ns: int
    steps: int
    calls_ns: Mapping[Effect, int]


class Cold(NamedTuple):
    """cold_ns: by effect, beyond what as many steady steps spend there, between the two moments."""

    began_ns: int
    ended_ns: int
    cold_ns: Mapping[Effect, int]

    @property
    def is_much(self) -> bool:
        """Whether it is worth a chain."""
        return self.lost_ns >= COLD_NS

    @property
    def lost_ns(self) -> int:
        """For all effects."""
        return sum(self.cold_ns.values())

    @property
    def effect(self) -> Effect:
        """The effect with the largest cost."""
        return max(self.cold_ns, key=lambda one: self.cold_ns[one])

    @property
    def lost_share(self) -> float:
        """Share of the time until then."""
        return min(self.lost_ns / max(self.ended_ns - self.began_ns, 1), 1.0)

    @property
    def detail(self) -> str:
        """`3.1 s of the first 9 s beyond steady steps: 2.0 s in launches, 1.1 s in allocations`"""
        total, first = self.lost_ns / NANOSECONDS, (self.ended_ns - self.began_ns) / NANOSECONDS
        parts = ", ".join(
            f"{ns / NANOSECONDS:.1f} s in {_SAID[effect]}"
            for effect, ns in sorted(self.cold_ns.items(), key=lambda item: -item[1])
            if ns >= NANOSECONDS // 20
        )
        return f"{total:.1f} s of the first {first:.0f} s beyond steady steps: {parts}"


class ColdStart:
    """Cold start of one process. began_ns: CLOCK_MONOTONIC when it was first seen. cold: None until it is known."""

    def __init__(self, began_ns: int) -> None:
        self._began_ns = began_ns
        self._warm: _Known | None = None
        self.cold: Cold | None = None

    def update(self, now_ns: int, steps: int, spending: Callable[[], Spending], *, has_rhythm: bool) -> Cold | None:
        """Update at a tick. Returns the cost at the one tick at which it becomes known."""
        if self.cold is not None or not has_rhythm:
            return None
        if self._warm is None:
            self._warm = _Known(now_ns, steps, spending().calls_ns)
            return None
        warm = self._warm
        if now_ns - warm.now_ns < STEADY_NS or steps <= warm.steps:
            return None
        steady, made = spending().calls_ns, steps - warm.steps
        cold_ns = {}
        for effect in COLD_EFFECTS:
            spent_ns = warm.calls_ns.get(effect, 0)
            a_step_ns = (steady.get(effect, 0) - spent_ns) / made
            cold_ns[effect] = max(round(spent_ns - a_step_ns * warm.steps), 0)
        self.cold = Cold(self._began_ns, warm.now_ns, cold_ns)
        return self.cold
