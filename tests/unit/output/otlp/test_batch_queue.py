"""courier: what becomes of records, whatever a receiver does."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import pytest

from exporter import catalog
from exporter.config.otlp import Target
from exporter.config.otlp_parsers import LOGS
from exporter.output.otlp import json_records, protobuf_records
from exporter.output.otlp.batch_queue import ABSENT_SECONDS, MAX_WAITING, RECORDS_PER_REQUEST, BatchQueue
from exporter.output.otlp.chain_records import LogRecord, log_record
from exporter.output.otlp.response import PushOutcome
from exporter.output.own_metrics import OwnMetrics
from tests.support import receiver as receivers
from tests.support.otlp_records import read_logs_json, read_logs_protobuf
from tests.support.pushing import ORIGIN, own_value, target
from tests.support.receiver import Entry, Receiver, Request, answer, drop, hang, html, redirect, refused
from tests.support.receiver import partial as partially
from tests.support.reports import a_report
from tests.support.traced import eventually

FLUSH_SECONDS = 2.0
MARGIN_SECONDS = 3.0  # for a machine that has much to do
SHORT, LONG = 0.2, 60.0
"""Seconds after which what was not brought is tried again."""


@dataclass(frozen=True)
class Bringing:
    """A courier that runs."""

    courier: BatchQueue[LogRecord]
    own: OwnMetrics

    def bring(self, *numbers: int) -> None:
        """Records that can be told apart."""
        for number in numbers:
            self.courier.bring(record(number))

    def fates(self) -> dict[str, float]:
        """Fate -> records, of those that are not zero."""
        counts = {
            fate: own_value(self.own, catalog.own.RECORDS, LOGS, fate) for fate in ("delivered", "rejected", "dropped")
        }
        return {fate: count for fate, count in counts.items() if count}

    def pushes(self) -> dict[str, float]:
        """Outcome -> pushes, of those that are not zero."""
        counts = {
            outcome.value: own_value(self.own, catalog.own.RECORD_PUSHES, LOGS, outcome) for outcome in PushOutcome
        }
        return {outcome: count for outcome, count in counts.items() if count}

    def awaited(self, fate: str, count: int = 1) -> None:
        """Wait until so many records have come to this, and their push is counted."""
        eventually(lambda: self.fates().get(fate, 0) >= count and self.pushes(), f"{count} records are {fate}")

    def stop(self) -> None:
        """To the end."""
        self.courier.stop()
        self.courier.join()


def record(number: int) -> LogRecord:
    """Of a chain of its own."""
    return log_record(a_report(chain_id=f"{number:032x}"))


def numbers_of(request: Request) -> list[int]:
    """Of the records of a request, which keeps every rule."""
    read = read_logs_protobuf if request.is_protobuf else read_logs_json
    return [int(one.trace_id, 16) for one in read(request.content)]


def sent(requests: Sequence[Request]) -> list[list[int]]:
    """The numbers in each."""
    return [numbers_of(request) for request in requests]


def to(url: str, **settings: object) -> Target:
    """The logs of a receiver."""
    found = target(url, **settings).logs
    assert found is not None
    return found


def made(where: Target, retry_seconds: float = LONG, absent_seconds: float = ABSENT_SECONDS) -> Bringing:
    """A courier that does not run yet."""
    wire = protobuf_records if where.protocol == "http/protobuf" else json_records
    own = OwnMetrics()
    encode = partial(wire.encode_logs, origin=ORIGIN)
    courier = BatchQueue(where, LOGS, encode, wire, own, retry_seconds=retry_seconds, absent_seconds=absent_seconds)
    return Bringing(courier, own)


@contextmanager
def bringing(
    script: Sequence[Entry] = (),
    retry_seconds: float = LONG,
    absent_seconds: float = ABSENT_SECONDS,
    **settings: object,
) -> Iterator[tuple[Receiver, Bringing]]:
    """A courier to a receiver with a script; told to stop when the block is left."""
    with receivers.receiver(script) as found:
        bring = made(to(found.url, **settings), retry_seconds, absent_seconds)
        bring.courier.start()
        try:
            yield found, bring
        finally:
            bring.courier.stop()


class TestDelivered:
    """A receiver that takes everything."""

    @pytest.mark.parametrize("protocol", ["http/json", "http/protobuf"])
    def test_record_comes_without_waiting_for_an_interval(self, protocol: str) -> None:
        """Which is a minute here: somebody is to be told."""
        with bringing(protocol=protocol) as (found, bring):
            bring.bring(7)
            (request,) = found.awaited(1)
            bring.awaited("delivered")

        assert (request.path, request.headers["Content-Encoding"]) == ("/v1/logs", "gzip")
        assert request.is_protobuf == (protocol == "http/protobuf")
        assert numbers_of(request) == [7]
        assert (bring.fates(), bring.pushes()) == ({"delivered": 1}, {"delivered": 1})

    def test_what_comes_together_goes_together(self) -> None:
        """The ranks of a job become slow at one time; in their order."""
        with bringing() as (found, bring):
            bring.bring(1, 2, 3)
            bring.awaited("delivered", 3)

            assert sent(found.requests) == [[1, 2, 3]]

    def test_many_come_in_several_requests(self) -> None:
        """No receiver takes a body of any size; none is lost, and the order stays."""
        count = 2 * RECORDS_PER_REQUEST + 1
        with bringing() as (found, bring):
            bring.bring(*range(1, count + 1))
            bring.awaited("delivered", count)
            requests = sent(found.requests)

        assert max(map(len, requests)) == RECORDS_PER_REQUEST
        assert [number for request in requests for number in request] == list(range(1, count + 1))

    def test_later_records_come_later(self) -> None:
        """At once again."""
        with bringing() as (found, bring):
            bring.bring(1)
            bring.awaited("delivered")
            bring.bring(2)
            bring.awaited("delivered", 2)

            assert sent(found.requests) == [[1], [2]]

    def test_requests_and_bytes_are_counted_with_those_of_the_metrics(self) -> None:
        """They are of the receiver."""
        with bringing() as (found, bring):
            bring.bring(1)
            bring.awaited("delivered")

            assert own_value(bring.own, catalog.own.PUSH_ATTEMPTS) == 1
            assert own_value(bring.own, catalog.own.PUSHED_BYTES) == len(found.requests[0].body)

    def test_every_count_is_there_from_the_start(self) -> None:
        """At 0: a rate over the first failure needs the 0 before it."""
        own = made(to("http://127.0.0.1:4318")).own

        assert [own_value(own, catalog.own.RECORD_PUSHES, LOGS, outcome) for outcome in PushOutcome] == [0] * len(
            PushOutcome
        )
        assert [own_value(own, catalog.own.RECORDS, LOGS, fate) for fate in ("delivered", "rejected", "dropped")] == [
            0
        ] * 3


class TestRetry:
    """A receiver that is not there for a while."""

    @pytest.mark.parametrize("first", [answer(503), answer(429), drop()], ids=["503", "429", "drop"])
    def test_second_attempt_brings_it(self, first: Entry) -> None:
        """The same once more, in the same push."""
        with bringing([first, answer()]) as (found, bring):
            bring.bring(1)
            bring.awaited("delivered")

            assert sent(found.requests) == [[1], [1]]
            assert (bring.fates(), bring.pushes()) == ({"delivered": 1}, {"delivered": 1})

    def test_what_was_not_brought_is_tried_again_with_what_came_meanwhile(self) -> None:
        """After the time between two pushes; the oldest first."""
        with bringing([answer(503), answer()], SHORT) as (found, bring):
            bring.bring(1)
            found.awaited(1)
            bring.bring(2)
            bring.awaited("delivered", 2)

            assert sent(found.requests) == [[1], [1, 2]]
            assert bring.pushes() == {"unavailable": 1, "delivered": 1}

    def test_retry_after_is_kept(self) -> None:
        """Also by what comes meanwhile."""
        with bringing([answer(503, headers={"Retry-After": "1"}), answer()], SHORT) as (found, bring):
            bring.bring(1)
            found.awaited(1)
            bring.bring(2)
            first, second = found.awaited(2)

        assert second.arrived_seconds - first.arrived_seconds > 1.0

    def test_of_too_many_the_oldest_are_dropped(self) -> None:
        """And counted; a receiver that is away for days costs no more memory."""
        with refused() as url:
            bring = made(to(url))
            bring.bring(*range(1, MAX_WAITING + 4))

            assert bring.fates() == {"dropped": 3}

    def test_newest_survive(self) -> None:
        """They are what matters when it is there again."""
        with receivers.receiver() as found:
            bring = made(to(found.url))
            bring.bring(*range(1, MAX_WAITING + 4))
            bring.courier.start()
            bring.awaited("delivered", MAX_WAITING)
            bring.stop()
            numbers = [number for request in sent(found.requests) for number in request]

        assert numbers == list(range(4, MAX_WAITING + 4))

    def test_what_is_put_back_gives_way_to_what_is_newer(self) -> None:
        """A request was on its way when more came than there is room for."""
        with bringing([hang()], SHORT, timeout="1s") as (found, bring):
            bring.bring(1)
            found.awaited(1)
            bring.bring(*range(2, MAX_WAITING + 2))
            eventually(bring.fates, "something is dropped")

            assert bring.fates() == {"dropped": 1}

    def test_receiver_that_hangs_keeps_nobody_waiting(self) -> None:
        """Taking a record over is an append."""
        with bringing([hang()], timeout="30s") as (found, bring):
            bring.bring(1)
            found.awaited(1)
            began = time.monotonic()
            bring.bring(*range(2, 502))
            seconds = time.monotonic() - began

        assert seconds < MARGIN_SECONDS
        assert bring.fates() == {}


class TestRejected:
    """A receiver that says no."""

    @pytest.mark.parametrize(
        ("entry", "outcome"),
        [
            (answer(400), "rejected"),
            (answer(413), "rejected"),
            (answer(500), "rejected"),
            (html(), "not_otlp"),
            (redirect("http://127.0.0.1:1/v1/logs"), "redirected"),
        ],
        ids=["400", "413", "500", "page", "redirect"],
    )
    def test_record_is_not_sent_again(self, entry: Entry, outcome: str) -> None:
        """So the specification has it: the next one would wait behind it for ever."""
        with bringing([entry, answer()], SHORT) as (found, bring):
            bring.bring(1)
            bring.awaited("rejected")
            bring.bring(2)
            bring.awaited("delivered")

            assert sent(found.requests) == [[1], [2]]
            assert bring.pushes() == {outcome: 1, "delivered": 1}

    @pytest.mark.parametrize("protocol", ["http/json", "http/protobuf"])
    def test_records_that_were_rejected_from_a_request_are_counted(self, protocol: str) -> None:
        """By the receiver's own account."""
        script = [partially(2, "too old", "rejectedLogRecords"), answer()]
        with bringing(script, SHORT, protocol=protocol) as (found, bring):
            bring.bring(1, 2, 3)
            bring.awaited("delivered")

            assert bring.fates() == {"delivered": 1, "rejected": 2}
            assert (bring.pushes(), len(found.requests)) == ({"partial": 1}, 1)


