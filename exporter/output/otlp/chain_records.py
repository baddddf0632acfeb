"""A causal chain in OpenTelemetry's data model: a log record for each chain event, and one span when the chain ends.

ChainEvents -> LogRecords and SpanRecords, which json_records and protobuf_records encode. The trace id is the chain's id, and the
span is the only one of its trace. Severity numbers and texts follow the logs data model, where its example is syslog.
"""

from __future__ import annotations

from collections.abc import Sequence

from exporter.catalog import COMMON_LABELS
from exporter.causes import Cause
from exporter.chains.chain import Change, Severity, span_id
from exporter.chains.event import ChainEvent
from exporter.model import Identity
from exporter.output.otlp.records import INFO, LogRecord, SpanEvent, SpanRecord, Value
from exporter.units import seconds

EXPORTER_STOPPED = "exporter_stopped"
"""gpustall.chain.end of a chain that was open when the exporter stopped."""

MAX_OPEN = 1000
"""Open chains whose events are kept; a node has fewer, also with several for a process."""

_SEVERITIES = {
    Severity.NONE: INFO,
    Severity.LOW: (13, "WARN"),
    Severity.MEDIUM: (14, "WARN"),
    Severity.HIGH: (17, "ERROR"),
    Severity.CRITICAL: (18, "ERROR"),
}


def log_record(event: ChainEvent) -> LogRecord:
    """The log record of a chain event; with the remedy, unless the chain is resolved. A lasting change is information."""
    is_over = event.change is Change.RESOLVED
    number, text = INFO if is_over or event.cause is Cause.CHANGED else _SEVERITIES[event.severity]
    return LogRecord(
        identity=event.identity,
        time_unix_ns=_time_unix_ns(event),
        observed_unix_ns=event.at_unix_ns,
        severity_number=number,
        severity_text=text,
        body=event.sentence,
        event_name=_event_name(event),
        attributes=_attributes(event) | ({} if is_over else _remedy(event)),
        trace_id=event.chain_id,
        span_id=span_id(event.chain_id),
    )


class ChainSpans:
    """Collects the events of each open chain into a span."""

    def __init__(self) -> None:
        self._open: dict[str, list[ChainEvent]] = {}

    def on_chain_event(self, event: ChainEvent) -> SpanRecord | None:
        """The span of a chain that this event resolves, else None."""
        if event.change is Change.RESOLVED:
            return _span([*self._open.pop(event.chain_id, ()), event])
        self._open.setdefault(event.chain_id, []).append(event)
        if len(self._open) > MAX_OPEN:
            del self._open[next(iter(self._open))]
        return None

    def end_all(self, now_unix_ns: int) -> list[SpanRecord]:
        """Spans up to now of all open chains, so that the trace ids of their logs and exemplars exist."""
        open_chains = list(self._open.values())
        self._open.clear()
        return [_span(events, now_unix_ns) for events in open_chains]


def _span(events: Sequence[ChainEvent], still_open_unix_ns: int = 0) -> SpanRecord:
    """events: all of one chain, in order. still_open_unix_ns: now, if the chain is open."""
    last = events[-1]
    changes = [event for event in events if event.change is not Change.RESOLVED] or [last]
    end_unix_ns = max(_time_unix_ns(last), still_open_unix_ns)
    # A hang has a begin of its own, which may be later than the begin of the chain that turned into it.
    start_unix_ns = min(event.began_unix_ns + _clock_set_ns(event, last) for event in events)
    attributes = _attributes(last) | _remedy(changes[-1])
    attributes["gpustall.chain.duration"] = seconds(end_unix_ns - start_unix_ns)
    if still_open_unix_ns:
        attributes["gpustall.chain.end"] = EXPORTER_STOPPED
    return SpanRecord(
        identity=last.identity or changes[-1].identity,
        trace_id=last.chain_id,
        span_id=span_id(last.chain_id),
        name=last.cause.value,
        start_unix_ns=start_unix_ns,
        end_unix_ns=end_unix_ns,
        attributes=attributes,
        events=tuple(_span_event(event, last) for event in changes if event is not last or still_open_unix_ns),
        error=last.sentence if last.severity > Severity.LOW else "",
    )


def _span_event(event: ChainEvent, last: ChainEvent) -> SpanEvent:
    known = _attributes(event)
    names = ("severity", "cause", "lost_share", "contribution")
    attributes = {f"gpustall.chain.{name}": known[f"gpustall.chain.{name}"] for name in names}
    return SpanEvent(_time_unix_ns(event) + _clock_set_ns(event, last), _event_name(event), attributes)


def _time_unix_ns(event: ChainEvent) -> int:
    """When it happened: a tick before it was detected, or five seconds without a stall for a resolved chain."""
    return event.began_unix_ns + event.duration_ns


def _clock_set_ns(event: ChainEvent, last: ChainEvent) -> int:
    """By how much the time of day was set between two events: a chain has one begin, which moves with the clock."""
    return last.began_unix_ns - event.began_unix_ns if event.cause is last.cause else 0


def _event_name(event: ChainEvent) -> str:
    return f"gpustall.chain.{event.change.value}"


def _attributes(event: ChainEvent) -> dict[str, Value]:
    """The five labels of the metrics, and the facts of the chain; empty ones are left out."""
    identity = event.identity or Identity()
    known: dict[str, Value] = dict(zip(COMMON_LABELS, identity.values(), strict=True))
    known |= {
        "process.pid": event.tgid,
        "gpustall.chain.id": event.chain_id,
        "gpustall.chain.cause": event.cause.value,
        "gpustall.chain.effect": event.effect.value,
        "gpustall.chain.severity": event.severity.name.lower(),
        "gpustall.chain.culprit": event.culprit,
        "gpustall.chain.peer": event.peer,
        "gpustall.chain.detail": event.detail,
        "gpustall.chain.end": event.end.value if event.end else "",
    }
    if event.now is not None:
        known["gpustall.chain.lost_share_now"] = float(event.now.lost_share)
    return {name: value for name, value in known.items() if value} | {
        "gpustall.chain.lost_share": float(event.lost_share),
        "gpustall.chain.lost_time": seconds(event.lost_ns),
        "gpustall.chain.contribution": float(event.contribution),
        "gpustall.chain.duration": seconds(event.duration_ns),
    }


def _remedy(event: ChainEvent) -> dict[str, Value]:
    return {"gpustall.chain.remedy": event.remedy, "gpustall.chain.commands": event.commands}
