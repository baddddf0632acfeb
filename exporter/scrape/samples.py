"""The series of one scrape as typed records; rates makes a View of two Scrapes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from exporter.catalog import Metric
from exporter.clock import Moment
from exporter.model import Identity

Key = tuple[Identity | None, tuple[str, ...]]
"""One series of a metric: its identity (None: the exporter's own), and the values of the metric's own labels in order."""


@dataclass(frozen=True, slots=True)
class Number:
    """A counter or gauge. since_unix_ns: when the counter was created; 0 if unknown."""

    value: float
    since_unix_ns: int = 0


@dataclass(frozen=True, slots=True)
class Distribution:
    """A histogram. counts: slot of exporter.units -> calls, without empty slots. since_unix_ns: see Number."""

    counts: Mapping[int, int]
    sum_seconds: float
    since_unix_ns: int = 0

    @property
    def calls(self) -> int:
        return sum(self.counts.values())


@dataclass(frozen=True, slots=True)
class Scrape:
    """The series of one response. at: the time of the response, by the exporter's clock.

    numbers, distributions: name of a metric -> its series.
    """

    at: Moment
    numbers: Mapping[str, Mapping[Key, Number]]
    distributions: Mapping[str, Mapping[Key, Distribution]]

    def numbers_of(self, metric: Metric) -> Mapping[Key, Number]:
        """Counters, gauges and infos; empty if the response has none."""
        return self.numbers.get(metric.name, {})

    def distributions_of(self, metric: Metric) -> Mapping[Key, Distribution]:
        """Histograms; empty if the response has none."""
        return self.distributions.get(metric.name, {})
