"""OTLP in protobuf: requests -> plain records, and answers -> bytes. The only module of the store that uses protobuf.

Raises Untrusted for what is not a request of the service. Answers of the three services have the same fields.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import DecodeError
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import (
    ExportLogsPartialSuccess,
    ExportLogsServiceRequest,
    ExportLogsServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from exporter.cluster.plain_records import (
    RECORDS_MAX,
    PlainRecord,
    PlainSpan,
    PlainSpanEvent,
    TooManyRecords,
    ValueBudget,
)
from exporter.text.untrusted import Untrusted

CONTENT_TYPE: Final = "application/x-protobuf"


def log_records(raw: bytes) -> Iterator[PlainRecord]:
    """The records of an ExportLogsServiceRequest."""
    request = _parsed(ExportLogsServiceRequest, raw)
    for resource, record in _with_resource(request.resource_logs, "scope_logs", "log_records"):
        yield PlainRecord(
            resource,
            record.event_name,
            record.time_unix_nano,
            record.observed_time_unix_nano,
            record.trace_id.hex(),
            record.body.string_value,
            _attributes(record.attributes),
        )


def spans(raw: bytes) -> Iterator[PlainSpan]:
    """The spans of an ExportTraceServiceRequest."""
    request = _parsed(ExportTraceServiceRequest, raw)
    for resource, span in _with_resource(request.resource_spans, "scope_spans", "spans"):
        if len(span.events) > RECORDS_MAX:
            raise TooManyRecords
        yield PlainSpan(
            resource,
            span.trace_id.hex(),
            span.name,
            span.start_time_unix_nano,
            span.end_time_unix_nano,
            _attributes(span.attributes),
            [PlainSpanEvent(one.name, one.time_unix_nano, _attributes(one.attributes)) for one in span.events],
            span.status.message,
        )


def accepted(rejected: int, message: str) -> bytes:
    """The answer to a request whose records are stored, but for some."""
    if not rejected and not message:
        return b""
    partial = ExportLogsPartialSuccess(rejected_log_records=rejected, error_message=message)
    return ExportLogsServiceResponse(partial_success=partial).SerializeToString()


def refused(code: int, message: str, retry_seconds: float) -> bytes:
    """A google.rpc.Status. retry_seconds: when to try again, 0 for never."""
    status = Status(code=code, message=message)
    if retry_seconds:
        status.details.add().Pack(
            RetryInfo(retry_delay=Duration(nanos=round(retry_seconds % 1 * 1e9), seconds=int(retry_seconds)))
        )
    answer: bytes = status.SerializeToString()
    return answer


def _parsed(kind: Any, raw: bytes) -> Any:
    try:
        return kind.FromString(raw)
    except DecodeError as error:
        raise Untrusted("not an OTLP request in protobuf") from error


def _with_resource(resources: Iterable[Any], scopes: str, records: str) -> Iterator[tuple[dict[str, Any], Any]]:
    """Each record with the attributes of its resource, which are read once. scopes, records: names of the fields."""
    count = 0
    for of_resource in resources:
        resource: dict[str, Any] | None = None
        for scope in getattr(of_resource, scopes):
            found = getattr(scope, records)
            count += len(found)
            if count > RECORDS_MAX:
                raise TooManyRecords
            for one in found:
                resource = _attributes(of_resource.resource.attributes) if resource is None else resource
                yield resource, one


def _attributes(key_values: Any) -> dict[str, Any]:
    budget = ValueBudget()
    budget.take(len(key_values), 0)
    return {one.key: _value(one.value, budget, 1) for one in key_values}


def _value(value: Any, budget: ValueBudget, depth: int) -> Any:
    kind = value.WhichOneof("value")
    if kind == "kvlist_value":
        values = value.kvlist_value.values
        budget.take(len(values), depth)
        return {one.key: _value(one.value, budget, depth + 1) for one in values}
    if kind == "array_value":
        values = value.array_value.values
        budget.take(len(values), depth)
        return [_value(one, budget, depth + 1) for one in values]
    return getattr(value, kind) if kind else None
