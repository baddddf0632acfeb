"""Data points -> the body of an OTLP/JSON request.

Written by hand because it is the hot path of a push: the library's encoder takes three times as long (docs/measurements.md).
tests/contract/test_otlp_bodies.py compares the result with the library's protobuf.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable

from exporter import units
from exporter.catalog import COMMON_LABELS, Kind, Metric
from exporter.model import Exemplar, Histogram
from exporter.output.otlp.points import (
    CUMULATIVE,
    DELTA,
    FIRST_INDEX,
    INT64_MAX,
    SCOPE,
    DataPoint,
    Form,
    Origin,
    encodable,
    explicit_counts,
    grouped,
    is_sum,
    number,
    trace_ids_and_labels,
)
from exporter.totals import Counts

CONTENT_TYPE = "application/json"
_REJECTED = ("rejectedDataPoints", "rejectedLogRecords", "rejectedSpans")

_SCOPE = f'"scope":{{"name":{json.dumps(SCOPE[0])},"version":{json.dumps(SCOPE[1])}}}'
_EXPLICIT_BOUNDS = f'"explicitBounds":{json.dumps(units.CLASSIC_EDGES_SECONDS, separators=(",", ":"))}'


def encode(request: Iterable[DataPoint], time_unix_ns: int, origin: Origin, form: Form) -> bytes:
    """An ExportMetricsServiceRequest. request: of points.requests(). time_unix_ns: of all points."""
    writer = _Writer(time_unix_ns, form)
    resources = [
        f'{{"resource":{{"attributes":[{_key_values(origin.resource(identity).items())}]}},"scopeMetrics":[{{{_SCOPE},'
        f'"metrics":[{",".join(writer.metric(metric, points) for metric, points in metrics)}]}}]}}'
        for identity, metrics in grouped(request)
    ]
    return f'{{"resourceMetrics":[{",".join(resources)}]}}'.encode("ascii")


def rejected(body: bytes) -> tuple[int, str]:
    """How many points, log records or spans the receiver rejected, and its message.

    The responses of the three services differ in one name. Raises ValueError when this is not a response.
    """
    try:
        partial = json.loads(body).get("partialSuccess") or {}
        count = int(next((partial[name] for name in _REJECTED if partial.get(name)), 0))
        message = str(partial.get("errorMessage") or "")
    except (AttributeError, OverflowError, RecursionError, TypeError) as error:
        raise ValueError("not a response in JSON") from error
    if abs(count) > INT64_MAX:
        raise ValueError("not an int64")
    return count, message


class _Writer:
    """Writes the metrics of one request; caches labels that it has escaped."""

    def __init__(self, time_unix_ns: int, form: Form) -> None:
        self._form = form
        self._time = f'"timeUnixNano":"{time_unix_ns}"'
        self._temporality = f'"aggregationTemporality":{DELTA if form.is_delta else CUMULATIVE}'
        self._label_cache: dict[tuple[tuple[str, ...], tuple[str, ...]], str] = {}

    def metric(self, metric: Metric, points: Iterable[DataPoint]) -> str:
        """One metric with its points."""
        if metric.kind is Kind.HISTOGRAM:
            kind = "histogram" if self._form.with_explicit_buckets else "exponentialHistogram"
            data = f'"{kind}":{{{self._temporality},"dataPoints":[{",".join(map(self._histogram, points))}]}}'
        elif is_sum(metric):
            data = f'"sum":{{{self._temporality},"isMonotonic":true,"dataPoints":[{",".join(map(self._sum, points))}]}}'
        else:
            data = f'"gauge":{{"dataPoints":[{",".join(map(self._gauge, points))}]}}'
        return f'{{"name":"{metric.otel_name}","description":{json.dumps(metric.help)},"unit":"{metric.unit}",{data}}}'

    def _histogram(self, point: DataPoint) -> str:
        histogram = point.value
        assert isinstance(histogram, Histogram)  # noqa: S101 - by the kind of the metric
        counts = histogram.counts
        if self._form.with_explicit_buckets:
            buckets = _explicit_buckets(counts)
        else:
            buckets = _exponential_buckets(counts.begin, counts.held)
        exemplars = self._exemplars(histogram.exemplar)
        return (
            f'{{{self._attributes(point)},"startTimeUnixNano":"{point.start_unix_ns}",{self._time},'
            f'"count":"{counts.total}","sum":{histogram.sum_seconds!r},{buckets}{exemplars}}}'
        )

    def _sum(self, point: DataPoint) -> str:
        start = f'"startTimeUnixNano":"{point.start_unix_ns}"'
        return f"{{{self._attributes(point)},{start},{self._time},{_number(point)}{self._exemplars(point.exemplar)}}}"

    def _gauge(self, point: DataPoint) -> str:
        return f"{{{self._attributes(point)},{self._time},{_number(point)}}}"

    def _exemplars(self, exemplar: Exemplar | None) -> str:
        """The field with its comma; "" without an exemplar."""
        if exemplar is None:
            return ""
        trace_id, span_id, labels = trace_ids_and_labels(exemplar)
        names, values = zip(*labels, strict=True) if labels else ((), ())
        trace = f',"traceId":"{trace_id}","spanId":"{span_id}"' if trace_id else ""
        return (
            f',"exemplars":[{{"filteredAttributes":[{self._cached(names, values)}],'
            f'"timeUnixNano":"{exemplar.at_unix_ns}","asDouble":{exemplar.seconds!r}{trace}}}]'
        )

    def _attributes(self, point: DataPoint) -> str:
        """The common labels and the metric's own are cached apart: each occurs with many of the other."""
        own = self._cached(point.metric.labels, point.labels)
        if point.identity is None:
            return f'"attributes":[{own}]'
        common = self._cached(COMMON_LABELS, point.identity.values())
        return f'"attributes":[{common}{"," if own else ""}{own}]'

    def _cached(self, names: tuple[str, ...], values: tuple[str, ...]) -> str:
        written = self._label_cache.get((names, values))
        if written is None:
            written = self._label_cache[names, values] = _key_values(zip(names, values, strict=True))
        return written


def _key_values(pairs: Iterable[tuple[str, str]]) -> str:
    return ",".join(f'{{"key":{json.dumps(k)},"value":{{"stringValue":{json.dumps(encodable(v))}}}}}' for k, v in pairs)


def _number(point: DataPoint) -> str:
    value = number(point)
    return f'"asInt":"{value}"' if isinstance(value, int) else f'"asDouble":{_double(value)}'


def _double(value: float) -> str:
    """JSON has no number for these three; the protocol writes them as strings."""
    if math.isfinite(value):
        return repr(value)
    return '"NaN"' if math.isnan(value) else '"Infinity"' if value > 0 else '"-Infinity"'


def _exponential_buckets(first_slot: int, counts: tuple[int, ...]) -> str:
    buckets = f'"offset":{FIRST_INDEX + first_slot},"bucketCounts":[{_strings(counts)}]' if counts else ""
    return f'"scale":{units.SCALE},"positive":{{{buckets}}}'


def _explicit_buckets(counts: Counts) -> str:
    return f'"bucketCounts":[{_strings(tuple(explicit_counts(counts)))}],{_EXPLICIT_BOUNDS}'


def _strings(counts: tuple[int, ...]) -> str:
    """(1, 20) -> "1","20": one format for all of them is a third faster than joining them."""
    return ('"%d",' * len(counts) % counts)[:-1]
