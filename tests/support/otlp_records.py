"""What a receiver of OTLP logs or traces has got, after every rule that a request must keep has been checked.

In: a body in JSON or protobuf, or a document that a Collector has written. Out: a ReceivedLog or a ReceivedSpan each. The form of
a request is that of tests/support/otlp_schema.py; here are the rules of meaning, of the data models of logs and of traces, and
those that this exporter adds for itself: every record but a window belongs to a trace, and a span is a root.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from google.protobuf import json_format
from google.protobuf.message import DecodeError, Message
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.support.otlp import demand, differ, each, refuse_unknown_fields, resources_of, scopes_of
from tests.support.otlp_schema import CONVERTED, LOGS, RETOLD, TRACES, WRITTEN, NotOtlp, Reader, Tree, parse, walk

ERROR = 2
WINDOW = "gpustall.window"
_NAME = re.compile(r"[a-z][a-z0-9._]*")


@dataclass(frozen=True)
class ReceivedLog:
    """One log record with all that it hangs from. Attribute values have the type they were sent with."""

    resource: Mapping[str, Any]
    scope: str
    time_unix_ns: int
    observed_unix_ns: int
    severity: tuple[int, str]
    body: Any
    event_name: str
    attributes: Mapping[str, Any]
    trace_id: str
    span_id: str


class ReceivedEvent(NamedTuple):
    """A moment of a span."""

    time_unix_ns: int
    name: str
    attributes: Mapping[str, Any]


@dataclass(frozen=True)
class ReceivedSpan:
    """One span with all that it hangs from. status: its code, and its message."""

    resource: Mapping[str, Any]
    scope: str
    trace_id: str
    span_id: str
    name: str
    kind: int
    start_unix_ns: int
    end_unix_ns: int
    attributes: Mapping[str, Any]
    events: tuple[ReceivedEvent, ...]
    status: tuple[int, str]


def read_logs_json(body: bytes) -> list[ReceivedLog]:
    """The records of an OTLP/JSON body. Raises NotOtlp."""
    return list(_logs(parse(body), WRITTEN))


def read_spans_json(body: bytes) -> list[ReceivedSpan]:
    """The spans of an OTLP/JSON body. Raises NotOtlp."""
    return list(_spans(parse(body), WRITTEN))


def read_logs_protobuf(body: bytes) -> list[ReceivedLog]:
    """The records of a binary body. Raises NotOtlp; also for fields that the .proto files do not have."""
    return list(_logs(_converted(ExportLogsServiceRequest(), body), CONVERTED))


def read_spans_protobuf(body: bytes) -> list[ReceivedSpan]:
    """The spans of a binary body. Raises NotOtlp, as above."""
    return list(_spans(_converted(ExportTraceServiceRequest(), body), CONVERTED))


def read_logs_document(document: Tree) -> list[ReceivedLog]:
    """The records of a line that a Collector's file exporter wrote, parsed."""
    return list(_logs(document, RETOLD))


def read_spans_document(document: Tree) -> list[ReceivedSpan]:
    """The spans of such a line. It writes that there is no parent."""
    for resource in document["resourceSpans"]:
        for scope in resource["scopeSpans"]:
            for span in scope["spans"]:
                if not span.get("parentSpanId", "absent"):
                    del span["parentSpanId"]
    return list(_spans(document, RETOLD))


def _converted(request: Message, body: bytes) -> Any:
    try:
        request.ParseFromString(body)
    except DecodeError as error:
        raise NotOtlp("body", str(error)) from error
    refuse_unknown_fields(request, "")
    return json_format.MessageToDict(request, use_integers_for_enums=True)


def _logs(document: Any, readers: Mapping[str, Reader]) -> Iterator[ReceivedLog]:
    request = walk(document, readers, LOGS)
    for resource, scope, path, item in _leaves(request, "resourceLogs", "scopeLogs", "logRecords"):
        yield _log(resource, scope, path, item)


