"""The tests' own reading of OTLP: a document that keeps all rules is read in full, and one that breaks any of them is refused.

A test that leans on a lenient reader proves nothing, so every rule is broken here once.
"""

from __future__ import annotations

import base64
import copy
import json
import math
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import pytest
from google.protobuf import json_format
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from tests.support import otlp
from tests.support.otlp import Exemplar, HistogramValue, NotOtlp, Received
from tests.support.otlp_schema import MESSAGES, below

START_NS = 1_760_000_000_000_000_000
TIME_NS = 1_760_000_015_000_000_001  # no float holds it

Document = dict[str, Any]
Change = Callable[[Document], object]


def _text(key: str, value: str) -> Document:
    return {"key": key, "value": {"stringValue": value}}


_TIMES = {"startTimeUnixNano": str(START_NS), "timeUnixNano": str(TIME_NS)}

_VALID: Document = {
    "resourceMetrics": [
        {
            "resource": {
                "attributes": [
                    _text("service.instance.id", "node-1"),
                    {"key": "a.bool", "value": {"boolValue": True}},
                    {"key": "an.int", "value": {"intValue": "-9223372036854775808"}},
                    {"key": "a.double", "value": {"doubleValue": 0.5}},
                    {"key": "a.list", "value": {"arrayValue": {"values": [{"stringValue": "x"}, {"intValue": "1"}]}}},
                    {"key": "a.map", "value": {"kvlistValue": {"values": [_text("inner", "y")]}}},
                    {"key": "some.bytes", "value": {"bytesValue": "AP8="}},
                ],
                "droppedAttributesCount": 4294967295,
                "entityRefs": [
                    {
                        "schemaUrl": "https://opentelemetry.io/schemas/1.40.0",
                        "type": "service",
                        "idKeys": ["service.instance.id"],
                        "descriptionKeys": ["a.bool"],
                    }
                ],
            },
            "scopeMetrics": [
                {
                    "scope": {
                        "name": "the.scope",
                        "version": "1.2",
                        "attributes": [_text("of", "scope")],
                        "droppedAttributesCount": 1,
                    },
                    "metrics": [
                        {
                            "name": "a.gauge",
                            "description": "Has \u00fcmlauts.",
                            "unit": "By",
                            "metadata": [_text("prometheus.type", "gauge")],
                            "gauge": {
                                "dataPoints": [
                                    {"timeUnixNano": str(TIME_NS), "asDouble": 1.5, "flags": 0},
                                    {
                                        "timeUnixNano": str(TIME_NS),
                                        "asDouble": "NaN",
                                        "attributes": [_text("which", "second")],
                                    },
                                ]
                            },
                        },
                        {
                            "name": "a.sum",
                            "unit": "{call}",
                            "sum": {
                                "aggregationTemporality": 2,
                                "isMonotonic": True,
                                "dataPoints": [
                                    {**_TIMES, "attributes": [_text("which", "")], "asInt": "9223372036854775807"}
                                ],
                            },
                        },
                        {
                            "name": "a.histogram",
                            "unit": "s",
                            "histogram": {
                                "aggregationTemporality": 1,
                                "dataPoints": [
                                    {
                                        **_TIMES,
                                        "count": "6",
                                        "sum": 7.25,
                                        "bucketCounts": ["1", "2", "0", "3"],
                                        "explicitBounds": [0.5, 1, 2],
                                        "min": 0.25,
                                        "max": 4,
                                        "exemplars": [
                                            {
                                                "timeUnixNano": str(TIME_NS - 1),
                                                "asDouble": 0.75,
                                                "traceId": "0af7651916cd43dd8448eb211c80319c",
                                                "spanId": "b7ad6b7169203331",
                                                "filteredAttributes": [_text("chain", "storage")],
                                            }
                                        ],
                                    }
                                ],
                            },
                        },
                        {
                            "name": "an.exponential",
                            "unit": "s",
                            "exponentialHistogram": {
                                "aggregationTemporality": 2,
                                "dataPoints": [
                                    {
                                        **_TIMES,
                                        "count": "11",
                                        "sum": 9.75,
                                        "scale": 3,
                                        "zeroCount": "1",
                                        "zeroThreshold": 0,
                                        "positive": {"offset": -1, "bucketCounts": ["2", "3", "0", "5"]},
                                        "negative": {},
                                    }
                                ],
                            },
                        },
                    ],
                    "schemaUrl": "https://opentelemetry.io/schemas/1.40.0",
                }
            ],
            "schemaUrl": "https://opentelemetry.io/schemas/1.40.0",
        },
        {
            "resource": {"attributes": [_text("service.instance.id", "node-2")]},
            "scopeMetrics": [
                {
                    "scope": {"name": "the.scope"},
                    "metrics": [
                        {
                            "name": "a.sum",
                            "sum": {
                                "aggregationTemporality": 2,
                                "dataPoints": [{**_TIMES, "asDouble": -2.5}],
                            },
                        }
                    ],
                }
            ],
        },
    ]
}
"""Every kind of point, every type of attribute, and all fields that a sender may write."""

