"""otlp.metric_exporter: counters and log lines of pushes."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

import pytest

from exporter import catalog
from exporter.model import Snapshot
from exporter.output.otlp.metric_exporter import MetricExporter
from exporter.own_metrics.store import OwnMetrics
from tests.support import receiver as receivers
from tests.support.pushing import (
    AGAIN_AND_AGAIN,
    FIRST_OWN_POINTS,
    ONCE,
    ORIGIN,
    Source,
    delivering,
    own_value,
    pushing,
    snapshot,
    target,
    totals,
)
from tests.support.receiver import answer, html, partial
from tests.support.traced import eventually, only


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
            first.getMessage() == f"OTLP receiver default ({found.url}/v1/metrics): push failed: defect in the exporter"
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
