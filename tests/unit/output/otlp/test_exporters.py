"""otlp.exporters: what each receiver of a configuration is sent."""

from __future__ import annotations

from exporter.output.otlp.exporters import OtlpExporters
from exporter.own_metrics.store import OwnMetrics
from tests.support.history import an_event
from tests.support.pushing import ORIGIN, Source, target
from tests.support.receiver import receiver

RUN_ID = "00c0ffee00c0ffee"


def paths_sent(*, with_chains: bool) -> set[str]:
    """Paths of the requests after one chain event and a shutdown."""
    with receiver() as found:
        exporters = OtlpExporters(
            [target(found.url)], Source(1), OwnMetrics(), ORIGIN, run_id=RUN_ID, with_chains=with_chains
        )
        exporters.start()
        exporters.on_chain_event(an_event())
        exporters.shutdown()
        return {request.path for request in found.requests}


class TestOtlpExporters:
    def test_chain_event_is_sent_as_log_record_and_span_besides_the_metrics(self) -> None:
        """By the time shutdown() returns."""
        assert paths_sent(with_chains=True) == {"/v1/metrics", "/v1/logs", "/v1/traces"}

    def test_only_metrics_are_sent_where_chains_are_not_detected(self) -> None:
        assert paths_sent(with_chains=False) == {"/v1/metrics"}

    def test_every_receiver_gets_the_last_push(self) -> None:
        with receiver() as one, receiver() as other:
            targets = [target(one.url), target(other.url)]
            exporters = OtlpExporters(targets, Source(1), OwnMetrics(), ORIGIN, run_id=RUN_ID, with_chains=False)
            exporters.start()
            exporters.shutdown()

            assert [bool(one.requests), bool(other.requests)] == [True, True]