RESOURCE = "resourceMetrics[0].resource"
SCOPE = "resourceMetrics[0].scopeMetrics[0]"
METRIC = f"{SCOPE}.metrics[0]"
GAUGE = f"{METRIC}.gauge.dataPoints[0]"
SUM = f"{SCOPE}.metrics[1].sum"
ADDED = f"{SUM}.dataPoints[0]"
EXPLICIT = f"{SCOPE}.metrics[2].histogram.dataPoints[0]"
EXEMPLAR = f"{EXPLICIT}.exemplars[0]"
EXPONENTIAL = f"{SCOPE}.metrics[3].exponentialHistogram.dataPoints[0]"


def valid() -> Document:
    """A document of its own for each test."""
    return copy.deepcopy(_VALID)


def body(document: Document) -> bytes:
    """As it goes over the wire."""
    return json.dumps(document, ensure_ascii=False).encode()


def at(document: Any, path: str) -> Any:
    """What stands at a path, `metrics[0].name`."""
    return _follow(document, _steps(path))


def _steps(path: str) -> list[str | int]:
    """`metrics[0].name` -> metrics, 0, name."""
    return [key or int(index) for key, index in re.findall(r"([A-Za-z]\w*)|\[(\d+)\]", path)]


def _follow(document: Any, steps: Sequence[str | int]) -> Any:
    for step in steps:
        document = document[step]
    return document


def put(path: str, value: Any) -> Change:
    """Set a field, or an item of a list."""
    *parents, last = _steps(path)
    return lambda document: _follow(document, parents).__setitem__(last, copy.deepcopy(value))


def drop(path: str) -> Change:
    """Take a field away."""
    *parents, last = _steps(path)
    return lambda document: _follow(document, parents).pop(last)


def append(path: str, value: Any) -> Change:
    """Add an item to a list."""
    return lambda document: at(document, path).append(copy.deepcopy(value))


def again(path: str, index: int = 0) -> Change:
    """Repeat an item of a list at its end."""
    return lambda document: at(document, path).append(copy.deepcopy(at(document, path)[index]))


class Mutant(NamedTuple):
    """One rule, broken. at: the path that the refusal names."""

    rule: str
    at: str
    change: Change


def becomes(rule: str, path: str, value: Any) -> Mutant:
    """A field that has another value than it may."""
    return Mutant(rule, path, put(path, value))


def gone(rule: str, path: str) -> Mutant:
    """A field that must be there."""
    return Mutant(rule, path, drop(path))