class TestAbsent:
    """A receiver that takes metrics only."""

    @pytest.mark.parametrize("status", [404, 405, 501])
    def test_it_is_asked_once_and_told_once(self, caplog: pytest.LogCaptureFixture, status: int) -> None:
        """Nothing more is sent, and the line says what to do."""
        caplog.set_level(logging.INFO)
        no = answer(status, b"no such page", content_type="text/plain")
        with bringing([no], SHORT) as (found, bring):
            bring.bring(1)
            bring.awaited("rejected")
            bring.bring(2, 3)
            bring.stop()

            assert sent(found.requests) == [[1]]
            assert bring.fates() == {"rejected": 3}
        assert [(one.levelname, one.getMessage()) for one in caplog.records] == [
            (
                "WARNING",
                f"OTLP receiver default ({found.url}/v1/logs): rejected: status {status}: no such page: it takes no logs, and is"
                " asked again in an hour; --otlp.logs=false if it never will; counted in"
                " gpustall_exporter_record_pushes_total, logged once until a push is delivered",
            )
        ]

    def test_what_waits_is_given_up_with_it(self) -> None:
        """A thousand records would be a thousand refusals."""
        with bringing([answer(404)]) as (found, bring):
            bring.bring(*range(1, RECORDS_PER_REQUEST + 11))
            bring.awaited("rejected", RECORDS_PER_REQUEST + 10)

            assert len(found.requests) == 1

    def test_after_an_hour_it_is_asked_again(self, caplog: pytest.LogCaptureFixture) -> None:
        """Somebody may have given it a place for them, or it was a proxy that had lost its way. The hour is none here."""
        caplog.set_level(logging.INFO)
        with bringing([answer(404), answer(404), answer()], absent_seconds=0.0) as (found, bring):
            for number, fate in ((1, "rejected"), (2, "rejected"), (3, "delivered")):
                bring.bring(number)
                bring.awaited(fate, number if fate == "rejected" else 1)

            assert sent(found.requests) == [[1], [2], [3]]
        assert [one.levelname for one in caplog.records] == ["WARNING", "INFO"]
        assert (
            caplog.records[1].getMessage() == f"OTLP receiver default ({found.url}/v1/logs): logs are delivered again"
        )


