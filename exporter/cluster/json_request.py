"""OTLP in JSON: requests -> plain records, and answers -> bytes.

Raises Untrusted for what is not a request of the service. 64-bit numbers are strings in JSON, and ids are hexadecimal digits.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from exporter.cluster.plain_records import (
    RECORDS_MAX,
    PlainRecord,
    PlainSpan,
    PlainSpanEvent,
    TooManyRecords,
    ValueBudget,
)
from exporter.text import untrusted
from exporter.text.untrusted import Untrusted

CONTENT_TYPE: Final = "application/json"
_INT_CHARACTERS: Final = 20
_JSON_LEVELS_MAX: Final = 64
"""An attribute value within another one takes four or five levels of JSON."""


def log_records(raw: bytes) -> Iterator[PlainRecord]:
    """The records of an ExportLogsServiceRequest."""
    for resource, record in _records(raw, "resourceLogs", "scopeLogs", "logRecords"):
        yield PlainRecord(
            resource,
            _text(record, "eventName"),
            _whole(record.get("timeUnixNano", 0)),
            _whole(record.get("observedTimeUnixNano", 0)),
            _text(record, "traceId").lower(),
            _text(untrusted.mapping(record.get("body", {})), "stringValue"),
            _attributes(record.get("attributes", [])),
        )


def spans(raw: bytes) -> Iterator[PlainSpan]:
    """The spans of an ExportTraceServiceRequest."""
    for resource, span in _records(raw, "resourceSpans", "scopeSpans", "spans"):
        yield PlainSpan(
            resource,
            _text(span, "traceId").lower(),
            _text(span, "name"),
            _whole(span.get("startTimeUnixNano", 0)),
            _whole(span.get("endTimeUnixNano", 0)),
            _attributes(span.get("attributes", [])),
            [
                PlainSpanEvent(
                    _text(one, "name"), _whole(one.get("timeUnixNano", 0)), _attributes(one.get("attributes", []))
                )
                for one in map(untrusted.mapping, untrusted.sequence(span.get("events", []), RECORDS_MAX))
            ],
            _text(untrusted.mapping(span.get("status", {})), "message"),
        )


def accepted(rejected: int, message: str, *, name: str) -> bytes:
    """The answer to a request whose records are stored, but for some. name: `rejectedLogRecords` or `rejectedSpans`."""
    partial: dict[str, Any] = {name: str(rejected)} if rejected else {}
    if message:
        partial["errorMessage"] = message
    return json.dumps({"partialSuccess": partial} if partial else {}).encode()


def refused(code: int, message: str) -> bytes:
    """A google.rpc.Status."""
    return json.dumps({"code": code, "message": message}).encode()


def _records(raw: bytes, resources: str, scopes: str, records: str) -> Iterator[tuple[dict[str, Any], Any]]:
    document = untrusted.mapping(untrusted.json_value(raw, len(raw), depth_max=_JSON_LEVELS_MAX))
    count = 0
    for of_resource in map(untrusted.mapping, untrusted.sequence(document.get(resources, []))):
        found = _attributes(untrusted.mapping(of_resource.get("resource", {})).get("attributes", []))
        for scope in map(untrusted.mapping, untrusted.sequence(of_resource.get(scopes, []))):
            several = untrusted.sequence(scope.get(records, []))
            count += len(several)
            if count > RECORDS_MAX:
                raise TooManyRecords
            yield from ((found, untrusted.mapping(one)) for one in several)


def _text(values: Any, name: str) -> str:
    found = values.get(name, "")
    if not isinstance(found, str):
        raise Untrusted(f"{name} is not text")
    return found


def _whole(value: Any) -> int:
    """A 64-bit number, which is a string of digits in JSON."""
    if isinstance(value, str) and len(value) <= _INT_CHARACTERS and value.removeprefix("-").isdecimal():
        return int(value)
    return untrusted.integer(value)


def _attributes(key_values: Any) -> dict[str, Any]:
    return _members(key_values, ValueBudget(), 0)


def _members(key_values: Any, budget: ValueBudget, depth: int) -> dict[str, Any]:
    several = untrusted.sequence(key_values)
    budget.take(len(several), depth)
    members = map(untrusted.mapping, several)
    return {_text(one, "key"): _value(untrusted.mapping(one.get("value", {})), budget, depth + 1) for one in members}


def _value(value: Any, budget: ValueBudget, depth: int) -> Any:
    """The first that is there. Raises Untrusted for one of another type than its name says."""
    if "doubleValue" in value:
        return untrusted.number(value["doubleValue"])
    if "stringValue" in value:
        return _text(value, "stringValue")
    if "intValue" in value:
        return _whole(value["intValue"])
    if "boolValue" in value:
        return untrusted.switch(value["boolValue"])
    if "kvlistValue" in value:
        return _members(untrusted.mapping(value["kvlistValue"]).get("values", []), budget, depth)
    if "arrayValue" in value:
        several = untrusted.sequence(untrusted.mapping(value["arrayValue"]).get("values", []))
        budget.take(len(several), depth)
        return [_value(untrusted.mapping(one), budget, depth + 1) for one in several]
    return None
