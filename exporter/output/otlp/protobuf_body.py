"""Data points -> the body of an OTLP/protobuf request, with the encoder of OpenTelemetry's own exporter.

Imported only when a receiver wants protobuf: the library takes 6 MiB.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from google.protobuf.message import DecodeError
from opentelemetry.exporter.otlp.proto.common.metrics_encoder import encode_metrics
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceResponse
from opentelemetry.sdk.metrics import Exemplar as SdkExemplar
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Buckets,
    ExponentialHistogram,
    ExponentialHistogramDataPoint,
    Gauge,
    HistogramDataPoint,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.metrics.export import Histogram as ExplicitHistogram
from opentelemetry.sdk.metrics.export import Metric as SdkMetric
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope

from exporter import units
from exporter.catalog import Kind, Metric
from exporter.model import Exemplar, Histogram
from exporter.output.otlp.points import (
    FIRST_INDEX,
    SCOPE,
    DataPoint,
    Form,
    Origin,
    attributes,
    encodable,
    explicit_counts,
    grouped,
    is_sum,
    number,
    trace_ids_and_labels,
)

CONTENT_TYPE = "application/x-protobuf"
_SCOPE = InstrumentationScope(*SCOPE)


def encode(request: Iterable[DataPoint], time_unix_ns: int, origin: Origin, form: Form) -> bytes:
    """An ExportMetricsServiceRequest. request: of points.requests(). time_unix_ns: of all points."""
    resources = [
        ResourceMetrics(
            Resource(origin.resource(identity)),
            [ScopeMetrics(_SCOPE, [_metric(metric, points, time_unix_ns, form) for metric, points in metrics], "")],
            "",
        )
        for identity, metrics in grouped(request)
    ]
    body: bytes = encode_metrics(MetricsData(resources)).SerializeToString()
    return body


def rejected(body: bytes) -> tuple[int, str]:
    """How many points, log records or spans the receiver rejected, and its message.

    The responses of the three services have the same two fields. Raises ValueError when this is not a response.
    """
    try:
        partial = ExportMetricsServiceResponse.FromString(body).partial_success
    except DecodeError as error:
        raise ValueError(f"not a response in protobuf: {error}") from error
    return partial.rejected_data_points, partial.error_message


def _metric(metric: Metric, points: Sequence[DataPoint], time_unix_ns: int, form: Form) -> SdkMetric:
    temporality = AggregationTemporality.DELTA if form.is_delta else AggregationTemporality.CUMULATIVE
    data: ExplicitHistogram | ExponentialHistogram | Sum | Gauge
    if metric.kind is Kind.HISTOGRAM and form.with_explicit_buckets:
        data = ExplicitHistogram([_explicit(point, time_unix_ns) for point in points], temporality)
    elif metric.kind is Kind.HISTOGRAM:
        data = ExponentialHistogram([_exponential(point, time_unix_ns) for point in points], temporality)
    elif is_sum(metric):
        numbers = [_number(point, point.start_unix_ns, time_unix_ns) for point in points]
        data = Sum(numbers, temporality, is_monotonic=True)
    else:
        data = Gauge([_number(point, None, time_unix_ns) for point in points])
    return SdkMetric(metric.otel_name, metric.help, metric.unit, data)


def _number(point: DataPoint, start_unix_ns: int | None, time_unix_ns: int) -> NumberDataPoint:
    return NumberDataPoint(
        _attributes(point),
        start_unix_ns,  # type: ignore[arg-type] # a gauge has no start
        time_unix_ns,
        number(point),
        _exemplars(point.exemplar),
    )


def _attributes(point: DataPoint) -> dict[str, str]:
    return {name: encodable(value) for name, value in attributes(point).items()}


def _exponential(point: DataPoint, time_unix_ns: int) -> ExponentialHistogramDataPoint:
    histogram = _histogram(point)
    counts = histogram.counts
    return ExponentialHistogramDataPoint(
        attributes=_attributes(point),
        start_time_unix_nano=point.start_unix_ns,
        time_unix_nano=time_unix_ns,
        count=histogram.counts.total,
        sum=histogram.sum_seconds,
        scale=units.SCALE,
        zero_count=0,
        positive=Buckets(FIRST_INDEX + counts.begin, counts.held),
        negative=Buckets(0, ()),
        flags=0,
        min=None,  # type: ignore[arg-type] # not known; the protocol and the encoder have it optional
        max=None,  # type: ignore[arg-type]
        exemplars=_exemplars(histogram.exemplar),
    )


def _explicit(point: DataPoint, time_unix_ns: int) -> HistogramDataPoint:
    histogram = _histogram(point)
    return HistogramDataPoint(
        attributes=_attributes(point),
        start_time_unix_nano=point.start_unix_ns,
        time_unix_nano=time_unix_ns,
        count=histogram.counts.total,
        sum=histogram.sum_seconds,
        bucket_counts=explicit_counts(histogram.counts),
        explicit_bounds=units.CLASSIC_EDGES_SECONDS,
        min=None,  # type: ignore[arg-type] # as above
        max=None,  # type: ignore[arg-type]
        exemplars=_exemplars(histogram.exemplar),
    )


def _histogram(point: DataPoint) -> Histogram:
    assert isinstance(point.value, Histogram)  # noqa: S101 - by the kind of the metric
    return point.value


def _exemplars(one: Exemplar | None) -> list[SdkExemplar]:
    if one is None:
        return []
    trace_id, span_id, labels = trace_ids_and_labels(one)
    numbers = (int(span_id, 16), int(trace_id, 16)) if trace_id else (None, None)
    return [SdkExemplar(dict(labels), one.seconds, one.at_unix_ns, *numbers)]
