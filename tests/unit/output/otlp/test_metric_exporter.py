"""otlp.metric_exporter: content, time and counters of pushes to receivers with scripts, and the check of a receiver."""

from __future__ import annotations

import gzip
import json
import time
from dataclasses import replace
from itertools import chain

import pytest

from exporter import catalog
from exporter.errors import BadInput
from exporter.output.otlp.metric_exporter import MetricExporter, probe
from exporter.own_metrics.store import OwnMetrics
from tests.support import receiver as receivers
from tests.support.otlp import read_json, read_protobuf
from tests.support.pushing import (
    AGAIN_AND_AGAIN,
    FIRST_OWN_POINTS,
    ONCE,
    ORIGIN,
    Source,
    delivering,
    own_value,
    points,
    push_threads,
    pushing,
    snapshot,
    target,
    totals,
    workload,
)
from tests.support.receiver import PROTOBUF, Entry, answer, drop, hang, html, partial, redirect, refused
from tests.support.records import STARTED_UNIX_NS
from tests.support.traced import eventually, only


class TestInterval:
    """The time of pushes."""

    def test_pushes_are_sent_at_the_interval(self) -> None:
        """The first is due after the start, and the sixth five intervals later."""
        source, began_seconds = Source(1), time.monotonic()
        with pushing([], source, "200ms") as (found, _):
            found.awaited(6)

        assert source.taken_seconds[5] - began_seconds > 5 * 0.2

    def test_first_push_is_at_a_random_time_in_the_first_interval(self) -> None:
        """So that a fleet that was started at once does not push at once."""
        with pushing(interval="2h") as (found, _):
            assert len(found.awaited(1)) == 1

    def test_each_push_has_the_current_totals(self) -> None:
        """Cumulative, since the same start."""
        with pushing([], Source(1, 3, 6), AGAIN_AND_AGAIN) as (found, _):
            requests = found.awaited(3)[:3]

        assert totals(requests) == [[1], [3], [6]]
        assert {point.start_unix_ns for request in requests for point in workload(request)} == {STARTED_UNIX_NS}

    def test_receiver_that_hangs_does_not_delay_another(self) -> None:
        """Each has a thread of its own."""
        with pushing([hang()], timeout="30s") as (slow, _), pushing(interval=AGAIN_AND_AGAIN) as (found, _):
            slow.awaited(1)
            already = len(found.requests)
            found.awaited(already + 3)

            assert len(slow.requests) == 1


class TestRequest:
    """The content of requests."""

    def test_json_is_compressed(self) -> None:
        """By default."""
        with pushing() as (found, _):
            request = found.awaited(1)[0]

        assert (request.method, request.path) == ("POST", "/v1/metrics")
        assert request.headers["Content-Type"] == "application/json"
        assert request.headers["Content-Encoding"] == "gzip"
        assert len(read_json(gzip.decompress(request.body))) == 1 + FIRST_OWN_POINTS

    def test_protobuf_is_sent_when_wanted(self) -> None:
        """--otlp.protocol=http/protobuf."""
        with pushing(protocol="http/protobuf") as (found, _):
            request = found.awaited(1)[0]

        assert request.headers["Content-Type"] == PROTOBUF
        assert len(read_protobuf(gzip.decompress(request.body))) == 1 + FIRST_OWN_POINTS

    @pytest.mark.parametrize(("protocol", "begin"), [("http/json", b'{"resourceMetrics":['), ("http/protobuf", b"\n")])
    def test_compression_can_be_switched_off(self, protocol: str, begin: bytes) -> None:
        """--otlp.compression=none; in protobuf field 1, of wire type 2, is the byte 10."""
        with pushing(protocol=protocol, compression="none") as (found, _):
            request = found.awaited(1)[0]

        assert request.headers["Content-Encoding"] is None
        assert request.body.startswith(begin)

    def test_headers_of_the_receiver_are_sent(self) -> None:
        with receivers.receiver() as found:
            to = replace(target(found.url, interval=ONCE), headers=(("api-key", "secret"),))
            with delivering(to):
                request = found.awaited(1)[0]

        assert request.headers["api-key"] == "secret"

    def test_own_metrics_are_among_the_points(self) -> None:
        """A receiver without a scraper sees failed pushes there."""
        with pushing() as (found, push):
            push.awaited("delivered")
            push.stop()
            request = found.requests[1]
        pushes = {p.attributes["outcome"]: p.value for p in points(request) if p.name == "gpustall.exporter.pushes"}

        assert (len(pushes), pushes.pop("delivered")) == (10, 1)
        assert set(pushes.values()) == {0}

    def test_many_points_are_split_into_several_requests(self) -> None:
        """1,000 in each, since receivers limit the size of a body; they count as one push."""
        with pushing([], lambda: snapshot(*range(2500))) as (found, push):
            push.awaited("delivered")
            requests = found.requests

            assert [len(points(request)) for request in requests] == [1000, 1000, 500 + FIRST_OWN_POINTS]
            assert sorted(chain(*totals(requests))) == list(range(2500))
            assert (push.value(catalog.own.PUSH_ATTEMPTS), push.pushes()) == (3, {"delivered": 1})


