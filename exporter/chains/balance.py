"""Compares what a job loses by the accounting with what its steps take longer: in steady state it cannot lose more.

In: Spans of a tick, and the regime that the job is in. Out: how much more was charged, cumulative.
"""

from __future__ import annotations

from typing import NamedTuple

from exporter.chains.regime import Regime
from exporter.chains.span import Span
from exporter.units import NANOSECONDS

BALANCED_NS = 10 * NANOSECONDS
"""Compared at a time: a loss is charged up to a tick and a step later than the steps show it."""


class Surplus(NamedTuple):
    """charged_ns: lost time beyond what steps took longer. measured_ns: wall time that was compared."""

    charged_ns: float = 0.0
    measured_ns: int = 0

    def plus(self, other: Surplus) -> Surplus:
        return Surplus(self.charged_ns + other.charged_ns, self.measured_ns + other.measured_ns)

    @property
    def share(self) -> float:
        """0 before anything was compared."""
        return self.charged_ns / self.measured_ns if self.measured_ns else 0.0


class Balance:
    """Balance of one process."""

    __slots__ = ("_charged_ns", "_measured_ns", "surplus")

    def __init__(self) -> None:
        self._charged_ns = 0.0
        self._measured_ns = 0
        self.surplus = Surplus()

    def add(self, tick: Span, usual: Regime) -> None:
        """Add a tick. Steps of the regime are as long as they are with what they usually lose; so that is no surplus."""
        if not usual.step_ns:
            return
        as_usual_ns = usual.lost_of_all * max(tick.wall_ns - tick.late_ns, 0.0)
        self._charged_ns += tick.lost_of_all_ns() - tick.late_ns - as_usual_ns
        self._measured_ns += tick.wall_ns
        if self._measured_ns >= BALANCED_NS:
            self.surplus = self.surplus.plus(Surplus(max(self._charged_ns, 0.0), self._measured_ns))
            self._charged_ns, self._measured_ns = 0.0, 0