MUTANTS = (
    # the form of objects
    Mutant("a request is an object with resources", "resourceMetrics", lambda document: document.clear()),
    becomes("a request is not empty", "resourceMetrics", []),
    gone("a resource has its metrics", "resourceMetrics[1].scopeMetrics"),
    gone("metrics have their resource", "resourceMetrics[1].resource"),
    becomes("a resource has attributes", f"{RESOURCE}.attributes", []),
    gone("a scope is there", f"{SCOPE}.scope"),
    becomes("a scope has a name", f"{SCOPE}.scope.name", ""),
    becomes("a scope has metrics", f"{SCOPE}.metrics", []),
    becomes("a metric has points", f"{METRIC}.gauge.dataPoints", []),
    gone("a metric has a name", f"{METRIC}.name"),
    gone("an entity has keys", f"{RESOURCE}.entityRefs[0].idKeys"),
    becomes("a list is no object", f"{SCOPE}.metrics", {}),
    becomes("an object is no list", f"{METRIC}.gauge", []),
    becomes("an item is not null", f"{METRIC}.gauge.dataPoints[1]", None),
    becomes("a field of profiles", f"{RESOURCE}.attributes[0].keyStrindex", 1),
    becomes("a summary is legacy", f"{METRIC}.summary", {"dataPoints": []}),
    # exactly one of
    Mutant("a metric has data", METRIC, drop(f"{METRIC}.gauge")),
    Mutant("a metric has one kind of data", METRIC, put(f"{METRIC}.sum", {})),
    Mutant("a point has a value", GAUGE, drop(f"{GAUGE}.asDouble")),
    Mutant("a point has one value", GAUGE, put(f"{GAUGE}.asInt", "1")),
    Mutant("an exemplar has a value", EXEMPLAR, drop(f"{EXEMPLAR}.asDouble")),
    becomes("an attribute's value is not empty", f"{RESOURCE}.attributes[0].value", {}),
    Mutant(
        "an attribute has one value",
        f"{RESOURCE}.attributes[0].value",
        put(f"{RESOURCE}.attributes[0].value.intValue", "1"),
    ),
    # scalars
    becomes("a name is text", f"{METRIC}.name", 3),
    becomes("a boolean is no number", f"{SUM}.isMonotonic", 1),
    becomes("a boolean is no text", f"{SUM}.isMonotonic", "true"),
    becomes("64 bits are text", f"{ADDED}.asInt", 12),
    becomes("64 bits have no plus sign", f"{ADDED}.asInt", "+12"),
    becomes("64 bits have no leading zero", f"{ADDED}.asInt", "012"),
    becomes("64 bits have no minus zero", f"{ADDED}.asInt", "-0"),
    becomes("64 bits have no space", f"{ADDED}.asInt", " 12"),
    becomes("64 bits have no line end", f"{ADDED}.asInt", "12\n"),
    becomes("64 bits have no underscore", f"{ADDED}.asInt", "1_2"),
    becomes("64 bits have no exponent", f"{ADDED}.asInt", "1e3"),
    becomes("64 bits have ASCII digits", f"{ADDED}.asInt", "\u0661"),
    becomes("64 bits are not exceeded", f"{ADDED}.asInt", "9223372036854775808"),
    becomes("64 bits are not exceeded below", f"{ADDED}.asInt", "-9223372036854775809"),
    becomes("unsigned 64 bits are not exceeded", f"{GAUGE}.timeUnixNano", str(1 << 64)),
    becomes("a count is not below 0", f"{EXPLICIT}.count", "-6"),
    becomes("each count is text", f"{EXPLICIT}.bucketCounts[1]", 2),
    becomes("each count is whole", f"{EXPLICIT}.bucketCounts[1]", "2.0"),
    becomes("32 bits are no text", f"{EXPONENTIAL}.scale", "3"),
    becomes("32 bits are whole", f"{EXPONENTIAL}.scale", 3.0),
    becomes("32 bits are no boolean", f"{EXPONENTIAL}.scale", True),
    becomes("32 bits are not exceeded", f"{EXPONENTIAL}.positive.offset", 1 << 31),
    becomes("unsigned 32 bits are not below 0", f"{GAUGE}.flags", -1),
    becomes("a temporality is no name", f"{SUM}.aggregationTemporality", "DELTA"),
    becomes("a temporality is no text", f"{SUM}.aggregationTemporality", "2"),
    becomes("a temporality is defined", f"{SUM}.aggregationTemporality", 3),
    becomes("a temporality is specified", f"{SUM}.aggregationTemporality", 0),
    gone("a temporality is there", f"{SUM}.aggregationTemporality"),
    becomes("a double is no text", f"{GAUGE}.asDouble", "1.5"),
    becomes("a double is no boolean", f"{GAUGE}.asDouble", True),
    becomes("NaN is text", f"{GAUGE}.asDouble", math.nan),
    becomes("infinity is text", f"{GAUGE}.asDouble", -math.inf),
    becomes("infinity is spelt out", f"{GAUGE}.asDouble", "+Inf"),
    becomes("NaN has its capitals", f"{GAUGE}.asDouble", "nan"),
    becomes("a double fits", f"{GAUGE}.asDouble", 10**400),
    becomes("a trace id is lowercase", f"{EXEMPLAR}.traceId", "0AF7651916CD43DD8448EB211C80319C"),
    becomes("a trace id has 32 digits", f"{EXEMPLAR}.traceId", "b7ad6b7169203331"),
    becomes("a trace id is no base64", f"{EXEMPLAR}.traceId", "CvdlGRbNQ92ESOshHIAxnA=="),
    becomes("a trace id is not all 0", f"{EXEMPLAR}.traceId", "0" * 32),
    becomes("a span id has 16 digits", f"{EXEMPLAR}.spanId", "b7ad6b716920333"),
    becomes("a span id is not empty", f"{EXEMPLAR}.spanId", ""),
    becomes("bytes are padded base64", f"{RESOURCE}.attributes[6].value.bytesValue", "AP8"),
    becomes("bytes are base64 throughout", f"{RESOURCE}.attributes[6].value.bytesValue", "AP8=\n"),
    # attributes
    becomes("an attribute has a key", f"{RESOURCE}.attributes[1].key", ""),
    gone("an attribute has a value", f"{RESOURCE}.attributes[1].value"),
    Mutant("a key of a resource stands once", f"{RESOURCE}.attributes[7].key", again(f"{RESOURCE}.attributes", 1)),
    Mutant(
        "a key of a point stands once", f"{ADDED}.attributes[1].key", append(f"{ADDED}.attributes", _text("which", "x"))
    ),
    Mutant("a key of a scope stands once", f"{SCOPE}.scope.attributes[1].key", again(f"{SCOPE}.scope.attributes")),
    Mutant(
        "a key of an exemplar stands once",
        f"{EXEMPLAR}.filteredAttributes[1].key",
        again(f"{EXEMPLAR}.filteredAttributes"),
    ),
    Mutant("a key of metadata stands once", f"{METRIC}.metadata[1].key", again(f"{METRIC}.metadata")),
    Mutant(
        "a key of a map stands once",
        f"{RESOURCE}.attributes[5].value.kvlistValue.values[1].key",
        again(f"{RESOURCE}.attributes[5].value.kvlistValue.values"),
    ),
    becomes("a point's keys are names", f"{ADDED}.attributes[0].key", "Which"),
    # resources, scopes, metrics and points are told apart
    Mutant(
        "a resource says which instance it is",
        f"{RESOURCE}.attributes",
        put(f"{RESOURCE}.attributes[0].key", "service.name"),
    ),
    Mutant(
        "an instance is text",
        f"{RESOURCE}.attributes",
        put(f"{RESOURCE}.attributes[0].value", {"intValue": "1"}),
    ),
    Mutant(
        "an instance is not empty",
        f"{RESOURCE}.attributes",
        put(f"{RESOURCE}.attributes[0].value.stringValue", ""),
    ),
    Mutant("a resource stands once", "resourceMetrics[2].resource.attributes", again("resourceMetrics")),
    Mutant(
        "an instance stands once",
        "resourceMetrics[1].resource.attributes",
        put("resourceMetrics[1].resource.attributes[0].value.stringValue", "node-1"),
    ),
    Mutant(
        "a scope stands once",
        "resourceMetrics[0].scopeMetrics[1].scope",
        again("resourceMetrics[0].scopeMetrics"),
    ),
    Mutant("a metric stands once", f"{SCOPE}.metrics[4].name", again(f"{SCOPE}.metrics")),
    Mutant("a point stands once", f"{METRIC}.gauge.dataPoints[2].attributes", again(f"{METRIC}.gauge.dataPoints")),
    becomes("a name has no capital", f"{METRIC}.name", "a.Gauge"),
    becomes("a name begins with a letter", f"{METRIC}.name", "9.gauge"),
    becomes("a name has no space at its end", f"{METRIC}.name", "a.gauge\n"),
    # times
    gone("a point has a time", f"{GAUGE}.timeUnixNano"),
    becomes("a time is not 0", f"{ADDED}.timeUnixNano", "0"),
    gone("a sum has a start", f"{ADDED}.startTimeUnixNano"),
    becomes("a sum's start is not 0", f"{ADDED}.startTimeUnixNano", "0"),
    gone("a histogram has a start", f"{EXPLICIT}.startTimeUnixNano"),
    gone("an exponential one too", f"{EXPONENTIAL}.startTimeUnixNano"),
    gone("an exemplar has a time", f"{EXEMPLAR}.timeUnixNano"),
    becomes("a sum's time is not before its start", f"{ADDED}.timeUnixNano", str(START_NS - 1)),
    Mutant("nor a gauge's", f"{GAUGE}.timeUnixNano", put(f"{GAUGE}.startTimeUnixNano", str(TIME_NS + 1))),
    # values
    becomes("a point has a recorded value", f"{GAUGE}.flags", 1),
    becomes("a sum that only grows is not below 0", f"{ADDED}.asInt", "-1"),
    becomes("a sum is a number", "resourceMetrics[1].scopeMetrics[0].metrics[0].sum.dataPoints[0].asDouble", "NaN"),
    becomes("a histogram's sum is a number", f"{EXPONENTIAL}.sum", "NaN"),
    becomes("a histogram's sum is not below 0", f"{EXPLICIT}.sum", -0.5),
    Mutant("nothing has no sum", f"{EXPLICIT}.sum", drop(f"{EXPLICIT}.count")),
    becomes("min is not above max", f"{EXPLICIT}.min", 5),
    becomes("counts add up", f"{EXPLICIT}.count", "7"),
    becomes("bounds are one fewer than counts", f"{EXPLICIT}.bucketCounts", ["6", "0", "0"]),
    becomes("bounds without counts say nothing", f"{EXPLICIT}.bucketCounts", []),
    becomes("bounds do not fall", f"{EXPLICIT}.explicitBounds", [0.5, 2, 1]),
    becomes("bounds ascend", f"{EXPLICIT}.explicitBounds", [0.5, 1, 1]),
    becomes("bounds are finite", f"{EXPLICIT}.explicitBounds", [0.5, 1, "Infinity"]),
    becomes("exponential counts add up", f"{EXPONENTIAL}.count", "10"),
    Mutant("zeros are counted", f"{EXPONENTIAL}.count", drop(f"{EXPONENTIAL}.zeroCount")),
    becomes("a scale is at most 20", f"{EXPONENTIAL}.scale", 21),
    becomes("a scale is at least -10", f"{EXPONENTIAL}.scale", -11),
    becomes("zero has a width", f"{EXPONENTIAL}.zeroThreshold", -1),
    Mutant("nothing is below 0", f"{EXPONENTIAL}.negative", put(f"{EXPONENTIAL}.negative.bucketCounts", ["1"])),
)