class TestStop:
    """The last push."""

    def test_last_push_has_the_current_totals(self) -> None:
        """Long before the next one would be due."""
        with pushing([], Source(1, 2)) as (found, push):
            push.awaited("delivered")
            push.stop()

            assert totals(found.requests) == [[1], [2]]

    def test_last_push_is_sent_though_the_first_was_not_due(self) -> None:
        """An exporter that ran for a moment has totals too."""
        with receivers.receiver() as found:
            exporter = MetricExporter(target(found.url, interval="2h"), Source(7), OwnMetrics(), ORIGIN)
            exporter.start()
            exporter.stop()
            exporter.join()

            assert totals(found.requests)[-1:] == [[7]]

    def test_thread_has_ended_after_the_last_push(self) -> None:
        """When join() returns."""
        with pushing() as (_, push):
            push.stop()

            assert push_threads() == []

    def test_last_push_replaces_a_waiting_retry(self) -> None:
        """At once, with newer totals."""
        with pushing([answer(503), answer()], Source(1, 2)) as (found, push):
            found.awaited(1)
            push.stop()

            assert totals(found.requests) == [[1], [2]]

    def test_last_push_is_not_retried(self) -> None:
        """A receiver that is down does not delay the exit."""
        with pushing([answer(), answer(503)]) as (found, push):
            push.awaited("delivered")
            push.stop()

            assert len(found.requests) == 2
            assert push.pushes() == {"delivered": 1, "unavailable": 1}

    def test_receivers_that_hang_are_abandoned(self) -> None:
        """Whatever their timeout, in the last push or an earlier one."""
        with (
            pushing([hang()], timeout="1h") as (already, hanging),
            pushing([answer(), hang()], timeout="1h") as (at_last, taking),
        ):
            already.awaited(1)
            taking.awaited("delivered")
            for push in (hanging, taking):
                push.exporter.stop()
            for push in (hanging, taking):
                push.exporter.join()
            taking.awaited("timed_out")

            assert (len(already.requests), len(at_last.requests)) == (1, 2)


class TestDelta:
    """--otlp.temporality=delta."""

    def test_each_push_has_the_increase_since_the_last(self) -> None:
        """5, then 7 more, then nothing: a series without an increase is left out."""
        with pushing([], Source(5, 12), AGAIN_AND_AGAIN, temporality="delta") as (found, _):
            requests = found.awaited(3)[:3]

        assert totals(requests) == [[5], [7], []]

    def test_each_delta_starts_at_the_end_of_the_last(self) -> None:
        """The first one starts with the workload."""
        with pushing([], Source(5, 12), temporality="delta") as (found, push):
            push.awaited("delivered")
            push.stop()
            first, second = (only(workload(request)) for request in found.requests)

        assert (first.temporality, second.temporality) == ("delta", "delta")
        assert first.start_unix_ns == STARTED_UNIX_NS
        assert second.start_unix_ns == first.time_unix_ns

    @pytest.mark.parametrize(
        "entry",
        [answer(400), answer(503), drop(), html(), redirect("http://127.0.0.1:1")],
        ids=["400", "503", "drop", "page", "redirect"],
    )
    def test_undelivered_delta_is_in_the_next_push(self, entry: Entry) -> None:
        """5, then 12 since the same start."""
        with pushing([entry, answer()], Source(5, 12), temporality="delta") as (found, push):
            found.awaited(1)
            push.stop()
            requests = found.requests

        assert totals(requests) == [[5], [12]]
        assert only(workload(requests[1])).start_unix_ns == STARTED_UNIX_NS

    def test_partial_success_is_not_sent_again(self) -> None:
        """The response does not name the accepted points."""
        with pushing([partial(1), answer()], Source(5, 12), temporality="delta") as (found, push):
            push.awaited("partial")
            push.stop()

            assert totals(found.requests) == [[5], [7]]

    def test_retry_repeats_the_request(self) -> None:
        """Later increases are in the next one."""
        with pushing([answer(503), answer()], Source(5, 12), temporality="delta") as (found, push):
            push.awaited("delivered")
            push.stop()

            assert totals(found.requests) == [[5], [5], [7]]

    def test_delivered_request_is_not_sent_again_with_an_undelivered_one(self) -> None:
        """The first 1,000 of 1,500 series are delivered, and the other 500 are sent again."""
        script = [answer(), answer(400), answer()]
        with pushing(script, lambda: snapshot(*range(1, 1501)), temporality="delta") as (found, push):
            push.awaited("rejected")
            push.stop()
            first, second, third = totals(found.requests)

        assert (len(first), len(second)) == (1000, 500)
        assert third == second


