"""A request of OTLP -> the rows to store, and how many records were rejected for which reason. Pure; the time is an argument.

What is malformed within a record costs that record, since a sender must not send it again. A request that cannot be read at all
raises Untrusted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final, NamedTuple, TypeVar

from exporter.cluster.chain_decoding import EVENT_PREFIX, chain_event_row, chain_span_row
from exporter.cluster.plain_records import PlainRecord, PlainSpan
from exporter.cluster.records import Batch, ChainEventRow, ChainSpanRow, WindowRow
from exporter.cluster.segment_name import HOUR_NS
from exporter.cluster.window_decoding import EVENT_NAME, window_row
from exporter.text.untrusted import Untrusted

CLOCK_NS_MAX: Final = 24 * HOUR_NS
"""A record whose time is further from that of the store is rejected: the clock of its node is wrong, and no query would find it.
Smaller differences are stored as they are, beside the time of arrival."""

UNKNOWN, MALFORMED, CLOCK, SCOPE, TOO_MANY = "unknown", "malformed", "clock", "scope", "too_many_processes"
REASONS: Final = {
    UNKNOWN: "not a window or an event of a chain",
    MALFORMED: "a value is missing or not what it should be",
    CLOCK: "its time is more than a day from the time of the store",
    SCOPE: "this token may not send records of that node or namespace",
    TOO_MANY: "more processes or chain events than the store can distinguish",
}

Row = TypeVar("Row", WindowRow, ChainEventRow, ChainSpanRow)
Sees = Callable[[str, str], bool]
"""Whether a sender may send records of a node and a namespace."""


class Sender(NamedTuple):
    """name: of the token."""

    name: str
    sees: Sees


class Decoded(NamedTuple):
    """rejected: number of records by reason. example: what was wrong with one of the malformed ones."""

    batch: Batch
    rejected: Counter[str]
    example: str


class _Rejections:
    def __init__(self, sender: Sender, now_unix_ns: int) -> None:
        self.counts: Counter[str] = Counter()
        self.example = ""
        self._sender = sender
        self._now_unix_ns = now_unix_ns

    def row_of(self, decode: Callable[[], Row]) -> Row | None:
        try:
            row = decode()
        except Untrusted as error:
            self.example = self.example or str(error)
            self.reject(MALFORMED)
            return None
        time_unix_ns = row.at_unix_ns if isinstance(row, ChainEventRow) else row.ended_unix_ns
        if abs(time_unix_ns - self._now_unix_ns) > CLOCK_NS_MAX:
            self.reject(CLOCK)
        elif not self._sender.sees(row.node, row.namespace):
            self.reject(SCOPE)
        else:
            return row
        return None

    def reject(self, reason: str) -> None:
        self.counts[reason] += 1


def decode_logs(records: Iterable[PlainRecord], sender: Sender, now_unix_ns: int) -> Decoded:
    windows: list[WindowRow] = []
    events: list[ChainEventRow] = []
    rejections = _Rejections(sender, now_unix_ns)
    for record in records:
        if record.event_name == EVENT_NAME:
            if (window := rejections.row_of(partial(window_row, record))) is not None:
                windows.append(window)
        elif record.event_name.startswith(EVENT_PREFIX):
            if (event := rejections.row_of(partial(chain_event_row, record))) is not None:
                events.append(event)
        else:
            rejections.reject(UNKNOWN)
    batch = Batch(sender.name, now_unix_ns, windows, events)
    return Decoded(batch, rejections.counts, rejections.example)


def decode_spans(spans: Iterable[PlainSpan], sender: Sender, now_unix_ns: int) -> Decoded:
    rejections = _Rejections(sender, now_unix_ns)
    found = [rejections.row_of(partial(chain_span_row, span)) for span in spans]
    rows = [row for row in found if row is not None]
    return Decoded(Batch(sender.name, now_unix_ns, spans=rows), rejections.counts, rejections.example)


def rejection_message(rejected: Counter[str], example: str) -> str:
    """One sentence for each reason, "" without any."""
    parts = (f"{count} rejected: {REASONS[reason]}" for reason, count in sorted(rejected.items()) if count)
    return "; ".join(parts) + (f" ({example})" if example else "")
