"""The table of OTLP's messages that the tests read by, and the classes that protoc made from the .proto files."""

from __future__ import annotations

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.support.otlp_schema import MESSAGES


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
    FieldDescriptor.TYPE_FIXED32: "fixed32",
    FieldDescriptor.TYPE_SFIXED64: "sfixed64",
}


def _descriptors() -> list[Descriptor]:
    """Every message that a request can hold."""
    found: dict[str, Descriptor] = {}
    requests = (ExportMetricsServiceRequest, ExportLogsServiceRequest, ExportTraceServiceRequest)
    pending: list[Descriptor] = [request.DESCRIPTOR for request in requests]
    while pending:
        descriptor = pending.pop()
        if descriptor.name not in found:
            found[descriptor.name] = descriptor
            pending += [field.message_type for field in descriptor.fields if field.message_type]
    return list(found.values())


def _fields(descriptor: Descriptor) -> dict[str, str]:
    return {field.json_name: _type(field) + "[]" * field.is_repeated for field in descriptor.fields}


def _type(field: FieldDescriptor) -> str:
    of_ids = {"trace_id": "trace id", "span_id": "span id", "parent_span_id": "span id"}
    named = field.message_type or field.enum_type
    return of_ids.get(field.name) or (str(named.name) if named else _TYPES[field.type])
