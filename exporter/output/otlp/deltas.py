"""Turns cumulative points into deltas since the last delivered push.

In: the cumulative points of each push, in its order. Out: the deltas of every series that has one. A delta that was not delivered
is kept, the next one is added to it, and both are sent as one with the earlier start, also if the series has ended.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from exporter.catalog import Kind, Metric
from exporter.model import Histogram, Identity
from exporter.output.otlp.points import DataPoint
from exporter.totals import Counts

MAX_ENDED = 2000  # ended series with an undelivered delta: 6 MiB of histograms

Value = int | float | Histogram


class _Key(NamedTuple):
    metric: Metric
    identity: Identity | None
    labels: tuple[str, ...]


class _Counted(NamedTuple):
    """The total from which the next increase of a series is computed, while the series has the same start."""

    value: Value
    start_unix_ns: int


class Deltas:
    """The deltas of one receiver. The first delta of a series is its whole total."""

    def __init__(self) -> None:
        self._counted: dict[_Key, _Counted] = {}
        self._undelivered: dict[_Key, DataPoint] = {}
        self._collected_unix_ns = 0
        self.forgotten = 0
        """Points that were dropped because too many series had ended undelivered."""

    def collect(self, points: Iterable[DataPoint], time_unix_ns: int) -> list[DataPoint]:
        """All points to deliver now. points: cumulative, of this moment; gauges are returned unchanged."""
        self._handle_clock_set_back(time_unix_ns)
        gauges, current = [], dict[_Key, _Counted]()
        for point in points:
            if point.metric.kind not in (Kind.COUNTER, Kind.HISTOGRAM):
                gauges.append(point)
                continue
            key = _Key(point.metric, point.identity, point.labels)
            current[key] = self._add(key, point)
        self._forget_ended(current)
        self._collected_unix_ns = time_unix_ns
        return [*self._undelivered.values(), *gauges]

    def delivered(self, points: Iterable[DataPoint]) -> None:
        """Remove points that the receiver has accepted."""
        for point in points:
            self._undelivered.pop(_Key(point.metric, point.identity, point.labels), None)

    def _handle_clock_set_back(self, time_unix_ns: int) -> None:
        """Handle a time of day that was set back since the last collection: no point may end before it starts."""
        if time_unix_ns < self._collected_unix_ns:
            self._collected_unix_ns = time_unix_ns
            for key, point in self._undelivered.items():
                self._undelivered[key] = point._replace(start_unix_ns=min(point.start_unix_ns, time_unix_ns))

    def _add(self, key: _Key, point: DataPoint) -> _Counted:
        """Add the increase to the pending delta. Returns the total from which the next increase is computed."""
        now, before = _Counted(point.value, point.start_unix_ns), self._counted.get(key)
        if before is not None and before.start_unix_ns < now.start_unix_ns:
            before = None  # the series was reset
        increase = now.value if before is None else _minus(now.value, before.value)
        if _is_nothing(increase):
            # The kernel adds the time of a call after it counts the call: a time without a call is sent with the next call.
            return now if before is None or _is_nothing(now.value) else before
        undelivered = self._undelivered.get(key)
        if undelivered is None:
            # A series without a value at the last collection began to count after it.
            start_unix_ns = max(point.start_unix_ns, self._collected_unix_ns)
            is_new = point.exemplar is not None and point.exemplar.at_unix_ns >= start_unix_ns
            self._undelivered[key] = point._replace(
                value=increase, start_unix_ns=start_unix_ns, exemplar=point.exemplar if is_new else None
            )
        else:
            self._undelivered[key] = undelivered._replace(
                value=_plus(undelivered.value, increase), exemplar=point.exemplar or undelivered.exemplar
            )
        return now

    def _forget_ended(self, current: dict[_Key, _Counted]) -> None:
        """Keep at most MAX_ENDED ended series: their pending deltas, and the totals of series that may return."""
        ended = [key for key in self._undelivered if key not in current]
        for key in ended[: max(len(ended) - MAX_ENDED, 0)]:
            del self._undelivered[key]
            self.forgotten += 1
        absent = [(key, counted) for key, counted in self._counted.items() if key not in current]
        self._counted = dict(absent[-MAX_ENDED:]) | current


def _minus(value: Value, before: Value) -> Value:
    """The increase; all of `value` when the series was reset in between."""
    if isinstance(value, Histogram) and isinstance(before, Histogram):
        if value == before:
            return Histogram(Counts(), 0.0)
        counts = value.counts.minus(before.counts)
        if min(counts.held, default=0) < 0:
            return value
        exemplar = None if value.exemplar == before.exemplar else value.exemplar
        return Histogram(counts, max(value.sum_seconds - before.sum_seconds, 0.0), exemplar)
    assert not isinstance(value, Histogram)  # noqa: S101 - a metric is one kind of value throughout
    assert not isinstance(before, Histogram)  # noqa: S101
    return value - before if value >= before else value


def _plus(value: Value, increase: Value) -> Value:
    if isinstance(value, Histogram) and isinstance(increase, Histogram):
        return Histogram(
            value.counts.plus(increase.counts),
            value.sum_seconds + increase.sum_seconds,
            increase.exemplar or value.exemplar,
        )
    assert not isinstance(value, Histogram)  # noqa: S101 - as above
    assert not isinstance(increase, Histogram)  # noqa: S101
    return value + increase


def _is_nothing(increase: Value) -> bool:
    return not increase.counts.held if isinstance(increase, Histogram) else not increase