BODIES: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "a key stands once": (
        f"{METRIC}.name",
        lambda body: body.replace(b'"name": "a.gauge"', b'"name": "a.gauge", "name": "a.gauge"', 1),
    ),
    "a key of the request stands once": (
        "resourceMetrics",
        lambda body: b'{"resourceMetrics": [], ' + body[1:],
    ),
    "NaN is no JSON": (f"{GAUGE}.asDouble", lambda body: body.replace(b"1.5", b"NaN", 1)),
    "a number fits": (f"{GAUGE}.asDouble", lambda body: body.replace(b"1.5", b"1e999", 1)),
    "text is UTF-8": ("body", lambda body: body.replace("ü".encode(), "ü".encode("latin-1"))),
    "text is not UTF-16": ("body", lambda body: body.decode().encode("utf-16")),
    "a surrogate has its other half": (
        f"{METRIC}.description",
        lambda body: body.replace("ü".encode(), rb"\ud800"),
    ),
    "a surrogate is not encoded": ("body", lambda body: body.replace("ü".encode(), b"\xed\xa0\x80")),
    "there is no byte order mark": ("body", lambda body: b"\xef\xbb\xbf" + body),
    "the end is there": ("body", lambda body: body[:-1]),
    "there is one document": ("body", lambda body: body + body),
    "there is a document": ("body", lambda body: b""),
    "a request is no list": ("body", lambda body: b"[" + body + b"]"),
    "a request is not null": ("body", lambda body: b"null"),
}
"""Rule -> the path that the refusal names, and what breaks the rule in the bytes."""

