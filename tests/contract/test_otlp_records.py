"""Log records and spans of chains obey the protocol and are the same in both encodings."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from exporter import __version__
from exporter.chains.chain import Change, Severity
from exporter.chains.event import ChainEvent
from exporter.history.window import ProcessLabels
from exporter.model import Identity
from exporter.output.otlp import json_records, protobuf_records
from exporter.output.otlp.chain_records import ChainSpans, log_record
from exporter.output.otlp.points import Origin
from exporter.output.otlp.records import LogRecord, SpanRecord
from exporter.output.otlp.window_records import window_record
from tests.support.history import a_window, process_labels
from tests.support.otlp_records import read_logs_json, read_logs_protobuf, read_spans_json, read_spans_protobuf
from tests.support.reports import BEGAN_UNIX_NS, CHAIN_ID, RANK, SECOND, SENTENCE, SENTENCE_OF_WORST, SPAN_ID, a_report

ORIGIN = Origin("gpu7", "gpu-stall-exporter", (("deployment.environment.name", "prod"),))
HOSTILE = Identity(node='no"de\\', container="a\nb", pod='",le="1"} 7')
OPENED = a_report()
RESOLVED = a_report(Change.RESOLVED, 15.0)
OTHERS: dict[str, ChainEvent] = {
    "another rank": a_report(chain_id="1" * 32, identity=Identity(node="gpu7", rank="4")),
    "held back": a_report(chain_id="2" * 32, identity=None, tgid=0),
    "hostile": a_report(
        chain_id="3" * 32, identity=HOSTILE, culprits=(('x"} 1\ud800\n', 1.0),), commands=("rm 'ä\x00'", "")
    ),
    "bare": a_report(
        chain_id="4" * 32, slowdown=None, lost_share=0.0, contribution=1, culprits=(), commands=(), remedy=""
    ),
}
EVERY = [OPENED, *OTHERS.values(), RESOLVED]


def spans_of(*reports: ChainEvent) -> list[SpanRecord]:
    """The spans of ended chains, then those of open ones."""
    episodes = ChainSpans()
    over = [episodes.on_chain_event(report) for report in reports]
    return [span for span in over if span] + episodes.end_all(BEGAN_UNIX_NS + 60 * SECOND)


WINDOWS = [
    a_window(),
    a_window(process=2, labels=process_labels(rank="4")),
    a_window(process=3, labels=ProcessLabels(HOSTILE, 7, 'py"\ud800\n'), culprits_ns=(("lock", 'x"} 1\ud800', 7),)),
]
LOGS: Sequence[LogRecord] = [log_record(report) for report in EVERY]
SPANS: Sequence[SpanRecord] = spans_of(*EVERY)


class TestEncodings:
    """Both encodings, read by a reader that refuses any violation of the protocol."""

    def test_logs_are_the_same_in_both(self) -> None:
        """Record by record, those of one rank in one resource."""
        from_json = read_logs_json(json_records.encode_logs(LOGS, ORIGIN))

        assert len(from_json) == len(LOGS)
        assert from_json == read_logs_protobuf(protobuf_records.encode_logs(LOGS, ORIGIN))

    def test_windows_are_the_same_in_both(self) -> None:
        """Maps, arrays of maps and of numbers, in their order; also of names that are no text."""
        records = [window_record(one, "00c0ffee00c0ffee") for one in WINDOWS]
        from_json = read_logs_json(json_records.encode_logs(records, ORIGIN))

        assert from_json == read_logs_protobuf(protobuf_records.encode_logs(records, ORIGIN))
        assert [list(one.attributes) for one in from_json] == [list(one.attributes) for one in records]
        assert from_json[0].attributes["gpustall.step.buckets"] == {"first": 190, "counts": [500]}
        assert from_json[0].attributes["gpustall.lost"] == {"cpu_contention": 0.9, "lock": 0.1}

    def test_spans_are_the_same_in_both(self) -> None:
        from_json = read_spans_json(json_records.encode_spans(SPANS, ORIGIN))

        assert len(from_json) == len(SPANS) == 5
        assert from_json == read_spans_protobuf(protobuf_records.encode_spans(SPANS, ORIGIN))

    @pytest.mark.parametrize("name", OTHERS)
    def test_text_that_is_no_text_can_be_sent(self, name: str) -> None:
        """A process may have any bytes as its name."""
        for read, encode in (
            (read_logs_json, json_records.encode_logs),
            (read_logs_protobuf, protobuf_records.encode_logs),
        ):
            (found,) = read(encode([log_record(OTHERS[name])], ORIGIN))

            assert found.trace_id == OTHERS[name].chain_id


class TestContent:
    """The records at the receiver."""

    def test_log_record(self) -> None:
        """Attributes keep their types; the resource is that of the rank's metrics."""
        found, *_ = read_logs_json(json_records.encode_logs(LOGS, ORIGIN))

        assert (found.event_name, found.body, found.severity) == ("gpustall.chain.opened", SENTENCE, (17, "ERROR"))
        assert (found.trace_id, found.span_id) == (CHAIN_ID, SPAN_ID)
        assert (found.attributes["process.pid"], found.attributes["gpustall.chain.lost_share"]) == (100, 0.5)
        assert found.attributes["gpustall.chain.commands"] == ["taskset -acp 0-3 100", "renice -n 19 -p 777"]
        assert found.resource == ORIGIN.resource(RANK)
        assert found.scope == "gpu-stall-exporter"

    def test_span(self) -> None:
        """A root of kind internal, in error, with its events."""
        found, *_ = read_spans_json(json_records.encode_spans(SPANS, ORIGIN))

        assert (found.trace_id, found.span_id, found.name, found.kind) == (CHAIN_ID, SPAN_ID, "cpu_contention", 1)
        assert (found.end_unix_ns - found.start_unix_ns, found.status) == (15 * SECOND, (2, SENTENCE_OF_WORST))
        assert [event.name for event in found.events] == ["gpustall.chain.opened"]
        assert found.resource == ORIGIN.resource(RANK)

    def test_span_of_a_low_chain_has_no_status(self) -> None:
        """In both encodings."""
        low = spans_of(a_report(severity=Severity.LOW), a_report(Change.RESOLVED, severity=Severity.LOW))
        in_json = read_spans_json(json_records.encode_spans(low, ORIGIN))
        in_protobuf = read_spans_protobuf(protobuf_records.encode_spans(low, ORIGIN))

        assert [span.status for span in (*in_json, *in_protobuf)] == [(0, ""), (0, "")]

    def test_chain_without_an_identity_has_the_exporter_s_resource(self) -> None:
        """The process has no names yet."""
        (found,) = read_logs_json(json_records.encode_logs([log_record(OTHERS["held back"])], ORIGIN))

        assert found.resource == ORIGIN.resource(None)

    def test_scope_has_the_version(self) -> None:
        """Like that of the metrics."""
        assert f'"version":"{__version__}"'.encode() in json_records.encode_spans(SPANS, ORIGIN)
