"""delivery: what is known of a receiver before anything is pushed to it."""

from __future__ import annotations

import json

import pytest

from exporter.errors import BadInput
from exporter.output.otlp.metric_exporter import MetricExporter, probe
from exporter.output.own_metrics import OwnMetrics
from tests.support import receiver as receivers
from tests.support.pushing import (
    ORIGIN,
    Source,
    target,
)
from tests.support.receiver import Entry, answer, hang, html, refused
from tests.support.traced import only


class TestProbe:
    """A request without a point, to see what the receiver says."""

    @pytest.mark.parametrize("protocol", ["http/json", "http/protobuf"])
    def test_receiver_takes_it(self, protocol: str) -> None:
        """In the format that will be pushed."""
        with receivers.receiver() as found:
            result = probe(target(found.url, protocol=protocol))
            request = only(found.requests)

        assert result.is_taken
        assert (request.path, request.is_protobuf) == ("/v1/metrics", protocol == "http/protobuf")
        assert request.content == b"" if request.is_protobuf else json.loads(request.content) == {"resourceMetrics": []}

    @pytest.mark.parametrize(
        ("entry", "outcome"),
        [(answer(401), "rejected"), (html(), "not_otlp"), (answer(503), "unavailable")],
        ids=["401", "page", "503"],
    )
    def test_receiver_says_no(self, entry: Entry, outcome: str) -> None:
        """It is asked once."""
        with receivers.receiver([entry]) as found:
            result = probe(target(found.url))

            assert (result.outcome, result.is_taken) == (outcome, False)
            assert len(found.requests) == 1

    def test_nobody_is_there(self) -> None:
        """The reason is told."""
        with refused() as url:
            result = probe(target(url))

        assert (result.outcome, result.detail) == ("no_answer", "connection refused")

    def test_receiver_that_hangs_has_the_time_of_a_request(self) -> None:
        """--otlp.timeout."""
        with receivers.receiver([hang()]) as found:
            assert probe(target(found.url, timeout="100ms")).outcome == "timed_out"


class TestBadInput:
    """Found before anything is pushed."""

    def test_proxy_that_is_none(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A daemon does not begin with it."""
        monkeypatch.setenv("http_proxy", "socks5://127.0.0.1:1080")
        with pytest.raises(BadInput, match=r"^HTTP_PROXY does not name a proxy that can be used$"):
            MetricExporter(target("http://collector.invalid:4318"), Source(1), OwnMetrics(), ORIGIN)
