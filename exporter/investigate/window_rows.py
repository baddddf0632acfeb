"""Windows as rows of the views, in the order of their columns. Values are in seconds; Source: exporter.investigate.schema."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from exporter.history.window import Window
from exporter.investigate.interval_windows import IntervalWindow
from exporter.text import untrusted
from exporter.totals import HistogramTotal
from exporter.units import NANOSECONDS, seconds, upper_edge_seconds

Row = tuple[Any, ...]

_INTEGER_MAX: Final = (1 << 63) - 1
_QUANTILES: Final = (0.5, 0.95, 0.99)


class WorkloadKey(NamedTuple):
    """number: in this result."""

    number: int
    run: int
    labels: Row

    @classmethod
    def of(cls, number: int, run: int, window: Window) -> WorkloadKey:
        return cls(number, run, (*window.labels.identity.values(), window.labels.tgid))

    @property
    def key(self) -> Row:
        """The first columns of every view of workloads."""
        return (self.number, self.run, *self.labels)


def _steps(one: IntervalWindow, key: Row) -> Iterator[Row]:
    steps = one.window.steps
    if count := steps.counts.total:
        yield (*key, *_span(one), _whole(count), seconds(steps.sum_ns), *_distribution(steps))


def _operations(one: IntervalWindow, key: Row) -> Iterator[Row]:
    for api, name, calls, errors, timed in one.window.operations:
        yield (
            *(*key, *_span(one), api, name, _whole(calls), _whole(errors)),
            *(_whole(timed.counts.total), seconds(timed.sum_ns), *_distribution(timed)),
        )


def _step_buckets(one: IntervalWindow, key: Row) -> Iterator[Row]:
    for bucket in _buckets(one.window.steps):
        yield (*key, *_span(one), *bucket)


def _operation_buckets(one: IntervalWindow, key: Row) -> Iterator[Row]:
    for operation in one.window.operations:
        for bucket in _buckets(operation.timed):
            yield (*key, *_span(one), operation.api, operation.name, *bucket)


def _lost(one: IntervalWindow, key: Row) -> Iterator[Row]:
    for cause, ns in one.window.lost_ns.items():
        yield (*key, *_span(one), seconds(one.covered_ns), cause, seconds(ns))


def _culprits(one: IntervalWindow, key: Row) -> Iterator[Row]:
    for cause, culprit, ns in one.window.culprits_ns:
        yield (*key, *_span(one), cause, culprit, seconds(ns))


def _thread_states(one: IntervalWindow, key: Row) -> Iterator[Row]:
    for state, ns in one.window.states_ns.items():
        yield (*key, *_span(one), state, seconds(ns))


def _call_sites(one: IntervalWindow, key: Row) -> Iterator[Row]:
    for site in one.window.call_sites:
        stack = site.stack
        yield (
            *(*key, *_span(one), site.api, site.operation),
            *(_whole(site.calls), seconds(site.total_ns), seconds(site.slow_from_ns)),
            *(stack.place, ", ".join(map(stack.shown, stack.frames)), stack.directory),
        )


INTERVAL_VIEWS: Final[Mapping[str, Callable[[IntervalWindow, Row], Iterator[Row]]]] = {
    "steps": _steps,
    "step_buckets": _step_buckets,
    "operations": _operations,
    "operation_buckets": _operation_buckets,
    "lost": _lost,
    "culprits": _culprits,
    "thread_states": _thread_states,
    "call_sites": _call_sites,
}
"""SqlView -> the rows of a window."""


class WorkloadTotal:
    """The row of a workload, from its windows in all intervals."""

    def __init__(self, number: int, one: IntervalWindow) -> None:
        self.workload = WorkloadKey.of(number, one.run, one.window)
        self._comm = one.window.labels.comm
        self._began_unix_ns = one.window.began_unix_ns
        self._ended_unix_ns = self._covered_ns = self._steps = self._step_ns = self._lost_ns = 0
        self._voluntary = self._involuntary = 0

    def add(self, one: IntervalWindow) -> None:
        window = one.window
        # Labels may become known later than the first window.
        self.workload = WorkloadKey.of(self.workload.number, one.run, window)
        self._comm = window.labels.comm
        self._ended_unix_ns = window.ended_unix_ns
        self._covered_ns += one.covered_ns
        self._steps += window.steps.counts.total
        self._step_ns += window.steps.sum_ns
        self._lost_ns += sum(window.lost_ns.values())
        self._voluntary += window.switches.voluntary
        self._involuntary += window.switches.involuntary

    def row(self) -> Row:
        return (
            *self.workload.key,
            self._comm,
            seconds(self._began_unix_ns),
            seconds(self._ended_unix_ns),
            seconds(self._covered_ns),
            _whole(self._steps),
            seconds(self._step_ns),
            seconds(self._lost_ns),
            # What was lost before a window may be decided in it.
            min(self._lost_ns / self._covered_ns, 1.0) if self._covered_ns else None,
            _whole(self._voluntary),
            _whole(self._involuntary),
        )


def _span(one: IntervalWindow) -> Row:
    return seconds(one.window.began_unix_ns), seconds(one.window.ended_unix_ns)


def _distribution(total: HistogramTotal) -> Row:
    count = total.counts.total
    return (seconds(total.sum_ns) / count if count else None, *(_quantile(total, share) for share in _QUANTILES))


def _buckets(total: HistogramTotal) -> Iterator[Row]:
    """Upper edge and count of each bucket that is not empty; the same edges as those of quantiles."""
    for slot, count in enumerate(total.counts.held, total.counts.begin):
        if count:
            edge_seconds = upper_edge_seconds(slot) * NANOSECONDS / 1e9
            yield None if math.isinf(edge_seconds) else edge_seconds, _whole(count)


def _quantile(total: HistogramTotal, share: float) -> float | None:
    """None also beyond the last edge, 4,096 s."""
    found_ns = total.counts.quantile_ns(share)
    return None if found_ns is None or math.isinf(found_ns) else found_ns / 1e9


def _whole(number: int) -> int:
    """What SQLite holds. Raises ValueError for more."""
    if abs(number) > _INTEGER_MAX:
        raise untrusted.Untrusted("a count is too large")
    return number
