"""An OpenTelemetry Collector receives the log records and spans of chains, the same ones in both encodings."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest

from exporter import catalog
from exporter.chains.chain import Change
from exporter.config.otlp_parsers import LOGS, TRACES
from exporter.model import Exemplar, Family, Point, Snapshot
from exporter.output.otlp import json_body, json_records, points, protobuf_body
from exporter.output.otlp.chain_exporter import ChainExporter
from exporter.output.otlp.chain_records import log_record
from exporter.output.otlp.points import Form
from exporter.output.otlp.record_codecs import probe
from exporter.output.otlp.transport import OtlpTransport
from exporter.own_metrics.store import OwnMetrics
from tests.conformance import partners
from tests.support.otlp import read_document
from tests.support.otlp_records import (
    ReceivedLog,
    ReceivedSpan,
    read_logs_document,
    read_logs_json,
    read_spans_document,
)
from tests.support.pushing import ORIGIN, target
from tests.support.records import at
from tests.support.reports import BEGAN_UNIX_NS, CHAIN_ID, RANK, SECOND, SENTENCE, SPAN_ID, a_report
from tests.support.traced import eventually, only

pytestmark = pytest.mark.conformance
PATIENCE_SECONDS = 30
EPISODE = (a_report(), a_report(Change.ESCALATED, 4.0), a_report(Change.RESOLVED, 15.0))
PROTOCOLS = ("http/json", "http/protobuf")


@dataclass(frozen=True)
class Received:
    """The records at the Collector."""

    logs: list[ReceivedLog]
    spans: list[ReceivedSpan]


@pytest.fixture(scope="module", params=PROTOCOLS)
def received(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Received:
    """The records of one chain, in either encoding."""
    with partners.collector(tmp_path_factory.mktemp("collector")) as collector:
        announcer = ChainExporter([target(collector.endpoint, protocol=request.param)], OwnMetrics(), ORIGIN)
        announcer.start()
        for report in EPISODE:
            announcer.on_chain_event(report)
        announcer.stop()
        announcer.join()
        eventually(lambda: collector.received("traces.jsonl"), "a span has come", PATIENCE_SECONDS)
        eventually(lambda: collector.received("logs.jsonl"), "log records have come", PATIENCE_SECONDS)
        return Received(
            [one for document in collector.received("logs.jsonl") for one in read_logs_document(document)],
            [one for document in collector.received("traces.jsonl") for one in read_spans_document(document)],
        )


class TestReceived:
    """Read back from the files of the Collector."""

    def test_log_records_are_those_that_were_sent(self, received: Received) -> None:
        """Every field."""
        sent = read_logs_json(json_records.encode_logs(map(log_record, EPISODE), ORIGIN))

        assert received.logs == sent
        assert [one.event_name.rpartition(".")[2] for one in received.logs] == ["opened", "escalated", "resolved"]

    def test_span_is_a_root_with_its_events(self, received: Received) -> None:
        """With the rank's resource and status error, 15 s long."""
        span = only(received.spans)

        assert (span.trace_id, span.span_id, span.name, span.kind) == (CHAIN_ID, SPAN_ID, "cpu_contention", 1)
        assert (span.start_unix_ns, span.end_unix_ns) == (BEGAN_UNIX_NS, BEGAN_UNIX_NS + 15 * SECOND)
        assert [event.name for event in span.events] == ["gpustall.chain.opened", "gpustall.chain.escalated"]
        assert span.status == (2, SENTENCE)
        assert span.resource == ORIGIN.resource(RANK)


class TestProbe:
    """The requests of `check`."""

    @pytest.mark.parametrize("protocol", PROTOCOLS)
    def test_request_without_records_is_accepted(self, tmp_path: Path, protocol: str) -> None:
        """At both paths."""
        with partners.collector(tmp_path) as collector:
            to = target(collector.endpoint, protocol=protocol)
            results = [probe(where, signal) for signal, where in ((LOGS, to.logs), (TRACES, to.traces)) if where]

        assert [result.is_accepted for result in results] == [True, True]


class TestExemplar:
    """The exemplar of a counter."""

    @pytest.mark.parametrize("body", [json_body, protobuf_body], ids=PROTOCOLS)
    def test_it_names_the_trace(self, tmp_path: Path, body: ModuleType) -> None:
        """With both ids and the lost time."""
        exemplar = Exemplar((("trace_id", CHAIN_ID), ("span_id", SPAN_ID)), 0.25, at(1.0).unix_ns)
        family = Family(catalog.sched.LOST, (Point(RANK, ("lock",), 1.5),), {(RANK, ("lock",)): exemplar})
        snapshot = Snapshot(at(2.0), (family,), {RANK: at(0.0).unix_ns})
        form = Form(is_delta=False, with_explicit_buckets=False)
        (request,) = points.requests(points.data_points(snapshot, ()))
        with partners.collector(tmp_path) as collector:
            sent = body.encode(request, snapshot.taken_at.unix_ns, ORIGIN, form)
            OtlpTransport(target(collector.endpoint)).post(sent, {"Content-Type": body.CONTENT_TYPE}, PATIENCE_SECONDS)
            (document,) = eventually(collector.received, "the point has come", PATIENCE_SECONDS)
        found = only(only(read_document(document)).exemplars)

        assert (found.trace_id, found.span_id, found.value) == (CHAIN_ID, SPAN_ID, 0.25)
