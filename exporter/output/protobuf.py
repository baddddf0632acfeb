"""Renders a Snapshot in Prometheus' protobuf format: native histograms, with the classic buckets beside them.

Written by hand because it is the hot path of a scrape and no library of ours has it: a message is its fields one behind the
other, each a tag (number and wire type) and a value. Source: io.prometheus.client.MetricFamily, delimited by length.
"""

from __future__ import annotations

import operator
import re
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence

from exporter import units
from exporter.catalog import COMMON_LABELS, Kind
from exporter.model import Exemplar, Family, Histogram, Identity, Snapshot
from exporter.totals import Counts

COUNTER, GAUGE, HISTOGRAM = 0, 1, 4
"""MetricType."""

_TYPE = {Kind.COUNTER: COUNTER, Kind.GAUGE: GAUGE, Kind.INFO: GAUGE, Kind.HISTOGRAM: HISTOGRAM}
_DOUBLE = struct.Struct("<d").pack
# Every varint of one byte, then every one of two.
_SHORT = [bytes((n,)) for n in range(1 << 7)] + [bytes((n & 127 | 128, n >> 7)) for n in range(1 << 7, 1 << 14)]
_SHORT_END = len(_SHORT)
# The same for signed numbers, -8192 to 8191: Python counts a negative index from the end.
_SHORT_SIGNED = _SHORT[::2] + _SHORT[::-2]
_SHORT_SIGNED_END = _SHORT_END >> 1

# Prometheus numbers a native bucket by its upper edge: 2**(index / 8) seconds.
FIRST_INDEX = units.UNIT_EXPONENT << units.SCALE
_ZERO_THRESHOLD = 1e-128  # what a receiver of OTLP gives a histogram that has none
# Occupied buckets (1) and up to two empty ones (0) between them: a zero takes a byte, a span of its own about four.
_RUNS = re.compile(b"\x01+(?:\0{1,2}\x01+)*").finditer
_UPPER_BOUNDS = tuple(b"\x11" + _DOUBLE(edge) for edge in (*units.CLASSIC_EDGES_SECONDS, float("inf")))
# What stands before the count of a classic bucket, by the bytes that the count takes: tag, length, tag.
_BUCKET_HEADS = tuple(b"\x1a" + bytes((1 + taken + len(_UPPER_BOUNDS[0]),)) + b"\x08" for taken in range(11))
_SCHEMA_AND_ZERO_BUCKET = b"\x28" + bytes((2 * units.SCALE,)) + b"\x31" + _DOUBLE(_ZERO_THRESHOLD) + b"\x38\0"


def varint(number: int) -> bytes:
    """An unsigned number, seven bits a byte, the lowest first."""
    if number < _SHORT_END:
        return _SHORT[number]
    if number < 1 << 21:
        return bytes((number & 127 | 128, number >> 7 & 127 | 128, number >> 14))
    groups = bytearray()
    while number > 127:
        groups.append(number & 127 | 128)
        number >>= 7
    groups.append(number)
    return bytes(groups)


def zigzag(number: int) -> bytes:
    """A signed number: 0, -1, 1, -2 are written as 0, 1, 2, 3."""
    return varint(number << 1 if number >= 0 else ~number << 1 | 1)


def nested(tag: bytes, message: bytes) -> bytes:
    """A field that holds a message or a string."""
    return tag + varint(len(message)) + message


def family(name: str, help_text: str, type_number: int, metrics: Iterable[bytes]) -> bytes:
    """A delimited MetricFamily. metrics: as metric() gives them."""
    head = nested(b"\x0a", name.encode()) + nested(b"\x12", help_text.encode()) + b"\x18" + varint(type_number)
    return nested(b"", head + b"".join(metrics))


def metric(labels: bytes, value: bytes) -> bytes:
    """One series of a family. labels: as label_pairs() gives them. value: the field for its type."""
    return nested(b"\x22", labels + value)


def label_pairs(names: Sequence[str], values: Sequence[str]) -> bytes:
    """The labels of a metric or an exemplar."""
    return b"".join(
        nested(b"\x0a", nested(b"\x0a", name.encode()) + nested(b"\x12", value.encode()))
        for name, value in zip(names, values, strict=True)
    )


def number(type_number: int, value: float, created: bytes = b"", exemplar: bytes = b"") -> bytes:
    """The value of a counter or a gauge. created: timestamp() of a counter's start. exemplar: of a counter, as a message."""
    if type_number == COUNTER:
        more = (nested(b"\x12", exemplar) if exemplar else b"") + (nested(b"\x1a", created) if created else b"")
        return nested(b"\x1a", b"\x09" + _DOUBLE(value) + more)
    return nested(b"\x12", b"\x09" + _DOUBLE(value))


