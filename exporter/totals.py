"""Totals: what a collector says of each process, cumulative since the process was first seen, in the kernel's own units:
those of a metric in seconds are nanoseconds, so that sums never round.
"""

from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter
from typing import NamedTuple

from exporter.catalog import Metric


class Series(NamedTuple):
    """One series of a process. labels: values of the metric's own labels, in its order."""

    metric: Metric
    labels: tuple[str, ...]


class Call(NamedTuple):
    """One call of a thread. tid, tgid: as the exporter sees them, 0 = not at all. ended_ns: CLOCK_MONOTONIC."""

    tid: int
    duration_ns: int
    ended_ns: int
    tgid: int


class HistogramTotal(NamedTuple):
    """A histogram so far. counts: one per slot of units.SLOTS. exemplar: a call of late; of several the latest."""

    counts: tuple[int, ...]
    sum_ns: int
    exemplar: Call | None = None

    def plus(self, other: HistogramTotal) -> HistogramTotal:
        """Both together."""
        return HistogramTotal(
            tuple(map(int.__add__, self.counts, other.counts)),
            self.sum_ns + other.sum_ns,
            max(filter(None, (self.exemplar, other.exemplar)), key=attrgetter("ended_ns"), default=None),
        )

    def minus(self, earlier: HistogramTotal) -> HistogramTotal:
        """What was added since `earlier`; the exemplar only if it is new."""
        return HistogramTotal(
            tuple(map(int.__sub__, self.counts, earlier.counts)),
            self.sum_ns - earlier.sum_ns,
            None if self.exemplar == earlier.exemplar else self.exemplar,
        )


Total = int | HistogramTotal
Totals = dict[int, dict[Series, Total]]
"""Process number -> series -> total."""


MAX_ERROR_CODE = 999  # cudaErrorUnknown, the largest that CUDA and NCCL define


def error_code_label(code: int) -> str:
    """The code in decimal; `other` for what no library defines, so that a stray return value makes no new series."""
    return str(code) if 0 < code <= MAX_ERROR_CODE else "other"


def add(totals: Totals, process: int, metric: Metric, labels: tuple[str, ...], value: int) -> None:
    """Add to a counter of one process."""
    of_process = totals.setdefault(process, {})
    series = Series(metric, labels)
    earlier = of_process.get(series, 0)
    assert isinstance(earlier, int)  # noqa: S101 - a metric is one kind of total throughout
    of_process[series] = earlier + value


def merged(parts: Iterator[Totals]) -> Totals:
    """The totals of several collectors, whose metrics are disjoint."""
    result: Totals = {}
    for part in parts:
        for process, series in part.items():
            result.setdefault(process, {}).update(series)
    return result
