"""A body in Prometheus' protobuf format -> Scrape. Only that format has every bucket of the kernel, 9.05 % wide.

The bytes are untrusted: labels become printable and short, numbers finite, and any other body is refused with a reason. Series
are decoded one at a time and within bounds: a message of two bytes takes a hundred in memory.
Source of the definitions: io/prometheus/client/metrics.proto.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError

from exporter import catalog, units
from exporter.catalog import COMMON_LABELS, METRICS, WORKLOAD_METRICS, Kind, Metric
from exporter.clock import Moment
from exporter.errors import BadInput
from exporter.model import MAX_LABEL_CHARACTERS, Identity, label_value
from exporter.scrape.samples import Distribution, Key, Number, Scrape
from exporter.text import untrusted

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
    catalog.chains.LOST,
    catalog.chains.LOST_AT_WORST,
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
_FAMILIES_MAX: Final = 10_000  # a page may hold those of other programs as well
_SERIES_MAX: Final = 100_000
_BUCKETS_MAX: Final = 1_000_000  # of all histograms: a node has twenty thousand, with a few dozen buckets each
_SERIES_BYTES_MAX: Final = 128 << 10
_TEXT_CHARACTERS_MAX: Final = 4_000_000  # of all label values that differ
_LABELS_MAX: Final = 64
_NAME_BYTES_MAX: Final = 256
_TIME_NS_MAX: Final = (1 << 63) - 1
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5  # wire types
_VARINT_BYTES_MAX: Final = 10
_NAME_FIELD, _SERIES_FIELD = 1, 4  # of MetricFamily
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


_NO_METRICS: Final = "not metrics in the protobuf format"


class NotOurs(BadInput):
    """A response that is not an exposition of this exporter: the address can be corrected."""


def read(body: bytes, at: Moment) -> Scrape:
    """The wanted series of a body. Raises NotOurs."""
    numbers: dict[str, dict[Key, Number]] = {}
    distributions: dict[str, dict[Key, Distribution]] = {}
    wanted = {metric.name: metric for metric in WANTED}
    keys, is_ours = _Keys(), False
    left_series, left_buckets = _SERIES_MAX, _BUCKETS_MAX
    for family in _families(body):
        name = _name_of(family)
        is_ours = is_ours or name in _OURS
        metric = wanted.get(name)
        if metric is None:
            continue
        for one in _series_of(family):
            key = keys.of(metric, one)
            left_series -= 1
            if metric.kind is Kind.HISTOGRAM:
                found = _distribution(one.histogram)
                left_buckets -= len(found.counts)
                distributions.setdefault(metric.name, {})[key] = found
            else:
                numbers.setdefault(metric.name, {})[key] = _number(one, metric.kind)
            if left_series < 0 or left_buckets < 0:
                raise NotOurs(f"more than {_SERIES_MAX} series or {_BUCKETS_MAX} buckets")
    if not is_ours:
        raise NotOurs("metrics of another program, not of gpu-stall-exporter")
    return Scrape(at, numbers, distributions)


def _families(body: bytes) -> Iterator[memoryview]:
    """The encoded families."""
    view = memoryview(body)
    at = families = 0
    while at < len(body):
        families += 1
        if families > _FAMILIES_MAX:
            raise NotOurs(f"more than {_FAMILIES_MAX} metrics")
        length, at = _length(body, at)
        if length > len(body) - at:
            raise NotOurs("incomplete metrics")
        yield view[at : at + length]
        at += length


def _name_of(family: memoryview) -> str:
    for number, value in _fields(family):
        if number == _NAME_FIELD:
            if len(value) > _NAME_BYTES_MAX:
                raise NotOurs("the name of a metric is too long")
            return bytes(value).decode("utf-8", "replace")
    return ""


def _series_of(family: memoryview) -> Iterator[Any]:
    """The decoded series of a family."""
    parsed: Callable[[bytes], Any] = _series_class().FromString
    for number, value in _fields(family):
        if number != _SERIES_FIELD:
            continue
        if len(value) > _SERIES_BYTES_MAX:
            raise NotOurs("a series is larger than any of the exporter")
        try:
            yield parsed(bytes(value))
        except DecodeError:
            raise NotOurs(_NO_METRICS) from None


def _fields(message: memoryview) -> Iterator[tuple[int, memoryview]]:
    """The number and the bytes of each field whose length is given; other fields are skipped."""
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        kind = tag & 7
        if kind == _BYTES:
            length, at = _varint(message, at)
            end = at + length
        elif kind == _VARINT:
            _, end = _varint(message, at)
        elif kind in (_FIXED32, _FIXED64):
            end = at + (4 if kind == _FIXED32 else 8)
        else:
            raise NotOurs(_NO_METRICS)
        if end > len(message):
            raise NotOurs(_NO_METRICS)
        if kind == _BYTES:
            yield tag >> 3, message[at:end]
        at = end


def _varint(message: memoryview, at: int) -> tuple[int, int]:
    value = 0
    for shift, byte in enumerate(message[at : at + _VARINT_BYTES_MAX]):
        value |= (byte & 127) << 7 * shift
        if byte < 128:
            return value, at + shift + 1
    raise NotOurs(_NO_METRICS)


def _length(body: bytes, at: int) -> tuple[int, int]:
    """A varint, and the offset of its end."""
    length = 0
    for shift, byte in enumerate(body[at : at + _LENGTH_BYTES_MAX]):
        length |= (byte & 127) << 7 * shift
        if byte < 128:
            return length, at + shift + 1
    raise NotOurs(_NO_METRICS)


@cache
def _series_class() -> Any:
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
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.Metric"))


class _Keys:
    """Makes Keys, with a cache: a scrape has few identities and label values."""

    def __init__(self) -> None:
        self._identities: dict[tuple[str, ...], Identity] = {}
        self._texts: dict[str, str] = {}
        self._left_characters = _TEXT_CHARACTERS_MAX

    def of(self, metric: Metric, one: Any) -> Key:
        """The key of a series; missing labels are empty."""
        if len(one.label) > _LABELS_MAX:
            raise NotOurs(f"a series with more than {_LABELS_MAX} labels")
        labels = {pair.name: pair.value for pair in one.label}
        own = tuple(self._text(labels.get(name, "")) for name in metric.labels)
        if metric.name not in _WITH_IDENTITY:
            return None, own
        values = tuple(self._text(labels.get(name, "")) for name in COMMON_LABELS)
        identity = self._identities.get(values)
        if identity is None:
            self._keep(values)
            identity = self._identities[values] = Identity(*values)
        return identity, own

    def _text(self, value: str | bytes) -> str:
        """value: bytes where they are not UTF-8."""
        value = value.decode("utf-8", "replace") if isinstance(value, bytes) else value
        value = value[:MAX_LABEL_CHARACTERS]
        shown = self._texts.get(value)
        if shown is None:
            self._keep((value,))
            shown = self._texts[value] = label_value(value)
        return shown

    def _keep(self, values: Iterable[str]) -> None:
        self._left_characters -= sum(map(len, values))
        if self._left_characters < 0:
            raise NotOurs(f"labels of more than {_TEXT_CHARACTERS_MAX} characters")


def _number(one: Any, kind: Kind) -> Number:
    if kind is Kind.COUNTER:
        return Number(untrusted.finite(one.counter.value), _unix_ns(one.counter.created_timestamp))
    return Number(untrusted.finite(one.gauge.value))


def _distribution(histogram: Any) -> Distribution:
    if histogram.positive_span and histogram.schema != units.SCALE:
        raise NotOurs(f"histograms of schema {histogram.schema}, want {units.SCALE}: the exporter has another version")
    if len(histogram.positive_span) > units.SLOTS:
        raise NotOurs("a histogram with more buckets than the exporter's")
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
    return Distribution(counts, untrusted.finite(histogram.sample_sum), _unix_ns(histogram.created_timestamp))


def _unix_ns(timestamp: Any) -> int:
    """0 for a missing timestamp, and for one that is no time."""
    unix_ns = int(timestamp.seconds) * units.NANOSECONDS + int(timestamp.nanos)
    return unix_ns if 0 <= unix_ns <= _TIME_NS_MAX else 0
