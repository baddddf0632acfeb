"""otlp.chain_records: the log records of a chain, and the span of its trace."""

from __future__ import annotations

from dataclasses import replace

import pytest

from exporter.causes import Cause
from exporter.chains.chain import Change, End, Severity, span_id
from exporter.chains.event import ChainEvent
from exporter.output.otlp.chain_records import MAX_OPEN, ChainSpans, log_record
from exporter.output.otlp.records import SpanRecord
from tests.support.reports import (
    BEGAN_UNIX_NS,
    CHAIN_ID,
    COMMANDS,
    RANK,
    REMEDY,
    SECOND,
    SENTENCE,
    SENTENCE_OF_WORST,
    SPAN_ID,
    a_report,
)

OPENED, ESCALATED, RESOLVED = Change.OPENED, Change.ESCALATED, Change.RESOLVED
KEYS_OF_FIELDS = {
    "chain_id": "gpustall.chain.id",
    "cause": "gpustall.chain.cause",
    "effect": "gpustall.chain.effect",
    "severity": "gpustall.chain.severity",
    "rank": "rank",
    "container": "container",
    "pid": "process.pid",
    "culprit": "gpustall.chain.culprit",
    "peer": "gpustall.chain.peer",
    "detail": "gpustall.chain.detail",
    "lost_share": "gpustall.chain.lost_share",
    "lost_seconds": "gpustall.chain.lost_time",
    "contribution": "gpustall.chain.contribution",
    "open_seconds": "gpustall.chain.duration",
    "end": "gpustall.chain.end",
}
"""What the log file calls each."""


def span_of(*reports: ChainEvent) -> SpanRecord:
    """That comes with the last of them, and not before."""
    episodes = ChainSpans()
    *earlier, last = (episodes.on_chain_event(report) for report in reports)
    assert earlier == [None] * len(earlier)
    assert last is not None
    return last


class TestLogRecord:
    """One for each chain event."""

    def test_record_has_the_event_its_times_and_its_identity(self) -> None:
        """The stall had lasted for a second when it was measured; it was detected 2 ms later."""
        record = log_record(a_report())

        assert (record.event_name, record.body, record.identity) == ("gpustall.chain.opened", SENTENCE, RANK)
        assert record.time_unix_ns == BEGAN_UNIX_NS + SECOND
        assert record.observed_unix_ns == BEGAN_UNIX_NS + SECOND + 2_000_000
        assert (record.trace_id, record.span_id) == (CHAIN_ID, SPAN_ID)

    def test_attributes_are_typed_and_named(self) -> None:
        """Numbers are numbers; unknown attributes are left out."""
        assert log_record(a_report()).attributes == {
            "node": "gpu7",
            "rank": "3",
            "container": "0123456789ab",
            "process.pid": 100,
            "gpustall.chain.id": CHAIN_ID,
            "gpustall.chain.cause": "cpu_contention",
            "gpustall.chain.effect": "gap",
            "gpustall.chain.severity": "high",
            "gpustall.chain.culprit": "stress-ng",
            "gpustall.chain.lost_share": 0.5,
            "gpustall.chain.lost_time": 0.0,
            "gpustall.chain.contribution": 0.97,
            "gpustall.chain.duration": 1.0,
            "gpustall.chain.remedy": REMEDY,
            "gpustall.chain.commands": COMMANDS,
        }

    @pytest.mark.parametrize(
        "report",
        [a_report(), a_report(RESOLVED, peer="3", detail="a sentence", lost_ns=SECOND)],
        ids=["opened", "resolved"],
    )
    def test_every_field_of_the_json_log_is_there(self, report: ChainEvent) -> None:
        """Each field of the log has an attribute."""
        attributes = log_record(report).attributes

        assert {KEYS_OF_FIELDS[field] for field in report.fields()} <= attributes.keys()

    @pytest.mark.parametrize(
        ("severity", "number", "text"),
        [
            (Severity.LOW, 13, "WARN"),
            (Severity.MEDIUM, 14, "WARN"),
            (Severity.HIGH, 17, "ERROR"),
            (Severity.CRITICAL, 18, "ERROR"),
        ],
    )
    @pytest.mark.parametrize("change", [OPENED, ESCALATED])
    def test_severity_is_the_chain_s(self, change: Change, severity: Severity, number: int, text: str) -> None:
        """A worse severity has a larger number of the data model."""
        record = log_record(a_report(change, severity=severity))

        assert (record.severity_number, record.severity_text) == (number, text)

    def test_resolved_chain_is_information(self) -> None:
        """Whatever its severity was; and it has no remedy."""
        record = log_record(a_report(RESOLVED, severity=Severity.CRITICAL))

        assert (record.severity_number, record.severity_text) == (9, "INFO")
        assert record.attributes["gpustall.chain.end"] == "recovered"
        assert not {"gpustall.chain.remedy", "gpustall.chain.commands"} & record.attributes.keys()

    def test_lasting_change_is_information(self) -> None:
        """With what has changed."""
        record = log_record(a_report(cause=Cause.CHANGED, severity=Severity.LOW, detail="steps take 12.0 ms"))

        assert (record.severity_number, record.severity_text) == (9, "INFO")
        assert record.attributes["gpustall.chain.detail"] == "steps take 12.0 ms"

    def test_process_without_an_identity_has_no_labels(self) -> None:
        """Its name is not known yet."""
        record = log_record(a_report(identity=None, tgid=0))

        assert record.identity is None
        assert not {"node", "rank", "process.pid"} & record.attributes.keys()


