"""otlp.chain_exporter: log records and spans of a chain at every receiver, over real sockets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest

from exporter.chains.chain import Change
from exporter.chains.event import ChainEvent
from exporter.config.otlp import Receiver
from exporter.config.otlp_parsers import LOGS, TRACES
from exporter.output.otlp.chain_exporter import ChainExporter
from exporter.output.otlp.record_codecs import probe
from exporter.own_metrics.store import OwnMetrics
from tests.support import receiver as receivers
from tests.support.otlp_records import read_logs_json, read_logs_protobuf, read_spans_json, read_spans_protobuf
from tests.support.pushing import ORIGIN, target
from tests.support.receiver import Request, answer
from tests.support.reports import CHAIN_ID, a_report
from tests.support.traced import only

EPISODE = (a_report(), a_report(Change.ESCALATED, 4.0), a_report(Change.RESOLVED, 15.0))


@contextmanager
def exporting(*to: Receiver) -> Iterator[ChainExporter]:
    """A started exporter; stopped at the end of the block."""
    exporter = ChainExporter(to, OwnMetrics(), ORIGIN)
    exporter.start()
    try:
        yield exporter
    finally:
        exporter.stop()
        exporter.join()


def names_by_path(requests: Sequence[Request]) -> dict[str, list[str]]:
    """Path -> names of the log events or spans, in order."""
    found: dict[str, list[str]] = {}
    for one in requests:
        if one.path == "/v1/logs":
            read_logs = read_logs_protobuf if one.is_protobuf else read_logs_json
            found.setdefault(one.path, []).extend(log.event_name for log in read_logs(one.content))
        else:
            read_spans = read_spans_protobuf if one.is_protobuf else read_spans_json
            found.setdefault(one.path, []).extend(span.name for span in read_spans(one.content))
    return found


LOGS_OF_EPISODE = ["gpustall.chain.opened", "gpustall.chain.escalated", "gpustall.chain.resolved"]


def send(exporter: ChainExporter, *events: ChainEvent) -> None:
    """Pass chain events to an exporter."""
    for event in events:
        exporter.on_chain_event(event)


class TestChain:
    """A chain from its opening to its end."""

    @pytest.mark.parametrize("protocol", ["http/json", "http/protobuf"])
    def test_each_event_is_a_log_record_and_the_chain_is_a_span(self, protocol: str) -> None:
        """Each signal has its own path."""
        with receivers.receiver() as found:
            with exporting(target(found.url, protocol=protocol)) as exporter:
                send(exporter, *EPISODE)

            assert names_by_path(found.requests) == {"/v1/logs": LOGS_OF_EPISODE, "/v1/traces": ["cpu_contention"]}

    def test_opening_is_sent_while_the_chain_is_open(self) -> None:
        """The span is sent at its end."""
        with receivers.receiver() as found, exporting(target(found.url)) as exporter:
            send(exporter, *EPISODE[:1])
            found.awaited(1)

            assert names_by_path(found.requests) == {"/v1/logs": ["gpustall.chain.opened"]}

    def test_chain_that_is_open_at_the_stop_is_a_span(self) -> None:
        """So that the trace id of its log records and exemplars exists."""
        with receivers.receiver() as found:
            with exporting(target(found.url)) as exporter:
                send(exporter, *EPISODE[:2])
            span = only(
                one
                for request in found.requests
                if request.path == "/v1/traces"
                for one in read_spans_json(request.content)
            )

        assert (span.trace_id, span.attributes["gpustall.chain.end"]) == (CHAIN_ID, "exporter_stopped")
        assert [event.name for event in span.events] == LOGS_OF_EPISODE[:2]


class TestReceivers:
    """Several receivers and their settings."""

    def test_every_receiver_gets_all(self) -> None:
        """Also if another one fails."""
        with receivers.receiver([answer(404)]) as without, receivers.receiver() as found:
            with exporting(target(without.url), target(found.url)) as exporter:
                send(exporter, *EPISODE)

            assert names_by_path(found.requests) == {"/v1/logs": LOGS_OF_EPISODE, "/v1/traces": ["cpu_contention"]}
            assert sorted(request.path for request in without.requests) == ["/v1/logs", "/v1/traces"]

    @pytest.mark.parametrize(("setting", "path"), [("logs", "/v1/traces"), ("traces", "/v1/logs")])
    def test_signal_that_is_switched_off_is_not_sent(self, setting: str, path: str) -> None:
        """--otlp.logs=false, --otlp.traces=false."""
        with receivers.receiver() as found:
            with exporting(target(found.url, **{setting: "false"})) as exporter:
                send(exporter, *EPISODE)

            assert names_by_path(found.requests).keys() == {path}

    def test_no_receiver(self) -> None:
        with exporting() as exporter:
            send(exporter, *EPISODE)


class TestProbe:
    """A request without records, which checks a receiver."""

    @pytest.mark.parametrize("protocol", ["http/json", "http/protobuf"])
    def test_receiver_accepts_it(self, protocol: str) -> None:
        """In the configured format, at both paths."""
        with receivers.receiver() as found:
            to = target(found.url, protocol=protocol)
            results = [probe(where, signal) for signal, where in ((LOGS, to.logs), (TRACES, to.traces)) if where]
            requests = found.requests

        assert [result.is_accepted for result in results] == [True, True]
        assert [request.path for request in requests] == ["/v1/logs", "/v1/traces"]
        assert [request.content for request in requests] == (
            [b"", b""] if protocol == "http/protobuf" else [b'{"resourceLogs":[]}', b'{"resourceSpans":[]}']
        )

    def test_receiver_of_metrics_only(self) -> None:
        """One request."""
        with receivers.receiver([answer(404)]) as found:
            logs = target(found.url).logs
            assert logs is not None
            result = probe(logs, LOGS)

            assert (result.outcome, result.is_unsupported, len(found.requests)) == ("rejected", True, 1)
