"""What did the exporter say at one moment? Typed records of the series that `top` looks at.

In: see exposition. Out: a Scrape, two of which make a View.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from exporter.catalog import Metric
from exporter.clock import Moment
from exporter.model import Identity

Key = tuple[Identity | None, tuple[str, ...]]
"""One series of a metric: whose it is (None: the exporter's own), and the values of the metric's own labels in its order."""


@dataclass(frozen=True, slots=True)
class Number:
    """A counter or gauge. since_unix_ns: when the counting began; 0 where that is not told."""

    value: float
    since_unix_ns: int = 0


@dataclass(frozen=True, slots=True)
class Distribution:
    """A histogram. counts: slot of exporter.units -> calls in it, without empty ones. since_unix_ns: as of a Number."""

    counts: Mapping[int, int]
    sum_seconds: float
    since_unix_ns: int = 0

    @property
    def calls(self) -> int:
        """All calls."""
        return sum(self.counts.values())


@dataclass(frozen=True, slots=True)
class Scrape:
    """The series of one answer. at: when the exporter answered; its time of day is by the exporter's clock.

    numbers, distributions: name of a metric -> its series.
    """

    at: Moment
    numbers: Mapping[str, Mapping[Key, Number]]
    distributions: Mapping[str, Mapping[Key, Distribution]]

    def numbers_of(self, metric: Metric) -> Mapping[Key, Number]:
        """Counters, gauges and infos; empty when the exporter has none."""
        return self.numbers.get(metric.name, {})

    def distributions_of(self, metric: Metric) -> Mapping[Key, Distribution]:
        """Histograms; empty when the exporter has none."""
        return self.distributions.get(metric.name, {})
