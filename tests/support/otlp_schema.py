"""Does a document have the form of a request of OTLP/JSON? Its messages stand here as a table, field by field.

In: a body, or a document that something else has parsed. Out: the same tree in Python's own types: a 64-bit integer is an int,
a list of attributes is a dict, an id is lowercase hex. What has another form is refused, with its path.

Sources: docs/specification.md ("JSON Protobuf Encoding"), the .proto files of opentelemetry-proto for metrics, logs and traces,
and the JSON mapping of proto3. tests/contract/test_otlp_oracle.py compares the table with the generated classes.
"""

from __future__ import annotations

import base64
import json
import math
import re
import reprlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

Tree = dict[str, Any]
Reader = Callable[[Any], Any]
"""Makes a Python value of a JSON value; raises ValueError or OverflowError when its form is another."""


class NotOtlp(AssertionError):
    """A request breaks a rule. path: where, such as `resourceMetrics[0].scopeMetrics[0].metrics[2].name`; `body` for all."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(f"{path}: {why}")
        self.path = path


# --- the messages


class Message(NamedTuple):
    """A message of the .proto files.

    fields: lowerCamelCase name -> type; of a repeated field it ends with []. required: fields that a sender must write, and not
    with their default value. one_of: fields of which exactly one is there. shape: what the tree has instead of a dict.
    """

    fields: Mapping[str, str]
    required: tuple[str, ...] = ()
    one_of: tuple[str, ...] = ()
    shape: Callable[[Tree], Any] = dict


_NUMBER = ("asDouble", "asInt")
_VALUES = {
    "stringValue": "string",
    "boolValue": "bool",
    "intValue": "int64",
    "doubleValue": "double",
    "arrayValue": "ArrayValue",
    "kvlistValue": "KeyValueList",
    "bytesValue": "bytes",
}
_POINT = {
    "attributes": "KeyValue[]",
    "startTimeUnixNano": "fixed64",
    "timeUnixNano": "fixed64",
    "exemplars": "Exemplar[]",
    "flags": "uint32",
}
_DISTRIBUTION = {"count": "fixed64", "sum": "double", "min": "double", "max": "double"}

MESSAGES = {
    "ExportMetricsServiceRequest": Message({"resourceMetrics": "ResourceMetrics[]"}, required=("resourceMetrics",)),
    "ResourceMetrics": Message(
        {"resource": "Resource", "scopeMetrics": "ScopeMetrics[]", "schemaUrl": "string"},
        required=("resource", "scopeMetrics"),
    ),
    "Resource": Message(
        {"attributes": "KeyValue[]", "droppedAttributesCount": "uint32", "entityRefs": "EntityRef[]"},
        required=("attributes",),
    ),
    "EntityRef": Message(
        {"schemaUrl": "string", "type": "string", "idKeys": "string[]", "descriptionKeys": "string[]"},
        required=("type", "idKeys"),
    ),
    "ScopeMetrics": Message(
        {"scope": "InstrumentationScope", "metrics": "Metric[]", "schemaUrl": "string"}, required=("scope", "metrics")
    ),
    "InstrumentationScope": Message(
        {"name": "string", "version": "string", "attributes": "KeyValue[]", "droppedAttributesCount": "uint32"},
        required=("name",),
    ),
    "Metric": Message(
        {
            "name": "string",
            "description": "string",
            "unit": "string",
            "gauge": "Gauge",
            "sum": "Sum",
            "histogram": "Histogram",
            "exponentialHistogram": "ExponentialHistogram",
            "metadata": "KeyValue[]",
        },
        required=("name",),
        one_of=("gauge", "sum", "histogram", "exponentialHistogram"),
    ),
    "Gauge": Message({"dataPoints": "NumberDataPoint[]"}, required=("dataPoints",)),
    "Sum": Message(
        {
            "dataPoints": "NumberDataPoint[]",
            "aggregationTemporality": "AggregationTemporality",
            "isMonotonic": "bool",
        },
        required=("dataPoints", "aggregationTemporality"),
    ),
    "Histogram": Message(
        {"dataPoints": "HistogramDataPoint[]", "aggregationTemporality": "AggregationTemporality"},
        required=("dataPoints", "aggregationTemporality"),
    ),
    "ExponentialHistogram": Message(
        {"dataPoints": "ExponentialHistogramDataPoint[]", "aggregationTemporality": "AggregationTemporality"},
        required=("dataPoints", "aggregationTemporality"),
    ),
    "NumberDataPoint": Message(
        {**_POINT, "asDouble": "double", "asInt": "sfixed64"}, required=("timeUnixNano",), one_of=_NUMBER
    ),
    "HistogramDataPoint": Message(
        {**_POINT, **_DISTRIBUTION, "bucketCounts": "fixed64[]", "explicitBounds": "double[]"},
        required=("startTimeUnixNano", "timeUnixNano"),
    ),
    "ExponentialHistogramDataPoint": Message(
        {
            **_POINT,
            **_DISTRIBUTION,
            "scale": "sint32",
            "zeroCount": "fixed64",
            "zeroThreshold": "double",
            "positive": "Buckets",
            "negative": "Buckets",
        },
        required=("startTimeUnixNano", "timeUnixNano"),
    ),
    "Buckets": Message({"offset": "sint32", "bucketCounts": "uint64[]"}),
    "Exemplar": Message(
        {
            "filteredAttributes": "KeyValue[]",
            "timeUnixNano": "fixed64",
            "asDouble": "double",
            "asInt": "sfixed64",
            "spanId": "span id",
            "traceId": "trace id",
        },
        required=("timeUnixNano",),
        one_of=_NUMBER,
    ),
    "KeyValue": Message(
        {"key": "string", "value": "AnyValue"},
        required=("key", "value"),
        shape=lambda found: (found["key"], found["value"]),
    ),
    "AnyValue": Message(_VALUES, one_of=tuple(_VALUES), shape=lambda found: next(iter(found.values()))),
    "ArrayValue": Message({"values": "AnyValue[]"}, shape=lambda found: found.get("values", [])),
    "KeyValueList": Message({"values": "KeyValue[]"}, shape=lambda found: found.get("values", {})),
    "ExportLogsServiceRequest": Message({"resourceLogs": "ResourceLogs[]"}, required=("resourceLogs",)),
    "ResourceLogs": Message(
        {"resource": "Resource", "scopeLogs": "ScopeLogs[]", "schemaUrl": "string"}, required=("resource", "scopeLogs")
    ),
    "ScopeLogs": Message(
        {"scope": "InstrumentationScope", "logRecords": "LogRecord[]", "schemaUrl": "string"},
        required=("scope", "logRecords"),
    ),
    "LogRecord": Message(
        {
            "timeUnixNano": "fixed64",
            "observedTimeUnixNano": "fixed64",
            "severityNumber": "SeverityNumber",
            "severityText": "string",
            "body": "AnyValue",
            "attributes": "KeyValue[]",
            "droppedAttributesCount": "uint32",
            "flags": "fixed32",
            "traceId": "trace id",
            "spanId": "span id",
            "eventName": "string",
        },
        required=("timeUnixNano", "observedTimeUnixNano", "severityNumber", "body"),
    ),
    "ExportTraceServiceRequest": Message({"resourceSpans": "ResourceSpans[]"}, required=("resourceSpans",)),
    "ResourceSpans": Message(
        {"resource": "Resource", "scopeSpans": "ScopeSpans[]", "schemaUrl": "string"},
        required=("resource", "scopeSpans"),
    ),
    "ScopeSpans": Message(
        {"scope": "InstrumentationScope", "spans": "Span[]", "schemaUrl": "string"}, required=("scope", "spans")
    ),
    "Span": Message(
        {
            "traceId": "trace id",
            "spanId": "span id",
            "traceState": "string",
            "parentSpanId": "span id",
            "flags": "fixed32",
            "name": "string",
            "kind": "SpanKind",
            "startTimeUnixNano": "fixed64",
            "endTimeUnixNano": "fixed64",
            "attributes": "KeyValue[]",
            "droppedAttributesCount": "uint32",
            "events": "Event[]",
            "droppedEventsCount": "uint32",
            "links": "Link[]",
            "droppedLinksCount": "uint32",
            "status": "Status",
        },
        required=("traceId", "spanId", "name", "kind", "startTimeUnixNano", "endTimeUnixNano"),
    ),
    "Event": Message(
        {
            "timeUnixNano": "fixed64",
            "name": "string",
            "attributes": "KeyValue[]",
            "droppedAttributesCount": "uint32",
        },
        required=("timeUnixNano", "name"),
    ),
    "Link": Message(
        {
            "traceId": "trace id",
            "spanId": "span id",
            "traceState": "string",
            "attributes": "KeyValue[]",
            "droppedAttributesCount": "uint32",
            "flags": "fixed32",
        },
        required=("traceId", "spanId"),
    ),
    "Status": Message({"message": "string", "code": "StatusCode"}),
}
"""Left out, and so refused: `summary`, which is for old formats alone, and the `…Strindex` fields, which are for profiles."""

_DEFAULTS: tuple[Any, ...] = (None, "", "0", 0, [])


# --- the scalars

_DECIMAL = re.compile(r"0|-?[1-9][0-9]*")
_NOT_NUMBERS = ("NaN", "Infinity", "-Infinity")
_GO_INFINITIES = ("+Inf", "-Inf")  # fmt.Sprintf("%f"), in WriteFloat64 of the Collector's pdata/internal/json/stream.go


def _string(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is no string")
    value.encode()  # a lone surrogate has no bytes
    return value


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"{value!r} is no boolean")
    return value


def _within(value: int, bits: int, is_signed: bool) -> int:
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if is_signed else (0, (1 << bits) - 1)
    if not low <= value <= high:
        raise ValueError(f"{value} is not within {low} to {high}")
    return value


def _short_integer(*, is_signed: bool) -> Reader:
    """32 bits: a number."""

    def read(value: Any) -> int:
        if type(value) is not int:
            raise ValueError(f"{value!r} is no integer")
        return _within(value, 32, is_signed)

    return read


def _long_integer(*, is_signed: bool) -> Reader:
    """64 bits: a string."""

    def read(value: Any) -> int:
        if not isinstance(value, str) or not _DECIMAL.fullmatch(value):
            raise ValueError(f"{value!r} is no integer in a string")
        return _within(int(value), 64, is_signed)

    return read


def _double(value: Any, words: tuple[str, ...] = _NOT_NUMBERS) -> float:
    is_number = type(value) in (int, float) and math.isfinite(value)
    if not is_number and value not in words:
        raise ValueError(f"{value!r} is neither a number nor one of {', '.join(words)}")
    return float(value)


def _temporality(value: Any) -> str:
    if type(value) is not int or value not in (1, 2):
        raise ValueError(f"{value!r} is neither 1 (delta) nor 2 (cumulative)")
    return ("", "delta", "cumulative")[value]


def _number_within(least: int, most: int) -> Reader:
    """An enum: a number, which the JSON encoding of OTLP requires, not a name."""

    def read(value: Any) -> int:
        if type(value) is not int or not least <= value <= most:
            raise ValueError(f"{value!r} is no number from {least} to {most}")
        return value

    return read


def _base64(value: Any) -> bytes:
    return base64.b64decode(_string(value), validate=True)


def _id(digits: int) -> Reader:
    def read(value: Any) -> str:
        if not re.fullmatch(rf"[0-9a-f]{{{digits}}}", _string(value)) or not value.strip("0"):
            raise ValueError(f"{value!r} is no id of {digits} lowercase hexadecimal digits, one of them not 0")
        return str(value)

    return read


WRITTEN: dict[str, Reader] = {
    "string": _string,
    "bool": _boolean,
    "uint32": _short_integer(is_signed=False),
    "fixed32": _short_integer(is_signed=False),
    "sint32": _short_integer(is_signed=True),
    "uint64": _long_integer(is_signed=False),
    "fixed64": _long_integer(is_signed=False),
    "int64": _long_integer(is_signed=True),
    "sfixed64": _long_integer(is_signed=True),
    "double": _double,
    "bytes": _base64,
    "trace id": _id(32),
    "span id": _id(16),
    "AggregationTemporality": _temporality,
    "SeverityNumber": _number_within(1, 24),
    "SpanKind": _number_within(1, 5),
    "StatusCode": _number_within(0, 2),
}
"""How a sender writes each type in JSON."""

_LONG = ("uint64", "fixed64", "int64", "sfixed64")
_IDS = ("trace id", "span id")


def _after(change: Reader, read: Reader) -> Reader:
    return lambda value: read(change(value))


CONVERTED = {**WRITTEN, **{kind: _after(lambda value: _base64(value).hex(), WRITTEN[kind]) for kind in _IDS}}
"""How google.protobuf.json_format writes them: an id is bytes like any other."""


def _retold_id(read: Reader) -> Reader:
    return lambda value: _string(value) and read(value.lower())


RETOLD = {
    **WRITTEN,
    **{kind: _after(lambda value: str(value) if type(value) is int else value, WRITTEN[kind]) for kind in _LONG},
    **{kind: _retold_id(WRITTEN[kind]) for kind in _IDS},
    "double": lambda value: _double(value, _NOT_NUMBERS + _GO_INFINITIES),
}
"""How a Collector writes them: 64 bits may be a number, an id may be empty or in capitals, infinity is Go's."""


