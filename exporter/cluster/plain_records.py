"""Log records and spans of OTLP as Python values, which both encodings become before they are understood.

Attribute values are str, int, float, bool, bytes, None, list and dict. They are what a sender chose: bounded in number, and not
yet checked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from exporter.text.untrusted import Untrusted

RECORDS_MAX: Final = 4096
"""In one request. A node of 64 processes has 64 windows in ten seconds."""
VALUES_MAX: Final = 4096
"""Attribute values of one record or resource, those within others included. A window has some 150."""
DEPTH_MAX: Final = 8

Attributes = Mapping[str, Any]


class PlainRecord(NamedTuple):
    """Times are 0 where the sender has none. trace_id: hexadecimal digits, or "". body: its text, or ""."""

    resource: Attributes
    event_name: str
    time_unix_ns: int
    observed_unix_ns: int
    trace_id: str
    body: str
    attributes: Attributes


class PlainSpanEvent(NamedTuple):
    name: str
    time_unix_ns: int
    attributes: Attributes


class PlainSpan(NamedTuple):
    """error: the message of its status, or ""."""

    resource: Attributes
    trace_id: str
    name: str
    start_unix_ns: int
    end_unix_ns: int
    attributes: Attributes
    events: Sequence[PlainSpanEvent]
    error: str


class TooManyRecords(Untrusted):
    """A request has more than RECORDS_MAX."""

    def __init__(self) -> None:
        super().__init__(f"more than {RECORDS_MAX} records in a request: send smaller ones")


class ValueBudget:
    """Counts the attribute values of one record. Raises Untrusted for too many."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = VALUES_MAX

    def take(self, count: int, depth: int) -> None:
        self.left -= count
        if self.left < 0:
            raise Untrusted(f"a record of more than {VALUES_MAX} values")
        if depth > DEPTH_MAX:
            raise Untrusted(f"attribute values with more than {DEPTH_MAX} levels")