POINTS = 6  # of the valid document: 2 gauges, 1 sum, 1 histogram of each kind; 1 sum of the other resource
LEAST_MUTANTS = 45


def refusal(sent: bytes, read: Callable[[bytes], object] = otlp.read_json) -> str:
    """The path that the refusal names; "accepted" for none."""
    try:
        read(sent)
    except NotOtlp as refused:
        return refused.path
    return "accepted"


def objects(value: Any, path: str = "") -> Iterator[tuple[str, Document]]:
    """Every object in a document, with its path."""
    if isinstance(value, dict):
        yield path, value
        for key, item in value.items():
            yield from objects(item, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from objects(item, f"{path}[{index}]")


def keys() -> list[tuple[str, str]]:
    """(path of an object, key in it) of the valid document."""
    return [(path, key) for path, found in objects(valid()) for key in found]


def swept(path: str, key: str, change: Callable[[Document, str], object]) -> str:
    """The path that is refused in the valid document when one key of one object is changed."""
    document = valid()
    change(at(document, path), key)
    return refusal(body(document))


def snake(key: str) -> str:
    """asInt -> as_int."""
    return re.sub(r"[A-Z]", lambda letter: f"_{letter[0].lower()}", key)


class TestAccepted:
    """A document that keeps the rules."""

    def test_every_point_is_read_with_what_it_hangs_from(self) -> None:
        """In the order of the document; an integer keeps its last digit, and an attribute its type."""
        resource = {
            "service.instance.id": "node-1",
            "a.bool": True,
            "an.int": -9223372036854775808,
            "a.double": 0.5,
            "a.list": ["x", 1],
            "a.map": {"inner": "y"},
            "some.bytes": b"\x00\xff",
        }
        first, _, added, *_ = points = otlp.read_json(body(valid()))

        assert [point.name for point in points] == [
            "a.gauge",
            "a.gauge",
            "a.sum",
            "a.histogram",
            "an.exponential",
            "a.sum",
        ]
        assert first == Received(
            resource=resource,
            scope="the.scope",
            name="a.gauge",
            unit="By",
            description="Has ümlauts.",
            kind="gauge",
            temporality="",
            is_monotonic=False,
            attributes={},
            start_unix_ns=0,
            time_unix_ns=1_760_000_015_000_000_001,
            value=1.5,
            exemplars=(),
        )
        assert added == Received(
            resource=resource,
            scope="the.scope",
            name="a.sum",
            unit="{call}",
            description="",
            kind="sum",
            temporality="cumulative",
            is_monotonic=True,
            attributes={"which": ""},
            start_unix_ns=1_760_000_000_000_000_000,
            time_unix_ns=1_760_000_015_000_000_001,
            value=9223372036854775807,
            exemplars=(),
        )

    def test_attributes_keep_their_types(self) -> None:
        """True is not 1, and 0.5 no text."""
        attributes = otlp.read_json(body(valid()))[0].resource

        assert [type(value) for value in attributes.values()] == [str, bool, int, float, list, dict, bytes]

    def test_not_a_number_is_a_value_of_a_gauge(self) -> None:
        """Written as text, read as a float."""
        value = otlp.read_json(body(valid()))[1].value

        assert isinstance(value, float)
        assert math.isnan(value)

    def test_second_resource_has_its_own_points(self) -> None:
        """A sum that may fall may be below 0, and what is not written is not true."""
        last = otlp.read_json(body(valid()))[-1]

        assert last.resource == {"service.instance.id": "node-2"}
        assert (last.value, last.is_monotonic) == (-2.5, False)

    def test_explicit_buckets_are_read_by_their_upper_bounds(self) -> None:
        """The last one has none, so infinity; the exemplar's ids are as they were sent."""
        point = otlp.read_json(body(valid()))[3]

        assert (point.kind, point.temporality) == ("histogram", "delta")
        assert point.value == HistogramValue(6, 7.25, None, 0, {0.5: 1, 1.0: 2, 2.0: 0, math.inf: 3})
        assert point.exemplars == (
            Exemplar(
                1_760_000_015_000_000_000,
                0.75,
                "0af7651916cd43dd8448eb211c80319c",
                "b7ad6b7169203331",
                {"chain": "storage"},
            ),
        )

    def test_exponential_buckets_are_read_by_index(self) -> None:
        """Offset -1 is the index of the first count; index 1 has none and is left out."""
        point = otlp.read_json(body(valid()))[4]

        assert (point.kind, point.temporality) == ("exponential", "cumulative")
        assert point.value == HistogramValue(11, 9.75, 3, 1, {-1: 2, 0: 3, 2: 5})

    def test_histogram_without_buckets_tells_count_and_sum(self) -> None:
        """What the data model allows a sender that knows no distribution."""
        document = valid()
        for change in (drop(f"{EXPLICIT}.bucketCounts"), drop(f"{EXPLICIT}.explicitBounds")):
            change(document)

        assert otlp.read_json(body(document))[3].value == HistogramValue(6, 7.25, None, 0, {})

    @pytest.mark.parametrize("text", [b'"Infinity"', b'"-Infinity"', b"1e3", b"-0", b"12"])
    def test_double_is_a_number_or_a_word(self, text: bytes) -> None:
        """As the JSON mapping of proto3 writes it."""
        read = otlp.read_json(body(valid()).replace(b"1.5", text, 1))

        assert read[0].value == float(text.strip(b'"'))

    def test_other_parser_accepts_it_too(self) -> None:
        """google.protobuf's, strict about names and ranges."""
        assert sum(1 for path, _ in objects(valid()) if re.search(r"dataPoints\[\d+\]$", path)) == POINTS
        assert len(protobuf().resource_metrics) == 2


def protobuf(document: Document | None = None) -> ExportMetricsServiceRequest:
    """The same request as a message, made by google.protobuf, to which an id is bytes in base64."""
    document = document or valid()
    for key in ("traceId", "spanId"):
        put(f"{EXEMPLAR}.{key}", base64.b64encode(bytes.fromhex(at(document, f"{EXEMPLAR}.{key}"))).decode())(document)
    request = ExportMetricsServiceRequest()
    json_format.ParseDict(document, request)
    return request


class TestProtobuf:
    """The binary form of the same request."""

    def test_it_tells_the_same_as_json(self) -> None:
        """Every field of every point; of a value that is not a number, that it is none."""
        in_json, in_protobuf = otlp.read_json(body(valid())), otlp.read_protobuf(protobuf().SerializeToString())

        assert [repr(point) for point in in_protobuf] == [repr(point) for point in in_json]
        assert in_protobuf[2:] == in_json[2:]

    @pytest.mark.parametrize(
        ("extra", "path"),
        [
            (b"\x7a\x01x", "body"),
            (b"\x0a\x03\x7a\x01x", "resourceMetrics[2]"),
            (b"\x0a\x05\x0a\x03\x7a\x01x", "resourceMetrics[2].resource"),
            (b"\x0a\x00", "resourceMetrics[2].resource"),
            (b"\x0a\x7f", "body"),
        ],
        ids=[
            "field 15 of the request",
            "field 15 of metrics",
            "field 15 of a resource",
            "no resource",
            "the end is missing",
        ],
    )
    def test_bytes_that_are_no_request_are_refused(self, extra: bytes, path: str) -> None:
        """A field that the .proto files lack has no name, so its message is named."""
        assert refusal(protobuf().SerializeToString() + extra, otlp.read_protobuf) == path

    @pytest.mark.parametrize(
        ("change", "path"),
        [
            (lambda request: _metric(request, 1).sum.ClearField("aggregation_temporality"), f"{SUM}.aggregationTemporality"),
            (lambda request: setattr(_metric(request, 1).sum, "aggregation_temporality", 7), f"{SUM}.aggregationTemporality"),
            (lambda request: setattr(_metric(request, 1).sum.data_points[0], "as_int", -1), f"{ADDED}.asInt"),
            (lambda request: _metric(request, 1).sum.data_points[0].ClearField("as_int"), ADDED),
            (lambda request: setattr(_metric(request, 2).histogram.data_points[0], "count", 7), f"{EXPLICIT}.count"),
            (lambda request: setattr(_exemplar(request), "trace_id", b"\1" * 15), f"{EXEMPLAR}.traceId"),
            (lambda request: setattr(_exemplar(request), "span_id", bytes(8)), f"{EXEMPLAR}.spanId"),
            (lambda request: request.ClearField("resource_metrics"), "resourceMetrics"),
        ],
        ids=[
            "a temporality is specified",
            "a temporality is defined",
            "a sum that only grows is not below 0",
            "a point has a value",
            "counts add up",
            "a trace id has 16 bytes",
            "a span id is not all 0",
            "a request is not empty",
        ],
    )  # fmt: skip
    def test_rules_are_the_same(self, change: Callable[[ExportMetricsServiceRequest], object], path: str) -> None:
        """With the names that JSON has."""
        request = protobuf()
        change(request)

        assert refusal(request.SerializeToString(), otlp.read_protobuf) == path


def _metric(request: ExportMetricsServiceRequest, index: int) -> Any:
    return request.resource_metrics[0].scope_metrics[0].metrics[index]


def _exemplar(request: ExportMetricsServiceRequest) -> Any:
    return _metric(request, 2).histogram.data_points[0].exemplars[0]


class TestMutants:
    """A document that breaks one rule."""

    @pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.rule)
    def test_broken_rule_is_refused_where_it_is_broken(self, mutant: Mutant) -> None:
        """The path is what a person then reads."""
        document = valid()
        mutant.change(document)

        assert refusal(body(document)) == mutant.at

    @pytest.mark.parametrize(("path", "change"), BODIES.values(), ids=BODIES)
    def test_bytes_that_break_a_rule_are_refused(self, path: str, change: Callable[[bytes], bytes]) -> None:
        """What a parser would hide."""
        written = body(valid())

        assert change(written) != written
        assert refusal(change(written)) == path

    def test_rules_are_many_and_each_is_broken_once(self) -> None:
        """A name that stands twice would hide a mutant."""
        rules = [mutant.rule for mutant in MUTANTS] + list(BODIES)

        assert len(rules) == len(set(rules))
        assert len(rules) >= LEAST_MUTANTS

    def test_message_begins_with_the_path(self) -> None:
        """And then says what is wrong."""
        document = valid()
        put(f"{ADDED}.asInt", 12)(document)

        with pytest.raises(NotOtlp, match=rf"^{re.escape(ADDED)}\.asInt: 12 is no integer in a string$"):
            otlp.read_json(body(document))