class TestCounters:
    """Metrics about pushes."""

    def test_every_counter_starts_at_zero(self) -> None:
        """A rate over the first failure needs the 0 before it."""
        own = OwnMetrics()
        MetricExporter(target("http://127.0.0.1:4318"), Source(1), own, ORIGIN)
        counters = (
            catalog.own.PUSH_ATTEMPTS,
            catalog.own.PUSHED_POINTS,
            catalog.own.REJECTED_POINTS,
            catalog.own.FORGOTTEN_POINTS,
            catalog.own.PUSHED_BYTES,
            catalog.own.PUSH_LAST_SUCCESS,
        )

        assert [own_value(own, counter) for counter in counters] == [0] * 6

    @pytest.mark.parametrize(
        "outcome",
        [
            "delivered",
            "partial",
            "rejected",
            "redirected",
            "not_otlp",
            "unavailable",
            "not_trusted",
            "timed_out",
            "no_answer",
            "failed",
        ],
    )
    def test_every_outcome_starts_at_zero(self, outcome: str) -> None:
        own = OwnMetrics()
        MetricExporter(target("http://127.0.0.1:4318"), Source(1), own, ORIGIN)

        assert own_value(own, catalog.own.PUSHES, outcome) == 0

    def test_accepted_points(self) -> None:
        """100 of the workload and the exporter's own."""
        with pushing([], lambda: snapshot(*range(100))) as (_, push):
            push.awaited("delivered")

            assert push.value(catalog.own.PUSHED_POINTS) == 100 + FIRST_OWN_POINTS
            assert push.value(catalog.own.REJECTED_POINTS) == 0

    def test_rejected_points(self) -> None:
        """By the number in the response to a partly accepted request."""
        with pushing([partial(30)], lambda: snapshot(*range(100))) as (_, push):
            push.awaited("partial")

            assert push.value(catalog.own.PUSHED_POINTS) == 70 + FIRST_OWN_POINTS
            assert push.value(catalog.own.REJECTED_POINTS) == 30

    def test_undelivered_points_are_not_counted(self) -> None:
        """They are in the next push."""
        with pushing([answer(400)]) as (_, push):
            push.awaited("rejected")

            assert (push.value(catalog.own.PUSHED_POINTS), push.value(catalog.own.REJECTED_POINTS)) == (0, 0)

    def test_bytes_are_those_of_the_compressed_bodies(self) -> None:
        with pushing() as (found, push):
            push.awaited("delivered")

            assert push.value(catalog.own.PUSHED_BYTES) == len(only(found.requests).body)

    def test_last_success_is_a_time_of_day(self) -> None:
        """For an alert on receivers without a push."""
        before = time.time()
        with pushing() as (_, push):
            eventually(lambda: push.value(catalog.own.PUSH_LAST_SUCCESS), "the time is set")

            assert before <= push.value(catalog.own.PUSH_LAST_SUCCESS) <= time.time()

    def test_partial_success_does_not_set_the_last_success(self) -> None:
        with pushing([partial(1)]) as (_, push):
            push.awaited("partial")
            push.stop()

            assert push.value(catalog.own.PUSH_LAST_SUCCESS) == 0


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
