"""Log records and spans in OpenTelemetry's data model, as json_records and protobuf_records encode them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple, TypeVar

from exporter.model import Identity

INFO = (9, "INFO")
"""Severity number and text."""

Value = str | int | float | tuple["Value", ...] | Mapping[str, "Value"]
"""Tuples are arrays, mappings are lists of keys and values."""

Attributes = Mapping[str, Value]


class LogRecord(NamedTuple):
    """One event. time_unix_ns: when it happened; observed_unix_ns: when it was detected. trace_id, span_id: "" for none."""

    identity: Identity | None
    time_unix_ns: int
    observed_unix_ns: int
    severity_number: int
    severity_text: str
    body: str
    event_name: str
    attributes: Attributes
    trace_id: str
    span_id: str


class SpanEvent(NamedTuple):
    """A chain event within a span."""

    time_unix_ns: int
    name: str
    attributes: Attributes


class SpanRecord(NamedTuple):
    """A chain from its begin to its end. error: its sentence, "" below medium severity."""

    identity: Identity | None
    trace_id: str
    span_id: str
    name: str
    start_unix_ns: int
    end_unix_ns: int
    attributes: Attributes
    events: tuple[SpanEvent, ...]
    error: str


Record = LogRecord | SpanRecord
R = TypeVar("R", LogRecord, SpanRecord)


def by_identity(records: Iterable[R]) -> Iterator[tuple[Identity | None, list[R]]]:
    """Group the records of a request by resource."""
    found: dict[Identity | None, list[R]] = {}
    for record in records:
        found.setdefault(record.identity, []).append(record)
    yield from found.items()
