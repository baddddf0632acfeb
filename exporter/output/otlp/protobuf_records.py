"""Log records and spans -> the body of an OTLP/protobuf request.

Built from the protobuf messages: the library's encoders want records of its SDK and take six times the memory. Imported only
when a receiver wants protobuf.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, InstrumentationScope, KeyValue
from opentelemetry.proto.logs.v1 import logs_pb2
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1 import trace_pb2

from exporter.model import Identity
from exporter.output.otlp.points import SCOPE, Origin, encodable
from exporter.output.otlp.protobuf_body import CONTENT_TYPE, rejected
from exporter.output.otlp.records import Attributes, LogRecord, SpanRecord, Value, by_identity

__all__ = ["CONTENT_TYPE", "encode_logs", "encode_spans", "rejected"]

_SCOPE = InstrumentationScope(name=SCOPE[0], version=SCOPE[1])


def encode_logs(records: Iterable[LogRecord], origin: Origin) -> bytes:
    """An ExportLogsServiceRequest."""
    resources = [
        logs_pb2.ResourceLogs(
            resource=_resource(origin, identity),
            scope_logs=[logs_pb2.ScopeLogs(scope=_SCOPE, log_records=map(_log_record, of))],
        )
        for identity, of in by_identity(records)
    ]
    return ExportLogsServiceRequest(resource_logs=resources).SerializeToString()


def encode_spans(spans: Iterable[SpanRecord], origin: Origin) -> bytes:
    """An ExportTraceServiceRequest."""
    resources = [
        trace_pb2.ResourceSpans(
            resource=_resource(origin, identity),
            scope_spans=[trace_pb2.ScopeSpans(scope=_SCOPE, spans=map(_span, of))],
        )
        for identity, of in by_identity(spans)
    ]
    return ExportTraceServiceRequest(resource_spans=resources).SerializeToString()


def _resource(origin: Origin, identity: Identity | None) -> Resource:
    return Resource(attributes=_key_values(origin.resource(identity)))


def _log_record(record: LogRecord) -> logs_pb2.LogRecord:
    return logs_pb2.LogRecord(
        time_unix_nano=record.time_unix_ns,
        observed_time_unix_nano=record.observed_unix_ns,
        severity_number=logs_pb2.SeverityNumber.ValueType(record.severity_number),
        severity_text=record.severity_text,
        body=AnyValue(string_value=encodable(record.body)),
        event_name=record.event_name,
        attributes=_key_values(record.attributes),
        trace_id=bytes.fromhex(record.trace_id),
        span_id=bytes.fromhex(record.span_id),
    )


def _span(span: SpanRecord) -> trace_pb2.Span:
    status = trace_pb2.Status(code=trace_pb2.Status.STATUS_CODE_ERROR, message=encodable(span.error))
    return trace_pb2.Span(
        trace_id=bytes.fromhex(span.trace_id),
        span_id=bytes.fromhex(span.span_id),
        name=span.name,
        kind=trace_pb2.Span.SPAN_KIND_INTERNAL,
        start_time_unix_nano=span.start_unix_ns,
        end_time_unix_nano=span.end_unix_ns,
        attributes=_key_values(span.attributes),
        events=[
            trace_pb2.Span.Event(
                time_unix_nano=event.time_unix_ns, name=event.name, attributes=_key_values(event.attributes)
            )
            for event in span.events
        ],
        status=status if span.error else None,
    )


def _key_values(attributes: Attributes | Mapping[str, str]) -> list[KeyValue]:
    return [_filled(KeyValue(key=key), value) for key, value in attributes.items()]


def _filled(one: KeyValue, value: Value) -> KeyValue:
    _fill(one.value, value)
    return one


def _fill(found: AnyValue, value: Value) -> None:
    """Sets the value in place: a message that is made from others copies them, at each level again."""
    if isinstance(value, str):
        found.string_value = encodable(value)
    elif isinstance(value, float):
        found.double_value = value
    elif isinstance(value, int):
        found.int_value = value
    elif isinstance(value, tuple):
        found.array_value.SetInParent()  # also if it is empty
        for one in value:
            _fill(found.array_value.values.add(), one)
    else:
        found.kvlist_value.SetInParent()
        for key, one in value.items():
            _filled(found.kvlist_value.values.add(key=key), one)
