"""Requests in OTLP/JSON that each break one rule: what a strict reader must refuse, and the path that it must name."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from tests.support.otlp_example import (
    ADDED,
    EXEMPLAR,
    EXPLICIT,
    EXPONENTIAL,
    GAUGE,
    METRIC,
    RESOURCE,
    SCOPE,
    START_NS,
    SUM,
    TIME_NS,
    Change,
    again,
    append,
    drop,
    put,
    text_attribute,
)


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
        "a key of a point stands once",
        f"{ADDED}.attributes[1].key",
        append(f"{ADDED}.attributes", text_attribute("which", "x")),
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
    # so that resources, scopes, metrics and points differ
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
