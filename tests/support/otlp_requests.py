"""Requests of OTLP with windows of processes, in both encodings, from Python values."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue, KeyValueList
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, ResourceLogs, ScopeLogs
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

SECOND = 10**9
GPU1: Mapping[str, Any] = {"host.name": "gpu1"}

WINDOW: Mapping[str, Any] = {
    "node": "gpu1",
    "rank": "3",
    "container": "0123456789ab",
    "namespace": "ml",
    "pod": "trainer-0",
    "process.pid": 4032,
    "process.command": "python",
    "gpustall.window.duration": 10.0,
    "gpustall.steps": 50,
    "gpustall.step.time": 9.5,
    "gpustall.step.buckets": {"first": 161, "counts": [3, 0, 47]},
    "gpustall.lost": {"cpu_contention": 1.25, "io": 0.5},
    "gpustall.culprits": [{"cause": "cpu_contention", "culprit": "stress-ng", "lost": 1.25}],
    "gpustall.thread_time": {"running": 8.0, "runnable": 1.25},
    "gpustall.communicators": [
        {"hash": "00000000000000ff", "rank": 3, "ranks": 8, "operations": 700, "lag": 0.25},
        {"hash": "00000000000000fe", "rank": 0, "ranks": 2, "operations": 20},
    ],
    "gpustall.calls": [{"api": "cuda", "operation": "cudaLaunchKernel", "calls": 1000, "time": 0.125, "timed": 500}],
}
"""Attributes of the record whose row is cluster_rows.window(), without the id."""


def window_attributes(
    began_unix_ns: int, *, run: str = "00000000000000aa", process: int = 1, **more: Any
) -> dict[str, Any]:
    return {**WINDOW, "gpustall.window.id": f"{run}-{process}-{began_unix_ns}", **more}


def window_record(began_unix_ns: int, **more: Any) -> dict[str, Any]:
    """event_name, time_unix_ns and attributes of a record."""
    return {
        "event_name": "gpustall.window",
        "time_unix_ns": began_unix_ns + 10 * SECOND,
        "attributes": window_attributes(began_unix_ns, **more),
    }


def protobuf_logs(records: Iterable[Mapping[str, Any]], resource: Mapping[str, Any] = GPU1) -> bytes:
    logs = [
        LogRecord(
            time_unix_nano=one["time_unix_ns"],
            event_name=one["event_name"],
            attributes=_key_values(one["attributes"]),
        )
        for one in records
    ]
    of_resource = ResourceLogs(
        resource=Resource(attributes=_key_values(resource)), scope_logs=[ScopeLogs(log_records=logs)]
    )
    return ExportLogsServiceRequest(resource_logs=[of_resource]).SerializeToString()


def json_logs(records: Iterable[Mapping[str, Any]], resource: Mapping[str, Any] = GPU1) -> bytes:
    logs = [
        {
            "timeUnixNano": str(one["time_unix_ns"]),
            "eventName": one["event_name"],
            "attributes": _json_members(one["attributes"]),
        }
        for one in records
    ]
    of_resource = {"resource": {"attributes": _json_members(resource)}, "scopeLogs": [{"logRecords": logs}]}
    return json.dumps({"resourceLogs": [of_resource]}).encode()


def _key_values(values: Mapping[str, Any]) -> list[KeyValue]:
    return [KeyValue(key=key, value=_value(value)) for key, value in values.items()]


def _value(value: Any) -> AnyValue:
    if isinstance(value, str):
        return AnyValue(string_value=value)
    if isinstance(value, bool):
        return AnyValue(bool_value=value)
    if isinstance(value, int):
        return AnyValue(int_value=value)
    if isinstance(value, float):
        return AnyValue(double_value=value)
    if isinstance(value, Mapping):
        return AnyValue(kvlist_value=KeyValueList(values=_key_values(value)))
    return AnyValue(array_value=ArrayValue(values=map(_value, value)))


def _json_members(values: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value": _json_value(value)} for key, value in values.items()]


def _json_value(value: Any) -> dict[str, Any]:
    if isinstance(value, str):
        return {"stringValue": value}
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value}
    if isinstance(value, Mapping):
        return {"kvlistValue": {"values": _json_members(value)}}
    return {"arrayValue": {"values": [_json_value(one) for one in value]}}