def timestamp(unix_ns: int) -> bytes:
    """A google.protobuf.Timestamp."""
    seconds, nanoseconds = divmod(unix_ns, units.NANOSECONDS)
    return b"\x08" + varint(seconds) + b"\x10" + varint(nanoseconds)


def render(snapshot: Snapshot) -> Iterator[bytes]:
    """The exposition in pieces, a family each."""
    writer = _Writer(snapshot.started_unix_ns)
    return map(writer.family, snapshot.families)


class _Writer:
    """Writes the families of one snapshot; remembers the labels it has written before."""

    def __init__(self, started_unix_ns: Mapping[Identity | None, int]) -> None:
        self._started_unix_ns = started_unix_ns
        self._label_cache: dict[tuple[Sequence[str], Sequence[str]], bytes] = {}

    def family(self, one: Family) -> bytes:
        """A delimited MetricFamily."""
        of, type_number = one.metric, _TYPE[one.metric.kind]
        metrics = []
        identity, common, created = None, b"", b""
        for point in one.points:
            if point.identity is not identity:  # points of one identity stand together
                identity, started_unix_ns = point.identity, self._started_unix_ns.get(point.identity)
                common = self._labels(COMMON_LABELS, identity.values()) if identity else b""
                created = timestamp(started_unix_ns) if started_unix_ns else b""
            exemplar = one.exemplars.get((identity, point.labels)) if one.exemplars else None
            field = self._value(type_number, point.value, created, self._exemplar(exemplar) if exemplar else b"")
            metrics.append(metric(common + self._labels(of.labels, point.labels), field))
        return family(of.name, of.help, type_number, metrics)

    def _labels(self, names: tuple[str, ...], values: tuple[str, ...]) -> bytes:
        written = self._label_cache.get((names, values))
        if written is None:
            written = self._label_cache[names, values] = label_pairs(names, values)
        return written

    def _value(self, type_number: int, value: float | Histogram, created: bytes, exemplar: bytes) -> bytes:
        if isinstance(value, Histogram):
            return self._histogram(value, created)
        return number(type_number, value, created, exemplar)

    def _histogram(self, histogram: Histogram, created: bytes) -> bytes:
        cumulative = histogram.counts.cumulative()
        fields = [b"\x08", varint(cumulative[-1]), b"\x11", _DOUBLE(histogram.sum_seconds)]
        exemplar, with_exemplar = b"", -1
        if histogram.exemplar:
            exemplar = self._exemplar(histogram.exemplar)
            with_exemplar = units.classic_bucket(histogram.exemplar.seconds)
        for bucket, count in enumerate(cumulative):
            written = varint(count)
            if bucket == with_exemplar:
                fields.append(nested(b"\x1a", b"\x08" + written + _UPPER_BOUNDS[bucket] + nested(b"\x1a", exemplar)))
            else:
                fields += (_BUCKET_HEADS[len(written)], written, _UPPER_BOUNDS[bucket])
        fields += (_SCHEMA_AND_ZERO_BUCKET, _native_buckets(histogram.counts))
        if created:
            fields.append(nested(b"\x7a", created))
        if exemplar:
            fields.append(nested(b"\x82\x01", exemplar))
        return nested(b"\x3a", b"".join(fields))

    def _exemplar(self, exemplar: Exemplar) -> bytes:
        names, values = zip(*exemplar.labels, strict=True) if exemplar.labels else ((), ())
        value = b"\x11" + _DOUBLE(exemplar.seconds)
        return self._labels(names, values) + value + nested(b"\x1a", timestamp(exemplar.at_unix_ns))


def _native_buckets(counts: Counts) -> bytes:
    """Spans of occupied buckets, and each count as its difference to the one before."""
    begin, held = counts.begin, counts.held
    spans, written = b"", list(held)
    if 0 in written:
        at = -FIRST_INDEX  # one behind the last bucket written, counted from slot 0
        runs = [(begin + run.start(), begin + run.end()) for run in _RUNS(bytes(map(bool, written)))]
        for first, behind in runs:
            spans += _span(first - at, behind - first)
            at = behind
        written = [count for first, behind in runs for count in held[first - begin : behind - begin]]
    elif written:
        spans = _span(begin + FIRST_INDEX, len(held))
    deltas = map(operator.sub, written, [0, *written[:-1]])
    low, high = -_SHORT_SIGNED_END, _SHORT_SIGNED_END
    return spans + nested(b"\x6a", b"".join([_SHORT_SIGNED[d] if low <= d < high else zigzag(d) for d in deltas]))


def _span(gap: int, length: int) -> bytes:
    """gap: empty buckets before it; of the first span the index of its first bucket."""
    return nested(b"\x62", b"\x08" + zigzag(gap) + b"\x10" + varint(length))
