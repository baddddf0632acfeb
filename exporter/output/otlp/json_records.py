"""Log records and spans -> the body of an OTLP/JSON request."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from exporter.output.otlp.json_body import CONTENT_TYPE, rejected
from exporter.output.otlp.points import SCOPE, Origin, encodable
from exporter.output.otlp.records import Attributes, LogRecord, SpanEvent, SpanRecord, Value, by_identity

__all__ = ["CONTENT_TYPE", "encode_logs", "encode_spans", "rejected"]

_SCOPE = {"name": SCOPE[0], "version": SCOPE[1]}
_INTERNAL, _ERROR = 1, 2
"""Values of the protocol's enums SpanKind and StatusCode."""


def encode_logs(records: Iterable[LogRecord], origin: Origin) -> bytes:
    """An ExportLogsServiceRequest."""
    resources = [
        {
            "resource": {"attributes": _key_values(origin.resource(identity))},
            "scopeLogs": [{"scope": _SCOPE, "logRecords": list(map(_log_record, of))}],
        }
        for identity, of in by_identity(records)
    ]
    return _serialized({"resourceLogs": resources})


def encode_spans(spans: Iterable[SpanRecord], origin: Origin) -> bytes:
    """An ExportTraceServiceRequest."""
    resources = [
        {
            "resource": {"attributes": _key_values(origin.resource(identity))},
            "scopeSpans": [{"scope": _SCOPE, "spans": list(map(_span, of))}],
        }
        for identity, of in by_identity(spans)
    ]
    return _serialized({"resourceSpans": resources})


def _log_record(record: LogRecord) -> dict[str, Any]:
    return {
        "timeUnixNano": str(record.time_unix_ns),
        "observedTimeUnixNano": str(record.observed_unix_ns),
        "severityNumber": record.severity_number,
        "severityText": record.severity_text,
        "body": _value(record.body),
        "eventName": record.event_name,
        "attributes": _key_values(record.attributes),
        **({"traceId": record.trace_id, "spanId": record.span_id} if record.trace_id else {}),
    }


def _span(span: SpanRecord) -> dict[str, Any]:
    return {
        "traceId": span.trace_id,
        "spanId": span.span_id,
        "name": span.name,
        "kind": _INTERNAL,
        "startTimeUnixNano": str(span.start_unix_ns),
        "endTimeUnixNano": str(span.end_unix_ns),
        "attributes": _key_values(span.attributes),
        "events": list(map(_event, span.events)),
        "status": {"code": _ERROR, "message": encodable(span.error)} if span.error else {},
    }


def _event(event: SpanEvent) -> dict[str, Any]:
    return {
        "timeUnixNano": str(event.time_unix_ns),
        "name": event.name,
        "attributes": _key_values(event.attributes),
    }


def _key_values(attributes: Attributes | Mapping[str, str]) -> list[dict[str, Any]]:
    return [{"key": key, "value": _value(value)} for key, value in attributes.items()]


def _value(value: Value) -> dict[str, Any]:
    if isinstance(value, str):
        return {"stringValue": encodable(value)}
    if isinstance(value, float):
        return {"doubleValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, tuple):
        return {"arrayValue": {"values": [_value(one) for one in value]}}
    return {"kvlistValue": {"values": _key_values(value)}}


def _serialized(document: dict[str, Any]) -> bytes:
    return json.dumps(document, separators=(",", ":"), allow_nan=False).encode("ascii")
