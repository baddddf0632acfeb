"""otlp.retry: which requests are sent again and when, and what is logged of failures."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import pairwise

import pytest

from exporter import catalog
from exporter.model import Snapshot
from tests.support import receiver as receivers
from tests.support.pushing import (
    AGAIN_AND_AGAIN,
    ONCE,
    Source,
    delivering,
    points,
    push_threads,
    pushing,
    snapshot,
    target,
    totals,
)
from tests.support.receiver import Entry, Request, answer, drop, hang, html, partial, redirect, refused
from tests.support.traced import eventually, only

NOT_FOR_AN_HOUR = {"Retry-After": "3600"}


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
            (answer(500), "rejected"),
            (answer(501), "rejected"),
            (redirect("http://127.0.0.1:1/v1/metrics"), "redirected"),
            (html(), "not_otlp"),
            (partial(3), "partial"),
        ],
        ids=["400", "401", "404", "500", "501", "redirect", "page", "partial success"],
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

            assert (push_threads(), len(found.requests)) == ([], 1)

    def test_push_that_waits_for_it_ends_when_the_exporter_stops(self) -> None:
        """It would have waited for half a minute; nothing more is sent."""
        with pushing([answer(503, headers={"Retry-After": "30"})]) as (found, push):
            found.awaited(1)
            push.stop()

            assert (push_threads(), len(found.requests)) == ([], 1)


class TestLog:
    """One line when a failure begins, one when it ends."""

    def test_failure_is_logged_once_until_a_delivery(self, caplog: pytest.LogCaptureFixture) -> None:
        """Two rejected pushes, one delivered, two rejected, one delivered."""
        caplog.set_level(logging.INFO)
        no = answer(400, b"no", content_type="text/plain")
        with pushing([no, no, answer(), no, no, answer()], interval=AGAIN_AND_AGAIN) as (found, push):
            push.awaited("delivered", 2)
            push.stop()
        shown = f"OTLP receiver default ({found.url}/v1/metrics)"
        failure = (
            "WARNING",
            f"{shown}: rejected: status 400: no; counted in gpustall_exporter_pushes_total, logged once until a push"
            " is delivered",
        )
        recovery = ("INFO", f"{shown}: delivery of pushes has resumed")

        assert _lines(caplog) == [failure, recovery, failure, recovery]

    def test_success_is_not_logged(self, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.DEBUG)
        with pushing() as (_, push):
            push.awaited("delivered")
            push.stop()

        assert _lines(caplog) == []

    def test_warning_of_a_receiver_is_logged_once(self, caplog: pytest.LogCaptureFixture) -> None:
        """A partial success without rejected points carries a warning."""
        with pushing([partial(0, "old format")] * 3, interval=AGAIN_AND_AGAIN) as (_, push):
            push.awaited("delivered", 3)
            push.stop()

        assert [message.partition(": ")[2] for _, message in _lines(caplog)] == ["delivered with a warning: old format"]

    def test_each_outcome_is_logged_once(self, caplog: pytest.LogCaptureFixture) -> None:
        """Also when it returns."""
        with pushing([answer(400), html(), answer(400)], interval=AGAIN_AND_AGAIN) as (_, push):
            push.awaited("rejected", 2)
            push.stop()
        kinds = [message.split(": ")[1] for _, message in _lines(caplog)]

        assert kinds == ["rejected", "not otlp"]

    def test_query_is_not_shown(self, caplog: pytest.LogCaptureFixture) -> None:
        """It may hold a key."""
        with receivers.receiver([answer(400)]) as found:
            with delivering(target(f"{found.url}?api-key=secret", interval=ONCE)) as push:
                push.awaited("rejected")
                push.stop()

            assert found.requests[0].path == "/v1/metrics?api-key=secret"
            assert len(caplog.records) == 1
            assert "secret" not in caplog.text


def _lines(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    """(level, message) of all records."""
    return [(record.levelname, record.getMessage()) for record in caplog.records]


class TestDefect:
    """A snapshot() that raises."""

    def test_push_is_counted_as_failed_and_the_next_one_works(self) -> None:
        """The thread goes on."""
        with pushing([], _failing_at_first(), AGAIN_AND_AGAIN) as (found, push):
            request = found.awaited(1)[0]

            assert push.pushes()["failed"] == 1
            assert totals([request]) == [[2]]

    def test_traceback_is_logged(self, caplog: pytest.LogCaptureFixture) -> None:
        with pushing([], _failing_at_first()) as (found, push):
            push.awaited("failed")
            push.stop()
        first = caplog.records[0]

        assert (
            first.getMessage() == f"OTLP receiver default ({found.url}/v1/metrics): push failed: internal error (bug)"
        )
        assert first.exc_info is not None
        assert str(first.exc_info[1]) == "the tables cannot be read"


def _failing_at_first() -> Callable[[], Snapshot]:
    source = Source(1, 2)

    def take() -> Snapshot:
        taken = source()
        if source.taken == 1:
            raise RuntimeError("the tables cannot be read")
        return taken

    return take
