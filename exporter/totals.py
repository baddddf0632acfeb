"""Totals: cumulative values of each process since it was first seen, in the kernel's units.

Seconds and ratios are counted in billionths, so that sums never round.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from operator import attrgetter
from typing import NamedTuple, Self, overload

from exporter import units
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


class Trace(NamedTuple):
    """What one chain added to a counter. trace_id, span_id: hexadecimal. at_ns: CLOCK_MONOTONIC, until when."""

    trace_id: str
    span_id: str
    amount_ns: int
    at_ns: int


class Counts(Sequence[int]):
    """Counts of an exponential histogram, one per slot of units.SLOTS; only those from the first to the last call are stored.

    A node has twenty thousand histograms, each with a few dozen slots in use.
    """

    __slots__ = ("begin", "held")

    def __init__(self, begin: int = 0, held: tuple[int, ...] = ()) -> None:
        """held: counts from slot `begin` on; neither the first nor the last is 0."""
        self.begin = begin
        self.held = held

    @classmethod
    def of(cls, counts: Sequence[int], begin: int = 0) -> Self:
        """Counts that may start and end with zeros. begin: slot of the first."""
        first = next((at for at, count in enumerate(counts) if count), None)
        if first is None:
            return cls()
        end = next(at for at in range(len(counts), 0, -1) if counts[at - 1])
        return cls(begin + first, tuple(counts[first:end]))

    def __len__(self) -> int:
        return units.SLOTS

    def __iter__(self) -> Iterator[int]:
        yield from repeat(0, self.begin)
        yield from self.held
        yield from repeat(0, units.SLOTS - self.begin - len(self.held))

    @overload
    def __getitem__(self, at: int) -> int: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[int, ...]: ...
    def __getitem__(self, at: int | slice) -> int | tuple[int, ...]:
        return tuple(self)[at]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Counts) and (self.begin, self.held) == (other.begin, other.held)

    def __hash__(self) -> int:
        return hash((self.begin, self.held))

    def __repr__(self) -> str:
        return f"Counts({self.begin}, {self.held})"

    @property
    def total(self) -> int:
        """How many calls."""
        return sum(self.held)

    def quantile_ns(self, share: float) -> float | None:
        """Upper edge of the bucket that it lies in, at most 9 % too high; None if nothing was counted."""
        wanted = share * self.total
        found = 0
        for slot, count in enumerate(self.held, self.begin):
            found += count
            if count and found >= wanted:
                return units.upper_edge_seconds(slot) * units.NANOSECONDS
        return None

    def plus(self, other: Counts) -> Counts:
        if not (self.held and other.held):
            return self if self.held else other
        return self._with(other, operator.add)

    def minus(self, earlier: Counts) -> Counts:
        """What was added since."""
        return self._with(earlier, operator.sub) if earlier.held else self

    def _with(self, other: Counts, combine: Callable[[int, int], int]) -> Counts:
        begin = min(self.begin, other.begin) if self.held else other.begin
        end = max(self.begin + len(self.held), other.begin + len(other.held))
        return Counts.of(tuple(map(combine, self._window(begin, end), other._window(begin, end))), begin)

    def _window(self, begin: int, end: int) -> tuple[int, ...]:
        if not self.held:
            return (0,) * (end - begin)
        return (0,) * (self.begin - begin) + self.held + (0,) * (end - self.begin - len(self.held))

    def cumulative(self, edges: Sequence[int] = units.CLASSIC_SLOTS) -> list[int]:
        """Cumulative counts at classic bucket edges.

        edges: slot numbers, ascending; each becomes one `le`. Returns len(edges) + 1 counts, the last one +Inf. Exact: every
        edge is a slot's upper edge.
        """
        totals: list[int] = []
        total = start = 0
        for edge in edges:
            end = max(edge + 1 - self.begin, 0)
            total += sum(self.held[start:end])
            totals.append(total)
            start = end
        totals.append(total + sum(self.held[start:]))
        return totals


class HistogramTotal(NamedTuple):
    """A histogram so far. exemplar: a recent call."""

    counts: Counts
    sum_ns: int
    exemplar: Call | None = None

    def plus(self, other: HistogramTotal) -> HistogramTotal:
        """The sum; its exemplar is the later one."""
        return HistogramTotal(
            self.counts.plus(other.counts),
            self.sum_ns + other.sum_ns,
            max(filter(None, (self.exemplar, other.exemplar)), key=attrgetter("ended_ns"), default=None),
        )

    def minus(self, earlier: HistogramTotal) -> HistogramTotal:
        """What was added since `earlier`; the exemplar only if it is new."""
        return HistogramTotal(
            self.counts.minus(earlier.counts),
            self.sum_ns - earlier.sum_ns,
            None if self.exemplar == earlier.exemplar else self.exemplar,
        )


Total = int | HistogramTotal
Totals = dict[int, dict[Series, Total]]
"""Process number -> series -> total."""

Traces = Mapping[int, Mapping[Series, Trace]]
"""Process number -> counter -> the chain that it grows by, or grew by recently."""


MAX_ERROR_CODE = 999  # cudaErrorUnknown, the largest that CUDA and NCCL define


def error_code_label(code: int) -> str:
    """The code in decimal; `other` for what no library defines, so that a stray return value creates no series."""
    return str(code) if 0 < code <= MAX_ERROR_CODE else "other"


def add(totals: Totals, process: int, metric: Metric, labels: tuple[str, ...], value: int) -> None:
    of_process = totals.setdefault(process, {})
    series = Series(metric, labels)
    earlier = of_process.get(series, 0)
    assert isinstance(earlier, int)  # noqa: S101 - a metric is one kind of total throughout
    of_process[series] = earlier + value


def merged(parts: Iterable[Totals]) -> Totals:
    """The totals of several collectors, whose metrics are disjoint. It reuses the parts, which must not be used any more."""
    result: Totals = {}
    for part in parts:
        for process, series in part.items():
            known = result.setdefault(process, series)
            if known is not series:
                known |= series
    return result