class TestSweep:
    """Every key of the document, one after the other."""

    def test_null_is_refused_everywhere(self) -> None:
        """Proto3's mapping would read it as the default."""
        found = {below(path, key): swept(path, key, lambda item, k: item.update({k: None})) for path, key in keys()}

        assert found == {path: path for path in found}

    def test_snake_case_is_refused_everywhere(self) -> None:
        """The name in the .proto file is no key, although most receivers read it."""
        found = {
            below(path, snake(key)): swept(path, key, lambda item, k: item.update({snake(k): item.pop(k)}))
            for path, key in keys()
            if snake(key) != key
        }

        assert len(found) > 50
        assert found == {path: path for path in found}

    def test_unknown_key_is_refused_everywhere(self) -> None:
        """A receiver would ignore it, and what it says would be lost."""
        found = {
            below(path, "unknown"): swept(path, "unknown", lambda item, k: item.update({k: 1}))
            for path, _ in objects(valid())
        }

        assert len(found) > 40
        assert found == {path: path for path in found}

    def test_64_bits_as_a_number_are_refused_everywhere(self) -> None:
        """A receiver in JavaScript would round them."""
        long_keys = {"intValue", "asInt", "startTimeUnixNano", "timeUnixNano", "count", "zeroCount"}
        found = {
            below(path, key): swept(path, key, lambda item, k: item.update({k: int(item[k])}))
            for path, key in keys()
            if key in long_keys
        }

        assert {path.rpartition(".")[2] for path in found} == long_keys
        assert found == {path: path for path in found}


