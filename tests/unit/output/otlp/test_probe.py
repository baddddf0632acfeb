"""otlp.metric_exporter: checks of a receiver before anything is pushed."""

from __future__ import annotations

import json

import pytest

from exporter.errors import BadInput
from exporter.output.otlp.metric_exporter import MetricExporter, probe
from exporter.own_metrics.store import OwnMetrics
from tests.support import receiver as receivers
from tests.support.pushing import (
    ORIGIN,
    Source,
    target,
)
from tests.support.receiver import Entry, answer, hang, html, refused
from tests.support.traced import only


class TestProbe:
    """A request without points, which checks a receiver."""

    @pytest.mark.parametrize("protocol", ["http/json", "http/protobuf"])
    def test_receiver_accepts_it(self, protocol: str) -> None:
        """In the configured format."""
        with receivers.receiver() as found:
            result = probe(target(found.url, protocol=protocol))
            request = only(found.requests)

        assert result.is_accepted
        assert (request.path, request.is_protobuf) == ("/v1/metrics", protocol == "http/protobuf")
        assert request.content == b"" if request.is_protobuf else json.loads(request.content) == {"resourceMetrics": []}

    @pytest.mark.parametrize(
        ("entry", "outcome"),
        [(answer(401), "rejected"), (html(), "not_otlp"), (answer(503), "unavailable")],
        ids=["401", "page", "503"],
    )
    def test_receiver_refuses_it(self, entry: Entry, outcome: str) -> None:
        """One request, no retry."""
        with receivers.receiver([entry]) as found:
            result = probe(target(found.url))

            assert (result.outcome, result.is_accepted) == (outcome, False)
            assert len(found.requests) == 1

    def test_refused_connection(self) -> None:
        with refused() as url:
            result = probe(target(url))

        assert (result.outcome, result.detail) == ("no_answer", "connection refused")

    def test_receiver_that_hangs_times_out(self) -> None:
        """After --otlp.timeout."""
        with receivers.receiver([hang()]) as found:
            assert probe(target(found.url, timeout="100ms")).outcome == "timed_out"


class TestBadInput:
    """Settings that cannot work."""

    def test_unusable_proxy(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The exporter does not start."""
        monkeypatch.setenv("http_proxy", "socks5://127.0.0.1:1080")
        with pytest.raises(BadInput, match=r"^HTTP_PROXY does not name a proxy that can be used$"):
            MetricExporter(target("http://collector.invalid:4318"), Source(1), OwnMetrics(), ORIGIN)