class TestSpan:
    """One for each chain, at its end."""

    def test_it_lasts_from_begin_to_end(self) -> None:
        """By the monotonic clock; its name is the cause, by which spans are grouped."""
        span = span_of(a_report(), a_report(RESOLVED, 15.0))

        assert (span.trace_id, span.span_id, span.name, span.identity) == (CHAIN_ID, SPAN_ID, "cpu_contention", RANK)
        assert (span.start_unix_ns, span.end_unix_ns) == (BEGAN_UNIX_NS, BEGAN_UNIX_NS + 15 * SECOND)
        assert span.attributes["gpustall.chain.duration"] == 15.0
        assert span.attributes["gpustall.chain.end"] == "recovered"

    def test_changes_in_between_are_its_events(self) -> None:
        """At their own times, with the severity of that time."""
        span = span_of(
            a_report(severity=Severity.MEDIUM, lost_share=0.2),
            a_report(ESCALATED, 4.0),
            a_report(RESOLVED, 15.0),
        )

        assert [(one.name, one.time_unix_ns - BEGAN_UNIX_NS) for one in span.events] == [
            ("gpustall.chain.opened", SECOND),
            ("gpustall.chain.escalated", 4 * SECOND),
        ]
        assert span.events[0].attributes == {
            "gpustall.chain.severity": "medium",
            "gpustall.chain.cause": "cpu_contention",
            "gpustall.chain.lost_share": 0.2,
            "gpustall.chain.contribution": 0.97,
        }

    def test_it_is_an_error_unless_it_was_low(self) -> None:
        """A low one has no status, which does not mean success."""
        low = {"severity": Severity.LOW}

        assert span_of(a_report(), a_report(RESOLVED)).error == SENTENCE_OF_WORST
        assert span_of(a_report(**low), a_report(RESOLVED, **low)).error == ""

    def test_remedy_is_that_of_the_last_event_before_the_end(self) -> None:
        """At the end the processes may be gone."""
        span = span_of(a_report(), a_report(RESOLVED, commands=("renice -n 19 -p PID",), end=End.JOB_ENDED))

        assert span.attributes["gpustall.chain.commands"] == COMMANDS

    def test_clock_that_was_set_moves_all_of_it(self) -> None:
        """Back by an hour after the opening: the event keeps its place in the span."""
        hour_ns = 3600 * SECOND
        resolved = a_report(RESOLVED, 15.0)
        later = replace(resolved, began_unix_ns=BEGAN_UNIX_NS - hour_ns, at_unix_ns=resolved.at_unix_ns - hour_ns)
        span = span_of(a_report(), later)

        assert (span.start_unix_ns, span.end_unix_ns - span.start_unix_ns) == (BEGAN_UNIX_NS - hour_ns, 15 * SECOND)
        assert span.events[0].time_unix_ns - span.start_unix_ns == SECOND

    def test_chain_that_becomes_a_hang_is_one_span(self) -> None:
        """From the begin of the chain, though the hang began later."""
        hang = {"cause": Cause.NCCL_HANG, "began_unix_ns": BEGAN_UNIX_NS + 5 * SECOND}
        span = span_of(a_report(), a_report(ESCALATED, 10.0, **hang), a_report(RESOLVED, 20.0, **hang))

        assert span.name == "nccl_hang"
        assert (span.start_unix_ns, span.end_unix_ns) == (BEGAN_UNIX_NS, BEGAN_UNIX_NS + 25 * SECOND)
        assert span.attributes["gpustall.chain.duration"] == 25.0

    def test_end_without_an_opening_is_a_span(self) -> None:
        """The opening may have been dropped."""
        span = span_of(a_report(RESOLVED, 15.0))

        assert span.events == ()
        assert span.end_unix_ns - span.start_unix_ns == 15 * SECOND

    def test_open_chains_are_kept_apart(self) -> None:
        """Each span has the events of its own chain."""
        other = {"chain_id": "b" * 32}
        episodes = ChainSpans()
        episodes.on_chain_event(a_report())
        episodes.on_chain_event(a_report(at_seconds=2.0, **other))
        span = episodes.on_chain_event(a_report(RESOLVED, 15.0, **other))

        assert span is not None
        assert [one.time_unix_ns - BEGAN_UNIX_NS for one in span.events] == [2 * SECOND]


