"""A causal chain as OpenTelemetry sees it: a log record whenever something happens to it, and one span when it is over. What JSON
and protobuf have in common.

In: Reports. Out: LogRecords, and Spans, each the only one of its trace. The trace id is the chain's id.
Numbers and texts of severities are those of the logs data model; of its examples syslog's are nearest.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeVar

from exporter.catalog import COMMON_LABELS
from exporter.chains.chain import Change, Severity, span_id
from exporter.chains.event import ChainEvent
from exporter.model import Identity
from exporter.units import seconds

EXPORTER_STOPPED = "exporter_stopped"
"""gpustall.chain.end of an episode that goes on: the exporter does not see its end."""

MAX_OPEN = 1000
"""Episodes that are remembered while they are open; a node has fewer processes."""

_INFO = (9, "INFO")
_SEVERITIES = {
    Severity.NONE: _INFO,
    Severity.LOW: (13, "WARN"),
    Severity.MEDIUM: (14, "WARN"),
    Severity.HIGH: (17, "ERROR"),
    Severity.CRITICAL: (18, "ERROR"),
}

Value = str | int | float | tuple[str, ...]
Attributes = Mapping[str, Value]


class LogRecord(NamedTuple):
    """Something that has happened to a chain. time_unix_ns: when; observed_unix_ns: when that was certain."""

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
    """A moment within a span."""

    time_unix_ns: int
    name: str
    attributes: Attributes


class SpanRecord(NamedTuple):
    """An episode from its begin to its end. error: what it was about, "" where it was of little account."""

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


def log_record(report: ChainEvent) -> LogRecord:
    """What has happened. What to do is told while something is to be done."""
    is_over = report.change is Change.RESOLVED
    number, text = _INFO if is_over else _SEVERITIES[report.severity]
    return LogRecord(
        identity=report.identity,
        time_unix_ns=_time_unix_ns(report),
        observed_unix_ns=report.at_unix_ns,
        severity_number=number,
        severity_text=text,
        body=report.sentence,
        event_name=_event_name(report),
        attributes=_attributes(report) | ({} if is_over else _remedy(report)),
        trace_id=report.chain_id,
        span_id=span_id(report.chain_id),
    )


class ChainSpans:
    """Puts together what is said of each chain from its opening to its end."""

    def __init__(self) -> None:
        self._open: dict[str, list[ChainEvent]] = {}

    def hear(self, report: ChainEvent) -> SpanRecord | None:
        """The span of a chain that is over."""
        if report.change is Change.RESOLVED:
            return _span([*self._open.pop(report.chain_id, ()), report])
        self._open.setdefault(report.chain_id, []).append(report)
        if len(self._open) > MAX_OPEN:
            del self._open[next(iter(self._open))]
        return None

    def left_open(self, now_unix_ns: int) -> list[SpanRecord]:
        """Nothing more will be heard: those that go on, up to now. Their logs and exemplars lead to them."""
        left = list(self._open.values())
        self._open.clear()
        return [_span(reports, now_unix_ns) for reports in left]


def by_identity(records: Iterable[R]) -> Iterator[tuple[Identity | None, list[R]]]:
    """The records of a request by resource."""
    found: dict[Identity | None, list[R]] = {}
    for record in records:
        found.setdefault(record.identity, []).append(record)
    yield from found.items()


def _span(reports: Sequence[ChainEvent], left_open_unix_ns: int = 0) -> SpanRecord:
    """Of everything that was said of one chain, in its order. left_open_unix_ns: now, if it goes on."""
    last = reports[-1]
    told = [report for report in reports if report.change is not Change.RESOLVED] or [last]
    end_unix_ns = max(_time_unix_ns(last), left_open_unix_ns)
    # A hang has a begin of its own, which may be later than that of the chain which has become it.
    start_unix_ns = min(report.began_unix_ns + _clock_set_ns(report, last) for report in reports)
    attributes = _attributes(last) | _remedy(told[-1])
    attributes["gpustall.chain.duration"] = seconds(end_unix_ns - start_unix_ns)
    if left_open_unix_ns:
        attributes["gpustall.chain.end"] = EXPORTER_STOPPED
    return SpanRecord(
        identity=last.identity or told[-1].identity,
        trace_id=last.chain_id,
        span_id=span_id(last.chain_id),
        name=last.cause.value,
        start_unix_ns=start_unix_ns,
        end_unix_ns=end_unix_ns,
        attributes=attributes,
        events=tuple(_event(report, last) for report in told if report is not last or left_open_unix_ns),
        error=last.sentence if last.severity > Severity.LOW else "",
    )


def _event(report: ChainEvent, last: ChainEvent) -> SpanEvent:
    told = _attributes(report)
    names = ("severity", "cause", "lost_share", "contribution")
    attributes = {f"gpustall.chain.{name}": told[f"gpustall.chain.{name}"] for name in names}
    return SpanEvent(_time_unix_ns(report) + _clock_set_ns(report, last), _event_name(report), attributes)


def _time_unix_ns(report: ChainEvent) -> int:
    """When it happened, which is at most a moment, or five calm seconds, before it was certain."""
    return report.began_unix_ns + report.duration_ns


def _clock_set_ns(report: ChainEvent, last: ChainEvent) -> int:
    """By how much the time of day was set between two reports: an episode has one begin, which has moved with it."""
    return last.began_unix_ns - report.began_unix_ns if report.cause is last.cause else 0


def _event_name(report: ChainEvent) -> str:
    return f"gpustall.chain.{report.change.value}"


def _attributes(report: ChainEvent) -> dict[str, Value]:
    """What there is to group and to join by; empty ones are left out. The five labels are those of the metrics."""
    identity = report.identity or Identity()
    known: dict[str, Value] = dict(zip(COMMON_LABELS, identity.values(), strict=True))
    known |= {
        "process.pid": report.tgid,
        "gpustall.chain.id": report.chain_id,
        "gpustall.chain.cause": report.cause.value,
        "gpustall.chain.effect": report.effect.value,
        "gpustall.chain.severity": report.severity.name.lower(),
        "gpustall.chain.culprit": report.culprits[0][0] if report.culprits else "",
        "gpustall.chain.peer": report.peer,
        "gpustall.chain.end": report.end.value if report.end else "",
    }
    return {name: value for name, value in known.items() if value} | {
        "gpustall.chain.lost_share": float(report.lost_share),
        "gpustall.chain.contribution": float(report.contribution),
        "gpustall.chain.duration": seconds(report.duration_ns),
    }


def _remedy(report: ChainEvent) -> dict[str, Value]:
    return {"gpustall.chain.remedy": report.remedy, "gpustall.chain.commands": report.commands}
