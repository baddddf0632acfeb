"""announcer: what every receiver is told of a chain, by real sockets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest

from exporter.chains.chain import Change
from exporter.chains.event import ChainEvent
from exporter.config.otlp import Receiver
from exporter.config.otlp_parsers import LOGS, TRACES
from exporter.output.otlp.chain_exporter import ChainExporter, probe
from exporter.output.own_metrics import OwnMetrics
from tests.support import receiver as receivers
from tests.support.otlp_records import read_logs_json, read_logs_protobuf, read_spans_json, read_spans_protobuf
from tests.support.pushing import ORIGIN, target
from tests.support.receiver import Request, answer
from tests.support.reports import CHAIN_ID, a_report
from tests.support.traced import only

EPISODE = (a_report(), a_report(Change.ESCALATED, 4.0), a_report(Change.RESOLVED, 15.0))


@contextmanager
def announcing(*to: Receiver) -> Iterator[ChainExporter]:
    """Told to stop when the block is left."""
    announcer = ChainExporter(to, OwnMetrics(), ORIGIN)
    announcer.start()
    try:
        yield announcer
    finally:
        announcer.stop()
        announcer.join()


def told(requests: Sequence[Request]) -> dict[str, list[str]]:
    """Path -> names of the events, or of the spans, in their order."""
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


def hear(announcer: ChainExporter, *reports: ChainEvent) -> None:
    """One after the other."""
    for report in reports:
        announcer.on_chain_event(report)


class TestEpisode:
    """From its opening to its end."""

    @pytest.mark.parametrize("protocol", ["http/json", "http/protobuf"])
    def test_each_report_is_a_log_record_and_the_whole_is_a_span(self, protocol: str) -> None:
        """Each to its own path."""
        with receivers.receiver() as found:
            with announcing(target(found.url, protocol=protocol)) as announcer:
                hear(announcer, *EPISODE)

            assert told(found.requests) == {"/v1/logs": LOGS_OF_EPISODE, "/v1/traces": ["cpu_contention"]}

    def test_opening_is_told_while_the_episode_goes_on(self) -> None:
        """Its span comes with its end."""
        with receivers.receiver() as found, announcing(target(found.url)) as announcer:
            hear(announcer, *EPISODE[:1])
            found.awaited(1)

            assert told(found.requests) == {"/v1/logs": ["gpustall.chain.opened"]}

    def test_episode_that_goes_on_at_the_end_is_a_span(self) -> None:
        """Its log records and exemplars lead to it."""
        with receivers.receiver() as found:
            with announcing(target(found.url)) as announcer:
                hear(announcer, *EPISODE[:2])
            span = only(
                one
                for request in found.requests
                if request.path == "/v1/traces"
                for one in read_spans_json(request.content)
            )

        assert (span.trace_id, span.attributes["gpustall.chain.end"]) == (CHAIN_ID, "exporter_stopped")
        assert [event.name for event in span.events] == LOGS_OF_EPISODE[:2]


class TestReceivers:
    """Each gets what it wants."""

    def test_every_receiver_is_told(self) -> None:
        """Whatever becomes of the others."""
        with receivers.receiver([answer(404)]) as without, receivers.receiver() as found:
            with announcing(target(without.url), target(found.url)) as announcer:
                hear(announcer, *EPISODE)

            assert told(found.requests) == {"/v1/logs": LOGS_OF_EPISODE, "/v1/traces": ["cpu_contention"]}
            assert sorted(request.path for request in without.requests) == ["/v1/logs", "/v1/traces"]

    @pytest.mark.parametrize(("setting", "path"), [("logs", "/v1/traces"), ("traces", "/v1/logs")])
    def test_what_is_switched_off_is_not_sent(self, setting: str, path: str) -> None:
        """--otlp.logs=false, --otlp.traces=false."""
        with receivers.receiver() as found:
            with announcing(target(found.url, **{setting: "false"})) as announcer:
                hear(announcer, *EPISODE)

            assert told(found.requests).keys() == {path}

    def test_without_a_receiver_nobody_is_told(self) -> None:
        """And nothing goes wrong."""
        with announcing() as announcer:
            hear(announcer, *EPISODE)


class TestProbe:
    """A request without a record, to see what the receiver says."""

    @pytest.mark.parametrize("protocol", ["http/json", "http/protobuf"])
    def test_receiver_takes_it(self, protocol: str) -> None:
        """In the format that will be pushed, at both paths."""
        with receivers.receiver() as found:
            to = target(found.url, protocol=protocol)
            results = [probe(where, signal) for signal, where in ((LOGS, to.logs), (TRACES, to.traces)) if where]
            requests = found.requests

        assert [result.is_taken for result in results] == [True, True]
        assert [request.path for request in requests] == ["/v1/logs", "/v1/traces"]
        assert [request.content for request in requests] == (
            [b"", b""] if protocol == "http/protobuf" else [b'{"resourceLogs":[]}', b'{"resourceSpans":[]}']
        )

    def test_receiver_of_metrics_only_has_nothing_there(self) -> None:
        """It is asked once."""
        with receivers.receiver([answer(404)]) as found:
            logs = target(found.url).logs
            assert logs is not None
            result = probe(logs, LOGS)

            assert (result.outcome, result.is_absent, len(found.requests)) == ("rejected", True, 1)
