"""What a receiver of OTLP metrics has got: the points of a request, after every rule that a request must keep has been checked.

In: a body in JSON or protobuf, or a document that a Collector has written. Out: one Received per data point. A request that
breaks a rule is refused with the path of what breaks it. The form of a request is that of tests/support/otlp_schema.py; here are
the rules of meaning, of the specification's data model, and those that this exporter adds for itself.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

from google.protobuf import json_format
from google.protobuf.message import DecodeError, Message
from google.protobuf.unknown_fields import UnknownFieldSet
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from tests.support.otlp_schema import CONVERTED, RETOLD, NotOtlp, Tree, below, parse, walk

__all__ = ["Exemplar", "HistogramValue", "NotOtlp", "Received", "read_document", "read_json", "read_protobuf"]

INSTANCE = "service.instance.id"
SCALES = range(-10, 21)  # what the specification lets a producer choose from
_NAME = re.compile(r"[a-z][a-z0-9._]*")
_KINDS = {"gauge": "gauge", "sum": "sum", "histogram": "histogram", "exponentialHistogram": "exponential"}


@dataclass(frozen=True)
class HistogramValue:
    """A distribution.

    sum: None where the sender gave none. scale: None with explicit bounds. buckets: with a scale, index -> count, of those that
    are not 0; bucket i covers (2**(i / 2**scale), 2**((i + 1) / 2**scale)]. Without one, upper bound -> count, infinity included.
    """

    count: int
    sum: float | None
    scale: int | None
    zero_count: int
    buckets: Mapping[int, int] | Mapping[float, int]

    def cumulative(self, le_seconds: float) -> int:
        """How many are at most this, as the classic bucket `le` would say; exact, so a power of 2, a bound or infinity."""
        if math.isinf(le_seconds):
            return self.count
        if self.scale is None:
            assert le_seconds in self.buckets, f"{le_seconds} is no bound"
            return sum(count for bound, count in self.buckets.items() if bound <= le_seconds)
        mantissa, exponent = math.frexp(le_seconds)
        assert (mantissa, self.scale >= 0) == (0.5, True), f"{le_seconds} is no edge at scale {self.scale}"
        edge = (exponent - 1) << self.scale
        return self.zero_count + sum(count for index, count in self.buckets.items() if index + 1 <= edge)


class Exemplar(NamedTuple):
    """One measurement of those that made a point. Ids are lowercase hex, "" for none."""

    time_unix_ns: int
    value: int | float
    trace_id: str
    span_id: str
    attributes: Mapping[str, Any]


@dataclass(frozen=True)
class Received:
    """One data point with all that it hangs from. Attribute values have the type they were sent with; bytes are bytes.

    kind: gauge, sum, histogram or exponential. temporality: cumulative or delta, "" of a gauge.
    """

    resource: Mapping[str, Any]
    scope: str
    name: str
    unit: str
    description: str
    kind: str
    temporality: str
    is_monotonic: bool
    attributes: Mapping[str, Any]
    start_unix_ns: int
    time_unix_ns: int
    value: int | float | HistogramValue
    exemplars: tuple[Exemplar, ...]


def read_json(body: bytes) -> list[Received]:
    """The points of an OTLP/JSON body. Raises NotOtlp."""
    return list(_of_request(walk(parse(body))))


def read_protobuf(body: bytes) -> list[Received]:
    """The points of a binary body. Raises NotOtlp; also for fields that the .proto files do not have."""
    request = ExportMetricsServiceRequest()
    try:
        request.ParseFromString(body)
    except DecodeError as error:
        raise NotOtlp("body", str(error)) from error
    refuse_unknown_fields(request, "")
    return list(_of_request(walk(json_format.MessageToDict(request, use_integers_for_enums=True), CONVERTED)))


def read_document(document: Tree) -> list[Received]:
    """The points of a line that a Collector's file exporter wrote, parsed. Its way of writing is free; the rules are the same."""
    return list(_of_request(walk(document, RETOLD)))


