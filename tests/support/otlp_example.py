"""A request in OTLP/JSON that keeps all rules, and what changes it by a path such as `metrics[0].name`."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Sequence
from typing import Any

START_NS = 1_760_000_000_000_000_000
TIME_NS = 1_760_000_015_000_000_001  # no float holds it

Document = dict[str, Any]
Change = Callable[[Document], object]


def text_attribute(key: str, value: str) -> Document:
    """An attribute whose value is a string."""
    return {"key": key, "value": {"stringValue": value}}


TIMES = {"startTimeUnixNano": str(START_NS), "timeUnixNano": str(TIME_NS)}

_VALID: Document = {
    "resourceMetrics": [
        {
            "resource": {
                "attributes": [
                    text_attribute("service.instance.id", "node-1"),
                    {"key": "a.bool", "value": {"boolValue": True}},
                    {"key": "an.int", "value": {"intValue": "-9223372036854775808"}},
                    {"key": "a.double", "value": {"doubleValue": 0.5}},
                    {"key": "a.list", "value": {"arrayValue": {"values": [{"stringValue": "x"}, {"intValue": "1"}]}}},
                    {"key": "a.map", "value": {"kvlistValue": {"values": [text_attribute("inner", "y")]}}},
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
                        "attributes": [text_attribute("of", "scope")],
                        "droppedAttributesCount": 1,
                    },
                    "metrics": [
                        {
                            "name": "a.gauge",
                            "description": "Has \u00fcmlauts.",
                            "unit": "By",
                            "metadata": [text_attribute("prometheus.type", "gauge")],
                            "gauge": {
                                "dataPoints": [
                                    {"timeUnixNano": str(TIME_NS), "asDouble": 1.5, "flags": 0},
                                    {
                                        "timeUnixNano": str(TIME_NS),
                                        "asDouble": "NaN",
                                        "attributes": [text_attribute("which", "second")],
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
                                    {
                                        **TIMES,
                                        "attributes": [text_attribute("which", "")],
                                        "asInt": "9223372036854775807",
                                    }
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
                                        **TIMES,
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
                                                "filteredAttributes": [text_attribute("chain", "storage")],
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
                                        **TIMES,
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
            "resource": {"attributes": [text_attribute("service.instance.id", "node-2")]},
            "scopeMetrics": [
                {
                    "scope": {"name": "the.scope"},
                    "metrics": [
                        {
                            "name": "a.sum",
                            "sum": {
                                "aggregationTemporality": 2,
                                "dataPoints": [{**TIMES, "asDouble": -2.5}],
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
