"""otlp.metric_exporter: content and time of pushes, to receivers with scripts."""

from __future__ import annotations

import gzip
import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass, replace
from itertools import chain, pairwise

import pytest

from exporter import catalog
from exporter.output.otlp.metric_exporter import MetricExporter
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
    points,
    pushing,
    snapshot,
    target,
    totals,
    workload,
)
from tests.support.receiver import PROTOBUF, Entry, Request, answer, drop, hang, html, partial, redirect, refused
from tests.support.records import STARTED_UNIX_NS
from tests.support.traced import eventually, only

FLUSH_SECONDS = 2.0
MARGIN_SECONDS = 3.0  # for a busy machine
NOT_FOR_AN_HOUR = {"Retry-After": "3600"}


class TestInterval:
    """The time of pushes."""

    def test_pushes_are_sent_at_the_interval(self) -> None:
        """Six of them take five intervals; a busy machine may shorten the first."""
        source = Source(1)
        with pushing([], source, "200ms") as (found, _):
            found.awaited(6)

        assert source.taken_seconds[5] - source.taken_seconds[0] > 4 * 0.2

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


@dataclass(frozen=True)
class Retried:
    """One push with retries: its requests, the snapshots taken by its end, and its counters."""

    requests: list[Request]
    begun: int
    pushes: dict[str, float]
    attempts: float
    pushed_bytes: float
    duration_seconds: float

    @property
    def waits_seconds(self) -> list[float]:
        """The time between two requests."""
        return [later.arrived_seconds - one.arrived_seconds for one, later in pairwise(self.requests)]


RETRIES = {
    "429": [answer(429)],
    "502": [answer(502)],
    "503": [answer(503)],
    "504": [answer(504)],
    "drop": [drop()],
    "hang": [hang()],
    "503 twice": [answer(503), answer(503)],
    "a second": [answer(503, headers={"Retry-After": "1"})],
}
"""The responses of each receiver before it accepts a request."""


@pytest.fixture(scope="module")
def retried() -> dict[str, Retried]:
    """All pushes run at the same time, since their back-offs take seconds."""
    with pytest.MonkeyPatch.context() as environment, ExitStack() as running:
        environment.setenv("no_proxy", "*")
        sources = {name: Source(1, 2) for name in RETRIES}
        pushes = {
            name: running.enter_context(pushing([*script, answer()], sources[name], "15s", timeout=_timeout(name)))
            for name, script in RETRIES.items()
        }
        done = {}
        for name, (found, push) in pushes.items():
            eventually(lambda push=push: push.value(catalog.own.PUSH_LAST_SUCCESS), f"{name}: a push is delivered")
            counted = (catalog.own.PUSH_ATTEMPTS, catalog.own.PUSHED_BYTES, catalog.own.PUSH_DURATION)
            done[name] = Retried(found.requests, sources[name].taken, push.pushes(), *map(push.value, counted))
    return done


def _timeout(name: str) -> str:
    return "3s" if name == "hang" else "10s"


class TestRetry:
    """Retryable failures, within one push."""

    @pytest.mark.parametrize("first", ["429", "502", "503", "504", "drop", "hang"])
    def test_second_attempt_delivers(self, retried: dict[str, Retried], first: str) -> None:
        """The same request: four statuses by OpenTelemetry's specification, and connections that a restart may have broken."""
        push = retried[first]

        assert (push.begun, push.attempts, push.pushes) == (1, 2, {"delivered": 1})
        assert [request.body for request in push.requests] == [push.requests[0].body] * 2

    def test_back_off_grows(self, retried: dict[str, Retried]) -> None:
        """At least half a second, then a second."""
        first, second = retried["503 twice"].waits_seconds

        assert first > 0.5
        assert second > 1.0

    def test_wait_is_as_long_as_retry_after(self, retried: dict[str, Retried]) -> None:
        """Retry-After: 1, where the back-off is half a second."""
        assert only(retried["a second"].waits_seconds) > 1.0

    def test_bytes_of_every_attempt_are_counted(self, retried: dict[str, Retried]) -> None:
        """The size of the compressed body."""
        push = retried["503"]

        assert push.pushed_bytes == 2 * len(push.requests[0].body)

    def test_duration_includes_the_waits(self, retried: dict[str, Retried]) -> None:
        """From the snapshot to the end of the last response."""
        assert retried["503 twice"].duration_seconds > 1.5

    def test_retries_end_when_the_next_push_is_due(self) -> None:
        """It has newer totals: each request here is a push of its own."""
        with pushing([answer(503)], Source(1, 2, 3), AGAIN_AND_AGAIN) as (found, _):
            requests = found.awaited(3)[:3]

        assert totals(requests) == [[1], [2], [3]]

    def test_other_requests_of_the_push_do_not_wait_for_the_same_receiver(self) -> None:
        """The first retryable failure ends the push."""
        with pushing([answer(503, headers=NOT_FOR_AN_HOUR)], lambda: snapshot(*range(2500))) as (found, push):
            push.awaited("unavailable")

            assert [len(points(request)) for request in found.requests] == [1000]

    def test_refused_connection_is_retried(self) -> None:
        """The receiver may be restarting."""
        with refused() as url, delivering(target(url, interval=ONCE)) as push:
            eventually(lambda: push.value(catalog.own.PUSH_ATTEMPTS) >= 2, "it is tried again")
            push.stop()

            assert set(push.pushes()) == {"no_answer"}