class TestRetold:
    """What a Collector's file exporter writes."""

    def test_its_ways_of_writing_are_read(self) -> None:
        """64 bits as numbers, Go's infinity, ids in capitals or empty, and empty objects."""
        document = valid()
        for change in (
            put(f"{GAUGE}.asDouble", "+Inf"),
            put(f"{ADDED}.asInt", 9223372036854775807),
            put(f"{EXPLICIT}.bucketCounts", [1, 2, 0, 3]),
            put(f"{EXEMPLAR}.traceId", "0AF7651916CD43DD8448EB211C80319C"),
            put(f"{EXEMPLAR}.spanId", ""),
            put(f"{EXPONENTIAL}.negative", {}),
        ):
            change(document)
        first, _, added, explicit, *_ = otlp.read_document(document)

        assert (first.value, added.value) == (math.inf, 9223372036854775807)
        assert explicit.value == HistogramValue(6, 7.25, None, 0, {0.5: 1, 1.0: 2, 2.0: 0, math.inf: 3})
        assert [(found.trace_id, found.span_id) for found in explicit.exemplars] == [
            ("0af7651916cd43dd8448eb211c80319c", "")
        ]

    def test_document_that_a_sender_may_write_tells_the_same(self) -> None:
        """The lenient reading changes nothing."""
        assert otlp.read_document(valid())[2:] == otlp.read_json(body(valid()))[2:]

    @pytest.mark.parametrize(
        ("path", "value"),
        [
            (f"{EXPLICIT}.count", 7),
            (f"{ADDED}.asInt", -1),
            (f"{ADDED}.asInt", 1.0),
            (f"{SUM}.aggregationTemporality", 0),
            (f"{EXEMPLAR}.traceId", None),
        ],
    )
    def test_rules_are_the_same(self, path: str, value: Any) -> None:
        """Only the way of writing is free."""
        document = valid()
        put(path, value)(document)

        assert refusal(body(document), lambda sent: otlp.read_document(json.loads(sent))) == path