def refuse_unknown_fields(message: Message, path: str) -> None:
    """Whatever the .proto files do not have."""
    for unknown in UnknownFieldSet(message):
        raise NotOtlp(path or "body", f"{message.DESCRIPTOR.name} has no field {unknown.field_number} of this type")
    for field, value in message.ListFields():
        here = below(path, field.json_name)
        if field.message_type and field.is_repeated:
            for index, item in enumerate(value):
                refuse_unknown_fields(item, f"{here}[{index}]")
        elif field.message_type:
            refuse_unknown_fields(value, here)


def resources_of(request: Tree, key: str) -> list[tuple[str, Tree]]:
    """What hangs from each resource, with its path. Each says which instance it is, and is no other."""
    resources = each(request, key)
    for path, item in resources:
        instance = item["resource"]["attributes"].get(INSTANCE)
        is_told = bool(instance) and isinstance(instance, str)
        demand(is_told, f"{path}.resource.attributes", f"no {INSTANCE}, or no string")
    # So the sets of attributes differ too.
    differ((f"{path}.resource.attributes", item["resource"]["attributes"][INSTANCE]) for path, item in resources)
    return resources


def scopes_of(resource: Tree, key: str, path: str) -> list[tuple[str, Tree]]:
    """What hangs from each scope of a resource, with its path; they differ."""
    scopes = each(resource, key, path)
    differ((f"{scope_path}.scope", scope_identity(scope["scope"])) for scope_path, scope in scopes)
    return scopes


# --- from the request down to its points


def _of_request(request: Tree) -> Iterator[Received]:
    for path, item in resources_of(request, "resourceMetrics"):
        yield from _of_resource(item, path)


def _of_resource(item: Tree, path: str) -> Iterator[Received]:
    for scope_path, scope in scopes_of(item, "scopeMetrics", path):
        metrics = each(scope, "metrics", scope_path)
        differ((f"{metric_path}.name", metric["name"]) for metric_path, metric in metrics)
        for metric_path, metric in metrics:
            yield from _of_metric(item["resource"]["attributes"], scope["scope"]["name"], metric, metric_path)


def _of_metric(resource: Tree, scope: str, metric: Tree, path: str) -> Iterator[Received]:
    demand(bool(_NAME.fullmatch(metric["name"])), f"{path}.name", f"{metric['name']!r} is no name")
    field = next(key for key in _KINDS if key in metric)
    data = metric[field]
    points = each(data, "dataPoints", below(path, field))
    differ((f"{point_path}.attributes", _identity(point.get("attributes", {}))) for point_path, point in points)
    for point_path, point in points:
        _check_point(point, point_path, has_start=field != "gauge")
        yield Received(
            resource=resource,
            scope=scope,
            name=metric["name"],
            unit=metric.get("unit", ""),
            description=metric.get("description", ""),
            kind=_KINDS[field],
            temporality=data.get("aggregationTemporality", ""),
            is_monotonic=data.get("isMonotonic", False),
            attributes=point.get("attributes", {}),
            start_unix_ns=point.get("startTimeUnixNano", 0),
            time_unix_ns=point["timeUnixNano"],
            value=_VALUES[field](point, data, point_path),
            exemplars=tuple(_exemplar(item) for item in point.get("exemplars", [])),
        )


def _check_point(point: Tree, path: str, *, has_start: bool) -> None:
    """What holds for the points of every kind."""
    start_ns = point.get("startTimeUnixNano", 0)
    demand(start_ns > 0 or not has_start, f"{path}.startTimeUnixNano", "is missing, or 0")
    demand(point["timeUnixNano"] >= start_ns, f"{path}.timeUnixNano", "is before the start")
    demand(not point.get("flags"), f"{path}.flags", "a point without a value is not sent")
    for index, key in enumerate(point.get("attributes", {})):
        demand(bool(_NAME.fullmatch(key)), f"{path}.attributes[{index}].key", f"{key!r} is no name")


def _exemplar(item: Tree) -> Exemplar:
    return Exemplar(
        item["timeUnixNano"],
        _either(item),
        item.get("traceId", ""),
        item.get("spanId", ""),
        item.get("filteredAttributes", {}),
    )


# --- values


def _either(item: Tree) -> int | float:
    number: int | float = item["asInt"] if "asInt" in item else item["asDouble"]
    return number


def _gauge(point: Tree, _data: Tree, _path: str) -> int | float:
    return _either(point)