class TestNoRetry:
    """Other failures are not retried before the next push is due."""

    @pytest.mark.parametrize(
        ("entry", "outcome"),
        [
            (answer(400), "rejected"),
            (answer(401), "rejected"),
            (answer(404), "rejected"),
            (answer(413), "rejected"),
            (answer(500), "rejected"),
            (answer(501), "rejected"),
            (redirect("http://127.0.0.1:1/v1/metrics"), "redirected"),
            (html(), "not_otlp"),
            (partial(3), "partial"),
        ],
        ids=["400", "401", "404", "413", "500", "501", "redirect", "page", "partial success"],
    )
    def test_there_is_one_request(self, entry: Entry, outcome: str) -> None:
        """A push is counted at its end, so all of its requests have been sent by then."""
        with pushing([entry]) as (found, push):
            push.awaited(outcome)

            assert len(found.requests) == 1
            assert (push.value(catalog.own.PUSH_ATTEMPTS), push.pushes()) == (1, {outcome: 1})

    def test_redirect_is_not_followed(self) -> None:
        with receivers.receiver() as elsewhere:
            with pushing([redirect(elsewhere.url)]) as (_, push):
                push.awaited("redirected")

            assert elsewhere.connections == 0

    def test_next_push_is_sent_when_it_is_due(self) -> None:
        """The receiver may have been repaired."""
        with pushing([answer(400), answer()], interval=AGAIN_AND_AGAIN) as (_, push):
            push.awaited("delivered")

            assert push.pushes()["rejected"] == 1

    def test_worst_of_several_requests_is_the_outcome(self) -> None:
        """All requests are sent: the receiver may accept another one."""
        with pushing([answer(), answer(400), partial(1), answer()], lambda: snapshot(*range(3500))) as (found, push):
            push.awaited("rejected")

            assert len(found.requests) == 4
            assert push.pushes() == {"rejected": 1}


class TestRetryAfter:
    """No request is sent before the time in Retry-After."""

    def test_it_delays_the_next_pushes(self) -> None:
        """Across many intervals; then one push has the current totals."""
        script = [answer(429, headers={"Retry-After": "1"}), answer()]
        with pushing(script, Source(1, 2), AGAIN_AND_AGAIN) as (found, _):
            first, second = found.awaited(2)[:2]

        assert second.arrived_seconds - first.arrived_seconds > 1.0
        assert totals([first, second]) == [[1], [2]]

    def test_it_prevents_the_last_push(self) -> None:
        """The exporter stops at once."""
        with pushing([answer(503, headers=NOT_FOR_AN_HOUR)]) as (found, push):
            push.awaited("unavailable")
            push.stop()

            assert (_push_threads(), len(found.requests)) == ([], 1)

    def test_push_that_waits_for_it_ends_when_the_exporter_stops(self) -> None:
        """It would have waited for half a minute; nothing more is sent."""
        with pushing([answer(503, headers={"Retry-After": "30"})]) as (found, push):
            found.awaited(1)
            push.stop()

            assert (_push_threads(), len(found.requests)) == ([], 1)


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

            assert _push_threads() == []

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
        """After two seconds for all of them, whatever their timeout, in the last push or an earlier one."""
        with (
            pushing([hang()], timeout="30s") as (already, hanging),
            pushing([answer(), hang()], timeout="30s") as (at_last, taking),
        ):
            already.awaited(1)
            taking.awaited("delivered")
            began = time.monotonic()
            for push in (hanging, taking):
                push.exporter.stop()
            for push in (hanging, taking):
                push.exporter.join()
            seconds = time.monotonic() - began
            taking.awaited("timed_out")

            assert seconds < FLUSH_SECONDS + MARGIN_SECONDS
            assert (len(already.requests), len(at_last.requests)) == (1, 2)


def _push_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "push default"]


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