class TestStop:
    """The end."""

    def test_what_waits_is_brought(self) -> None:
        """Within the two seconds that the metrics have as well."""
        with bringing() as (found, bring):
            bring.bring(1)
            bring.stop()

            assert sent(found.requests) == [[1]]
            assert bring.fates() == {"delivered": 1}

    def test_retry_that_waits_is_cut_short(self) -> None:
        """Once more, at once."""
        with bringing([answer(503), answer()]) as (found, bring):
            bring.bring(1)
            found.awaited(1)
            bring.stop()

            assert sent(found.requests) == [[1], [1]]
            assert bring.fates() == {"delivered": 1}

    def test_receiver_that_hangs_is_left_to_itself(self, caplog: pytest.LogCaptureFixture) -> None:
        """And what is lost by that is told."""
        with bringing([hang()], timeout="30s") as (found, bring):
            bring.bring(1)
            found.awaited(1)
            bring.bring(2)
            began = time.monotonic()
            bring.stop()
            seconds = time.monotonic() - began

        assert seconds < FLUSH_SECONDS + MARGIN_SECONDS
        assert caplog.records[0].getMessage() == (
            f"OTLP receiver default ({found.url}/v1/logs): logs that were not delivered before the end: 2"
        )

    def test_nothing_comes_of_nothing(self) -> None:
        """No chain, no request; and no thread is left."""
        with bringing() as (found, bring):
            bring.stop()

            assert found.requests == []
            assert [thread for thread in threading.enumerate() if thread.name == "push default logs"] == []


class TestDefect:
    """A record that cannot be written."""

    def test_it_is_dropped_and_the_next_one_is_brought(self, caplog: pytest.LogCaptureFixture) -> None:
        """It would fail again; the traceback is for whoever is to mend it."""
        with bringing() as (_, bring):
            bring.courier.bring(record(1)._replace(attributes={"a": float("nan")}))
            bring.awaited("dropped")
            bring.bring(2)
            bring.awaited("delivered")

            assert (bring.fates(), bring.pushes()) == ({"dropped": 1, "delivered": 1}, {"failed": 1, "delivered": 1})
        assert caplog.records[0].exc_info is not None
