"""Prometheus' protobuf exposition, read by Google's parser from the message definitions, with questions that tests ask.

Source: io/prometheus/client/metrics.proto; fields that no exporter of ours writes are left out, and refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.support.protobuf_messages import message_class

_PACKAGE = "io.prometheus.client"
_MESSAGES = {
    "Timestamp": "int64 seconds 1; int32 nanos 2",
    "LabelPair": "string name 1; string value 2",
    "Exemplar": "LabelPair* label 1; double value 2; Timestamp timestamp 3",
    "Gauge": "double value 1",
    "Counter": "double value 1; Exemplar exemplar 2; Timestamp created_timestamp 3",
    "Bucket": "uint64 cumulative_count 1; double upper_bound 2; Exemplar exemplar 3",
    "BucketSpan": "sint32 offset 1; uint32 length 2",
    "Histogram": "uint64 sample_count 1; double sample_sum 2; Bucket* bucket 3; sint32 schema 5; double zero_threshold 6;"
    " uint64 zero_count 7; BucketSpan* positive_span 12; sint64* positive_delta 13; Timestamp created_timestamp 15;"
    " Exemplar* exemplars 16",
    "Metric": "LabelPair* label 1; Gauge gauge 2; Counter counter 3; Histogram histogram 7",
    "MetricFamily": "string name 1; string help 2; int32 type 3; Metric* metric 4",
}
COUNTER, GAUGE, HISTOGRAM = 0, 1, 4


_MetricFamily = message_class(_PACKAGE, _MESSAGES, "MetricFamily")


@dataclass(frozen=True)
class Native:
    """A native histogram. buckets: index -> count, of those that stand in a span, empty ones included."""

    schema: int
    count: int
    sum_seconds: float
    buckets: dict[int, int]

    def cumulative(self, upper_edge_exponent: int) -> int:
        """Observations up to 2**exponent seconds."""
        return sum(count for index, count in self.buckets.items() if index <= upper_edge_exponent << self.schema)


def of_delimited(body: bytes) -> dict[str, Any]:
    """Family name -> MetricFamily. Refuses duplicate names and unknown fields."""
    families: dict[str, Any] = {}
    at = 0
    while at < len(body):
        length, shift = 0, 0
        while True:
            byte = body[at]
            length |= (byte & 127) << shift
            at, shift = at + 1, shift + 7
            if byte < 128:
                break
        family = _MetricFamily.FromString(body[at : at + length])
        at += length
        written = family.SerializeToString()
        family.DiscardUnknownFields()
        assert written == family.SerializeToString(), f"{family.name} has unknown fields"
        assert family.name not in families, family.name
        families[family.name] = family
    return families


def labels_of(metric: Any) -> dict[str, str]:
    """The labels of a metric or an exemplar."""
    labels = {pair.name: pair.value for pair in metric.label}
    assert len(labels) == len(metric.label)
    return labels


def classic_of(metric: Any) -> dict[float, int]:
    """Upper bound -> cumulative count."""
    return {bucket.upper_bound: bucket.cumulative_count for bucket in metric.histogram.bucket}


def native_of(metric: Any) -> Native:
    """Spans and deltas combined by the definitions: the first offset is an index, the others are gaps."""
    histogram = metric.histogram
    buckets: dict[int, int] = {}
    deltas = iter(histogram.positive_delta)
    index = count = 0
    for span in histogram.positive_span:
        index += span.offset
        for _ in range(span.length):
            count += next(deltas)
            buckets[index] = count
            index += 1
    assert next(deltas, None) is None, "more buckets than the spans have room for"
    return Native(histogram.schema, histogram.sample_count, histogram.sample_sum, buckets)