class TestCumulative:
    """Counts at a classic bucket's edge, from a histogram."""

    @pytest.mark.parametrize(
        ("le_seconds", "count"),
        [(0.25, 1), (0.5, 1 + 2), (1.0, 1 + 2 + 3 + 5), (2.0, 1 + 2 + 3 + 5 + 7), (math.inf, 19)],
    )
    def test_exponential_edge_is_inclusive(self, le_seconds: float, count: int) -> None:
        """At scale 3, index 7 ends at 2**(8/8) and index -1 at 2**0; index -9 ends at 2**-1, and index -8 begins there."""
        value = HistogramValue(19, 1.0, 3, 1, {-9: 2, -8: 3, -1: 5, 7: 7, 8: 1})

        assert value.cumulative(le_seconds) == count

    def test_explicit_bound_is_inclusive(self) -> None:
        """1 at most 0.5, and 2 more at most 1."""
        assert HistogramValue(6, 7.25, None, 0, {0.5: 1, 1.0: 2, math.inf: 3}).cumulative(1.0) == 3

    @pytest.mark.parametrize(("scale", "le_seconds"), [(3, 0.75), (-1, 2.0), (None, 0.75)])
    def test_what_is_no_edge_is_refused(self, scale: int | None, le_seconds: float) -> None:
        """There would be no exact answer."""
        with pytest.raises(AssertionError, match="is no"):
            HistogramValue(1, 1.0, scale, 0, {1.0: 1}).cumulative(le_seconds)


class TestTable:
    """The table of messages, and the classes that protoc made from the .proto files."""

    def test_table_has_every_field_with_its_type(self) -> None:
        """Less the two that are for profiles, and the summary, which is for old formats."""
        generated = {descriptor.name: _fields(descriptor) for descriptor in _descriptors()}
        left_out = {"KeyValue": {"keyStrindex"}, "AnyValue": {"stringValueStrindex"}, "Metric": {"summary"}}
        for message, names in left_out.items():
            assert names < generated[message].keys()
            generated[message] = {name: kind for name, kind in generated[message].items() if name not in names}

        assert {name: dict(message.fields) for name, message in MESSAGES.items()} == {
            name: fields for name, fields in generated.items() if not name.startswith(("Summary", "ValueAtQuantile"))
        }


_TYPES = {
    FieldDescriptor.TYPE_STRING: "string",
    FieldDescriptor.TYPE_BOOL: "bool",
    FieldDescriptor.TYPE_BYTES: "bytes",
    FieldDescriptor.TYPE_DOUBLE: "double",
    FieldDescriptor.TYPE_INT32: "int32",
    FieldDescriptor.TYPE_SINT32: "sint32",
    FieldDescriptor.TYPE_UINT32: "uint32",
    FieldDescriptor.TYPE_INT64: "int64",
    FieldDescriptor.TYPE_UINT64: "uint64",
    FieldDescriptor.TYPE_FIXED64: "fixed64",
    FieldDescriptor.TYPE_SFIXED64: "sfixed64",
}


def _descriptors() -> list[Descriptor]:
    """Every message that a request can hold."""
    found: dict[str, Descriptor] = {}
    pending: list[Descriptor] = [ExportMetricsServiceRequest.DESCRIPTOR]
    while pending:
        descriptor = pending.pop()
        if descriptor.name not in found:
            found[descriptor.name] = descriptor
            pending += [field.message_type for field in descriptor.fields if field.message_type]
    return list(found.values())


def _fields(descriptor: Descriptor) -> dict[str, str]:
    return {field.json_name: _type(field) + "[]" * field.is_repeated for field in descriptor.fields}


def _type(field: FieldDescriptor) -> str:
    of_ids = {"trace_id": "trace id", "span_id": "span id"}
    named = field.message_type or field.enum_type
    return of_ids.get(field.name) or (str(named.name) if named else _TYPES[field.type])