def _spans(document: Any, readers: Mapping[str, Reader]) -> Iterator[ReceivedSpan]:
    found = list(_leaves(walk(document, readers, TRACES), "resourceSpans", "scopeSpans", "spans"))
    differ((f"{path}.spanId", (item["traceId"], item["spanId"])) for _, _, path, item in found)
    for resource, scope, path, item in found:
        yield _span(resource, scope, path, item)


Leaf = tuple[Tree, str, str, Tree]


def _leaves(request: Tree, of_resources: str, of_scopes: str, of_items: str) -> Iterator[Leaf]:
    for path, resource in resources_of(request, of_resources):
        for scope_path, scope in scopes_of(resource, of_scopes, path):
            for item_path, item in each(scope, of_items, scope_path):
                yield resource["resource"]["attributes"], scope["scope"]["name"], item_path, item


def _log(resource: Tree, scope: str, path: str, item: Tree) -> ReceivedLog:
    _demand_names(item, path)
    is_window = item.get("eventName") == WINDOW
    for key in ("traceId", "spanId"):
        why = "belongs to a chain" if is_window else "is missing: a record here belongs to a span"
        demand(bool(item.get(key)) != is_window, f"{path}.{key}", why)
    demand(item["timeUnixNano"] <= item["observedTimeUnixNano"], f"{path}.timeUnixNano", "is after it was observed")
    demand(isinstance(item["body"], str), f"{path}.body", "is no text")
    demand(bool(_NAME.fullmatch(item.get("eventName", ""))), f"{path}.eventName", "is no name")
    demand(bool(item.get("severityText")), f"{path}.severityText", "is missing, or nothing")
    return ReceivedLog(
        resource=resource,
        scope=scope,
        time_unix_ns=item["timeUnixNano"],
        observed_unix_ns=item["observedTimeUnixNano"],
        severity=(item["severityNumber"], item["severityText"]),
        body=item["body"],
        event_name=item["eventName"],
        attributes=item.get("attributes", {}),
        trace_id=item.get("traceId", ""),
        span_id=item.get("spanId", ""),
    )


def _span(resource: Tree, scope: str, path: str, item: Tree) -> ReceivedSpan:
    start_ns, end_ns, status = item["startTimeUnixNano"], item["endTimeUnixNano"], item.get("status", {})
    _demand_names(item, path)
    demand("parentSpanId" not in item, f"{path}.parentSpanId", "a span here is a root")
    demand("links" not in item, f"{path}.links", "a span here has no links")
    demand(start_ns <= end_ns, f"{path}.endTimeUnixNano", "is before the start")
    is_error = status.get("code", 0) == ERROR
    demand(is_error or not status.get("message"), f"{path}.status.message", "belongs to an error")
    events = each(item, "events", path) if item.get("events") else []
    for event_path, event in events:
        _demand_names(event, event_path)
        demand(bool(_NAME.fullmatch(event["name"])), f"{event_path}.name", "is no name")
        is_within = start_ns <= event["timeUnixNano"] <= end_ns
        demand(is_within, f"{event_path}.timeUnixNano", "is not within the span")
    return ReceivedSpan(
        resource=resource,
        scope=scope,
        trace_id=item["traceId"],
        span_id=item["spanId"],
        name=item["name"],
        kind=item["kind"],
        start_unix_ns=start_ns,
        end_unix_ns=end_ns,
        attributes=item.get("attributes", {}),
        events=tuple(ReceivedEvent(one["timeUnixNano"], one["name"], one.get("attributes", {})) for _, one in events),
        status=(status.get("code", 0), status.get("message", "")),
    )


def _demand_names(item: Tree, path: str) -> None:
    for index, key in enumerate(item.get("attributes", {})):
        demand(bool(_NAME.fullmatch(key)), f"{path}.attributes[{index}].key", f"{key!r} is no name")