class TestStillOpen:
    """Chains that are open when the exporter stops."""

    def test_span_ends_now_with_a_reason(self) -> None:
        """So that the trace id of its log records and exemplars exists."""
        episodes = ChainSpans()
        episodes.on_chain_event(a_report())
        (span,) = episodes.end_all(BEGAN_UNIX_NS + 7 * SECOND)

        assert (span.start_unix_ns, span.end_unix_ns) == (BEGAN_UNIX_NS, BEGAN_UNIX_NS + 7 * SECOND)
        assert span.attributes["gpustall.chain.end"] == "exporter_stopped"
        assert span.attributes["gpustall.chain.duration"] == 7.0
        assert [one.name for one in span.events] == ["gpustall.chain.opened"]

    def test_span_does_not_end_before_its_last_event(self) -> None:
        """The clock was set back."""
        episodes = ChainSpans()
        episodes.on_chain_event(a_report(at_seconds=4.0))

        assert episodes.end_all(5)[0].end_unix_ns == BEGAN_UNIX_NS + 4 * SECOND

    def test_ended_chain_has_no_second_span(self) -> None:
        """Nor has an open one after end_all()."""
        episodes = ChainSpans()
        episodes.on_chain_event(a_report())
        episodes.on_chain_event(a_report(RESOLVED))

        assert episodes.end_all(BEGAN_UNIX_NS) == []

    def test_number_of_open_chains_is_bounded(self) -> None:
        """The oldest is dropped: a chain whose end is missing must not take memory for ever."""
        episodes = ChainSpans()
        for number in range(MAX_OPEN + 1):
            episodes.on_chain_event(a_report(chain_id=f"{number + 1:032x}"))
        left = episodes.end_all(BEGAN_UNIX_NS + SECOND)

        assert (len(left), left[0].trace_id) == (MAX_OPEN, f"{2:032x}")


class TestSpanId:
    """Derived from the chain's id."""

    @pytest.mark.parametrize(
        ("chain_id", "wanted"),
        [(CHAIN_ID, "0af7651916cd43dd"), ("0" * 16 + "8448eb211c80319c", "8448eb211c80319c")],
    )
    def test_it_is_never_zero(self, chain_id: str, wanted: str) -> None:
        """The protocol does not allow 0."""
        assert span_id(chain_id) == wanted
