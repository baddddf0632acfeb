"""A body in Prometheus' protobuf format -> Scrape. Only that format has every bucket of the kernel, 9.05 % wide.

The bytes are untrusted: labels become printable and short, and any other body is refused with a reason.
Source of the definitions: io/prometheus/client/metrics.proto.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError

from exporter import catalog, units
from exporter.catalog import COMMON_LABELS, METRICS, WORKLOAD_METRICS, Kind, Metric
from exporter.clock import Moment
from exporter.errors import ExporterError
from exporter.model import Identity, label_value
from exporter.scrape.samples import Distribution, Key, Number, Scrape

WANTED: Final = (
    catalog.cuda.OPERATION_DURATION,
    catalog.cuda.OPERATIONS,
    catalog.cuda.OPERATION_ERRORS,
    catalog.nccl.OPERATION_DURATION,
    catalog.nccl.OPERATION_ERRORS,
    catalog.nccl.ENQUEUED,
    catalog.nccl.ARRIVAL_LAG,
    catalog.sched.LOST,
    catalog.sched.CULPRIT,
    catalog.sched.STEP_DURATION,
    catalog.chains.ACTIVE,
    catalog.chains.SEVERITY,
    catalog.chains.INFO,
    catalog.workload.INFO,
    catalog.workload.SAMPLED_PROCESSES,
    catalog.own.BUILD_INFO,
    catalog.own.PROBES_ENABLED,
    catalog.own.COLLECTOR_SUCCESS,
    catalog.own.LOSSES,
)
"""The metrics that are read; other ones are skipped."""

_OURS: Final = {metric.name for metric in METRICS}
_LENGTH_BYTES_MAX: Final = 5  # of a family: seven bits a byte
_FIRST_INDEX: Final = units.UNIT_EXPONENT << units.SCALE  # a native bucket's index, of slot 0
_WITH_IDENTITY: Final = {metric.name for metric in WORKLOAD_METRICS}

# Fields that are not read are skipped by the parser. `*`: repeated.
_PACKAGE: Final = "io.prometheus.client"
_MESSAGES: Final = {
    "Timestamp": "int64 seconds 1; int32 nanos 2",
    "LabelPair": "string name 1; string value 2",
    "Gauge": "double value 1",
    "Counter": "double value 1; Timestamp created_timestamp 3",
    "BucketSpan": "sint32 offset 1; uint32 length 2",
    "Histogram": "double sample_sum 2; sint32 schema 5; BucketSpan* positive_span 12; sint64* positive_delta 13;"
    " Timestamp created_timestamp 15",
    "Metric": "LabelPair* label 1; Gauge gauge 2; Counter counter 3; Histogram histogram 7",
    "MetricFamily": "string name 1; Metric* metric 4",
}
_FIELD: Final = descriptor_pb2.FieldDescriptorProto
_SCALARS: Final = {
    "string": _FIELD.TYPE_STRING,
    "double": _FIELD.TYPE_DOUBLE,
    "uint32": _FIELD.TYPE_UINT32,
    "sint32": _FIELD.TYPE_SINT32,
    "sint64": _FIELD.TYPE_SINT64,
    "int32": _FIELD.TYPE_INT32,
    "int64": _FIELD.TYPE_INT64,
}


class NotOurs(ExporterError):
    """A response that is not an exposition of this exporter."""


def read(body: bytes, at: Moment) -> Scrape:
    """The wanted series of a body. Raises NotOurs."""
    numbers: dict[str, dict[Key, Number]] = {}
    distributions: dict[str, dict[Key, Distribution]] = {}
    wanted = {metric.name: metric for metric in WANTED}
    keys, is_ours = _Keys(), False
    for family in _families(body):
        is_ours = is_ours or family.name in _OURS
        metric = wanted.get(family.name)
        if metric is None:
            continue
        if metric.kind is Kind.HISTOGRAM:
            distributions[metric.name] = {keys.of(metric, one): _distribution(one.histogram) for one in family.metric}
        else:
            numbers[metric.name] = {keys.of(metric, one): _number(one, metric.kind) for one in family.metric}
    if not is_ours:
        raise NotOurs("metrics of another program, not of gpu-stall-exporter")
    return Scrape(at, numbers, distributions)


def _families(body: bytes) -> Iterator[Any]:
    parsed: Callable[[bytes], Any] = _family_class().FromString
    at = 0
    while at < len(body):
        length, at = _length(body, at)
        if length > len(body) - at:
            raise NotOurs("incomplete metrics")
        try:
            yield parsed(body[at : at + length])
        except DecodeError:
            raise NotOurs("not metrics in the protobuf format") from None
        at += length


def _length(body: bytes, at: int) -> tuple[int, int]:
    """A varint, and the offset of its end."""
    length = 0
    for shift, byte in enumerate(body[at : at + _LENGTH_BYTES_MAX]):
        length |= (byte & 127) << 7 * shift
        if byte < 128:
            return length, at + shift + 1
    raise NotOurs("not metrics in the protobuf format")


def _family_class() -> Any:
    file = descriptor_pb2.FileDescriptorProto(name="exporter/top.proto", package=_PACKAGE, syntax="proto2")
    for message_name, fields in _MESSAGES.items():
        message = file.message_type.add(name=message_name)
        for declaration in fields.split(";"):
            kind, field_name, number = declaration.split()
            field = message.field.add(name=field_name, number=int(number))
            field.label = _FIELD.LABEL_REPEATED if kind.endswith("*") else _FIELD.LABEL_OPTIONAL
            scalar = _SCALARS.get(kind.removesuffix("*"))
            if scalar is None:
                field.type, field.type_name = _FIELD.TYPE_MESSAGE, f".{_PACKAGE}.{kind.removesuffix('*')}"
            else:
                field.type = scalar
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.MetricFamily"))


class _Keys:
    """Makes Keys, with a cache: a scrape has few identities and label values."""

    def __init__(self) -> None:
        self._identities: dict[tuple[str, ...], Identity] = {}
        self._texts: dict[str, str] = {}

    def of(self, metric: Metric, one: Any) -> Key:
        """The key of a series; missing labels are empty."""
        labels = {pair.name: pair.value for pair in one.label}
        own = tuple(self._text(labels.get(name, "")) for name in metric.labels)
        if metric.name not in _WITH_IDENTITY:
            return None, own
        values = tuple(labels.get(name, "") for name in COMMON_LABELS)
        identity = self._identities.get(values)
        if identity is None:
            identity = self._identities[values] = Identity(*values)
        return identity, own

    def _text(self, value: str) -> str:
        shown = self._texts.get(value)
        if shown is None:
            shown = self._texts[value] = label_value(value)
        return shown


def _number(one: Any, kind: Kind) -> Number:
    if kind is Kind.COUNTER:
        return Number(_finite(one.counter.value), _unix_ns(one.counter.created_timestamp))
    return Number(_finite(one.gauge.value))


def _distribution(histogram: Any) -> Distribution:
    if histogram.positive_span and histogram.schema != units.SCALE:
        raise NotOurs(f"histograms of schema {histogram.schema}, want {units.SCALE}: the exporter has another version")
    counts: dict[int, int] = {}
    deltas = iter(histogram.positive_delta)
    slot, count = -_FIRST_INDEX, 0
    for span in histogram.positive_span:
        slot += span.offset
        if not 0 <= slot <= slot + span.length <= units.SLOTS:
            raise NotOurs("a histogram with buckets beyond the exporter's")
        for _ in range(span.length):
            count += next(deltas, 0)
            if count > 0:
                counts[slot] = count
            slot += 1
    return Distribution(counts, _finite(histogram.sample_sum), _unix_ns(histogram.created_timestamp))


def _finite(value: float) -> float:
    return value if math.isfinite(value) else 0.0


def _unix_ns(timestamp: Any) -> int:
    """0 for a missing timestamp."""
    return int(timestamp.seconds) * units.NANOSECONDS + int(timestamp.nanos)
