"""Requests of logs and of traces in OTLP/JSON that keep all rules, with every field that a sender may write."""

from __future__ import annotations

import copy

from tests.support.otlp_example import START_NS, TIME_NS, Document, text_attribute

TRACE_ID, SPAN_ID = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"

_RESOURCE: Document = {"attributes": [text_attribute("service.instance.id", "node-1")]}
_OTHER: Document = {"attributes": [text_attribute("service.instance.id", "node-2")]}
_SCOPE: Document = {"name": "the.scope", "version": "1.2"}

_LOGS: Document = {
    "resourceLogs": [
        {
            "resource": _RESOURCE,
            "scopeLogs": [
                {
                    "scope": _SCOPE,
                    "logRecords": [
                        {
                            "timeUnixNano": str(START_NS),
                            "observedTimeUnixNano": str(TIME_NS),
                            "severityNumber": 17,
                            "severityText": "ERROR",
                            "body": {"stringValue": "Has \u00fcmlauts."},
                            "attributes": [
                                text_attribute("which", "first"),
                                {"key": "a.list", "value": {"arrayValue": {"values": [{"stringValue": "x"}]}}},
                            ],
                            "droppedAttributesCount": 1,
                            "flags": 1,
                            "traceId": TRACE_ID,
                            "spanId": SPAN_ID,
                            "eventName": "an.event",
                        }
                    ],
                    "schemaUrl": "https://opentelemetry.io/schemas/1.40.0",
                }
            ],
            "schemaUrl": "https://opentelemetry.io/schemas/1.40.0",
        },
        {
            "resource": _OTHER,
            "scopeLogs": [
                {
                    "scope": {"name": "the.scope"},
                    "logRecords": [
                        {
                            "timeUnixNano": str(TIME_NS),
                            "observedTimeUnixNano": str(TIME_NS),
                            "severityNumber": 9,
                            "severityText": "INFO",
                            "body": {"stringValue": ""},
                            "traceId": TRACE_ID,
                            "spanId": SPAN_ID,
                            "eventName": "another.event",
                        }
                    ],
                }
            ],
        },
    ]
}

_SPANS: Document = {
    "resourceSpans": [
        {
            "resource": _RESOURCE,
            "scopeSpans": [
                {
                    "scope": _SCOPE,
                    "spans": [
                        {
                            "traceId": TRACE_ID,
                            "spanId": SPAN_ID,
                            "traceState": "",
                            "flags": 1,
                            "name": "a_span",
                            "kind": 1,
                            "startTimeUnixNano": str(START_NS),
                            "endTimeUnixNano": str(TIME_NS),
                            "attributes": [{"key": "an.int", "value": {"intValue": "7"}}],
                            "droppedAttributesCount": 1,
                            "events": [
                                {
                                    "timeUnixNano": str(START_NS + 1),
                                    "name": "an.event",
                                    "attributes": [text_attribute("how", "bad")],
                                    "droppedAttributesCount": 1,
                                }
                            ],
                            "droppedEventsCount": 1,
                            "droppedLinksCount": 1,
                            "status": {"code": 2, "message": "What was wrong."},
                        }
                    ],
                }
            ],
        },
        {
            "resource": _OTHER,
            "scopeSpans": [
                {
                    "scope": {"name": "the.scope"},
                    "spans": [
                        {
                            "traceId": TRACE_ID,
                            "spanId": "00f067aa0ba902b7",
                            "name": "another",
                            "kind": 5,
                            "startTimeUnixNano": str(TIME_NS),
                            "endTimeUnixNano": str(TIME_NS),
                            "status": {},
                        }
                    ],
                }
            ],
        },
    ]
}

LOG = "resourceLogs[0].scopeLogs[0].logRecords[0]"
SPAN = "resourceSpans[0].scopeSpans[0].spans[0]"


def valid_logs() -> Document:
    """A document of its own for each test."""
    return copy.deepcopy(_LOGS)


def valid_spans() -> Document:
    """A document of its own for each test."""
    return copy.deepcopy(_SPANS)