def _sum(point: Tree, data: Tree, path: str) -> int | float:
    value = _either(point)
    where = below(path, "asInt" if "asInt" in point else "asDouble")
    demand(not math.isnan(value), where, "a sum is a number")
    demand(value >= 0 or not data.get("isMonotonic"), where, f"{value} is below 0, and the sum only grows")
    return value


def _explicit(point: Tree, _data: Tree, path: str) -> HistogramValue:
    bounds, counts = point.get("explicitBounds", []), point.get("bucketCounts", [])
    _check_distribution(point, path)
    demand(all(map(math.isfinite, bounds)), f"{path}.explicitBounds", "a bound is not finite")
    demand(all(low < high for low, high in pairwise(bounds)), f"{path}.explicitBounds", "they do not ascend")
    if counts or bounds:  # neither: the sender knows no distribution
        why = f"{len(counts)} counts with {len(bounds)} bounds"
        demand(len(counts) == len(bounds) + 1, f"{path}.bucketCounts", why)
        _check_count(point, sum(counts), path)
    return HistogramValue(
        point.get("count", 0), point.get("sum"), None, 0, dict(zip((*bounds, math.inf), counts, strict=False))
    )


def _exponential(point: Tree, _data: Tree, path: str) -> HistogramValue:
    scale, zero_count = point.get("scale", 0), point.get("zeroCount", 0)
    positive, negative = point.get("positive", {}), point.get("negative", {})
    counts = positive.get("bucketCounts", [])
    _check_distribution(point, path)
    demand(scale in SCALES, f"{path}.scale", f"{scale} is not within {SCALES.start} to {SCALES.stop - 1}")
    threshold = point.get("zeroThreshold", 0.0)
    demand(0 <= threshold < math.inf, f"{path}.zeroThreshold", f"{threshold} is no width")
    demand(not any(negative.get("bucketCounts", [])), f"{path}.negative", "nothing measured here is below 0")
    _check_count(point, sum(counts) + zero_count, path)
    buckets = {index: count for index, count in enumerate(counts, positive.get("offset", 0)) if count}
    return HistogramValue(point.get("count", 0), point.get("sum"), scale, zero_count, buckets)


def _check_distribution(point: Tree, path: str) -> None:
    """What holds for both kinds of histogram."""
    total = point.get("sum", 0.0)
    demand(total >= 0, f"{path}.sum", f"{total} is not 0 or more")
    demand(total == 0 or point.get("count", 0) > 0, f"{path}.sum", f"{total} is the sum of nothing")
    demand(not point.get("min", -math.inf) > point.get("max", math.inf), f"{path}.min", "is above max")


def _check_count(point: Tree, counted: int, path: str) -> None:
    count = point.get("count", 0)
    demand(count == counted, f"{path}.count", f"{count}, and {counted} in the buckets")


_VALUES: dict[str, Callable[[Tree, Tree, str], int | float | HistogramValue]] = {
    "gauge": _gauge,
    "sum": _sum,
    "histogram": _explicit,
    "exponentialHistogram": _exponential,
}


# --- rules


def demand(holds: bool, path: str, why: str) -> None:
    """Refuse what breaks a rule."""
    if not holds:
        raise NotOtlp(path, why)


def differ(identities: Iterable[tuple[str, Hashable]]) -> None:
    """Refuse the second of two that are the same."""
    first: dict[Hashable, str] = {}
    for path, identity in identities:
        demand(identity not in first, path, f"is the same as {first.get(identity)}")
        first[identity] = path


def each(parent: Tree, key: str, path: str = "") -> list[tuple[str, Tree]]:
    """The items of a list with their paths."""
    return [(f"{below(path, key)}[{index}]", item) for index, item in enumerate(parent[key])]


def _identity(attributes: Tree) -> Hashable:
    """Whether two sets of attributes are one. 1, 1.0, true and "1" differ, as they do to a receiver."""
    return frozenset((key, repr(value)) for key, value in attributes.items())


def scope_identity(scope: Tree) -> Hashable:
    """Whether two scopes are one."""
    return scope["name"], scope.get("version", ""), _identity(scope.get("attributes", {}))