# --- reading


class _Object(Tree):
    """A JSON object. keys_again: those that stood in it before."""

    keys_again: tuple[str, ...] = ()


def parse(body: bytes) -> Any:
    """A body as JSON, with a key that an object has twice."""
    try:
        return json.loads(body.decode("utf-8"), object_pairs_hook=_object)
    except ValueError as error:
        raise NotOtlp("body", str(error)) from error


def _object(pairs: list[tuple[str, Any]]) -> Tree:
    found = _Object(pairs)
    keys = [key for key, _ in pairs]
    found.keys_again = tuple(key for index, key in enumerate(keys) if key in keys[:index])
    return found


METRICS, LOGS, TRACES = "ExportMetricsServiceRequest", "ExportLogsServiceRequest", "ExportTraceServiceRequest"


def walk(document: Any, readers: Mapping[str, Reader] = WRITTEN, request: str = METRICS) -> Tree:
    """The tree of a parsed request. Raises NotOtlp at the first thing that has not the form."""
    tree: Tree = _message(request, document, "", readers)
    return tree


def below(path: str, key: str) -> str:
    """The path of a field."""
    return f"{path}.{key}" if path else key


def _message(name: str, value: Any, path: str, readers: Mapping[str, Reader]) -> Any:
    message = MESSAGES[name]
    if not isinstance(value, dict):
        raise NotOtlp(path or "body", f"{reprlib.repr(value)} is no {name}")
    for key in getattr(value, "keys_again", ()):
        raise NotOtlp(below(path, key), "stands here twice")
    for key in value:
        if key not in message.fields:
            raise NotOtlp(below(path, key), f"{name} has no such field that a sender of metrics writes")
    for key in message.required:
        if value.get(key) in _DEFAULTS:
            raise NotOtlp(below(path, key), "is missing, or nothing")
    if message.one_of and len(found := [key for key in value if key in message.one_of]) != 1:
        raise NotOtlp(path, f"has {' and '.join(found) or 'none'} of {', '.join(message.one_of)}")
    return message.shape(
        {key: _field(message.fields[key], item, below(path, key), readers) for key, item in value.items()}
    )


def _field(kind: str, value: Any, path: str, readers: Mapping[str, Reader]) -> Any:
    if kind.endswith("[]"):
        return _list(kind.removesuffix("[]"), value, path, readers)
    if kind in MESSAGES:
        return _message(kind, value, path, readers)
    try:
        return readers[kind](value)
    except (ValueError, OverflowError) as error:
        raise NotOtlp(path, str(error)) from error


def _list(kind: str, value: Any, path: str, readers: Mapping[str, Reader]) -> Any:
    if not isinstance(value, list):
        raise NotOtlp(path, f"{reprlib.repr(value)} is no list")
    found = [_field(kind, item, f"{path}[{index}]", readers) for index, item in enumerate(value)]
    return _by_key(found, path) if kind == "KeyValue" else found


def _by_key(pairs: Iterable[tuple[str, Any]], path: str) -> Tree:
    """Attributes by key."""
    found: Tree = {}
    for index, (key, value) in enumerate(pairs):
        if key in found:
            raise NotOtlp(f"{path}[{index}].key", f"{key} stands here twice")
        found[key] = value
    return found
