"""otlp.batch_queue: delivered, retried, rejected and dropped records."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import pytest

from exporter import catalog
from exporter.config.otlp import Target
from exporter.config.otlp_parsers import LOGS
from exporter.output.otlp import json_records, protobuf_records
from exporter.output.otlp.batch_queue import (
    BATCH_SECONDS,
    MAX_QUEUED,
    RECORDS_PER_REQUEST,
    UNSUPPORTED_SECONDS,
    BatchQueue,
)
from exporter.output.otlp.chain_records import log_record
from exporter.output.otlp.records import LogRecord
from exporter.output.otlp.response import PushOutcome
from exporter.own_metrics.store import OwnMetrics
from tests.support import receiver as receivers
from tests.support.limited_receiver import CONTENT_TOO_LARGE, unless
from tests.support.otlp_records import read_logs_json, read_logs_protobuf
from tests.support.pushing import ORIGIN, own_value, target
from tests.support.receiver import Entry, Receiver, Request, answer, drop, hang, html, redirect, refused
from tests.support.receiver import partial as partially
from tests.support.reports import a_report
from tests.support.traced import eventually

SHORT, LONG = 0.2, 60.0
"""Seconds between pushes of records that were not delivered."""

SOON_SECONDS = 0.02  # from a record to its request, in tests where no other record has to share it


@dataclass(frozen=True)
class RunningQueue:
    """A queue and its counters."""

    queue: BatchQueue[LogRecord]
    own: OwnMetrics

    def enqueue(self, *numbers: int) -> None:
        """Enqueue one record for each number."""
        for number in numbers:
            self.queue.enqueue(record(number))

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
        """Wait until so many records have this fate and their push is counted."""
        eventually(lambda: self.fates().get(fate, 0) >= count and self.pushes(), f"{count} records are {fate}")

    def stop(self) -> None:
        """Stop, and wait for the last push."""
        self.queue.stop()
        self.queue.join()


def record(number: int) -> LogRecord:
    """A log record whose trace id is the number."""
    return log_record(a_report(chain_id=f"{number:032x}"))


def numbers_of(request: Request) -> list[int]:
    """The numbers of the records in a request, which is checked against the protocol."""
    read = read_logs_protobuf if request.is_protobuf else read_logs_json
    return [int(one.trace_id, 16) for one in read(request.content)]


def sent(requests: Sequence[Request]) -> list[list[int]]:
    """The numbers in each request."""
    return [numbers_of(request) for request in requests]


def to(url: str, **settings: object) -> Target:
    """The logs target of a receiver."""
    found = target(url, **settings).logs
    assert found is not None
    return found


def made(
    where: Target,
    retry_seconds: float = LONG,
    unsupported_seconds: float = UNSUPPORTED_SECONDS,
    batch_seconds: float = SOON_SECONDS,
) -> RunningQueue:
    """A queue that is not started."""
    codec = protobuf_records if where.protocol == "http/protobuf" else json_records
    own = OwnMetrics()
    encode = partial(codec.encode_logs, origin=ORIGIN)
    queue = BatchQueue(
        where,
        LOGS,
        encode,
        codec,
        own,
        retry_seconds=retry_seconds,
        unsupported_seconds=unsupported_seconds,
        batch_seconds=batch_seconds,
    )
    return RunningQueue(queue, own)


@contextmanager
def running(
    script: Sequence[Entry] = (),
    retry_seconds: float = LONG,
    unsupported_seconds: float = UNSUPPORTED_SECONDS,
    batch_seconds: float = SOON_SECONDS,
    **settings: object,
) -> Iterator[tuple[Receiver, RunningQueue]]:
    """A started queue and its receiver; stopped at the end of the block."""
    with receivers.receiver(script) as found:
        run = made(to(found.url, **settings), retry_seconds, unsupported_seconds, batch_seconds)
        run.queue.start()
        try:
            yield found, run
        finally:
            run.queue.stop()


class TestDelivered:
    """A receiver that accepts everything."""

    @pytest.mark.parametrize("protocol", ["http/json", "http/protobuf"])
    def test_record_is_sent_without_waiting_for_the_interval(self, protocol: str) -> None:
        """The interval is a minute here."""
        with running(protocol=protocol) as (found, run):
            run.enqueue(7)
            (request,) = found.awaited(1)
            run.awaited("delivered")

        assert (request.path, request.headers["Content-Encoding"]) == ("/v1/logs", "gzip")
        assert request.is_protobuf == (protocol == "http/protobuf")
        assert numbers_of(request) == [7]
        assert (run.fates(), run.pushes()) == ({"delivered": 1}, {"delivered": 1})

    def test_records_that_arrive_together_share_a_request(self) -> None:
        """In their order; the ranks of a job become slow together."""
        with running(batch_seconds=BATCH_SECONDS) as (found, run):
            run.enqueue(1, 2, 3)
            run.awaited("delivered", 3)

            assert sent(found.requests) == [[1, 2, 3]]

    def test_many_records_are_split_into_several_requests(self) -> None:
        """Receivers limit the size of a body. None is lost, and the order stays."""
        count = 2 * RECORDS_PER_REQUEST + 1
        with running(batch_seconds=BATCH_SECONDS) as (found, run):
            run.enqueue(*range(1, count + 1))
            run.awaited("delivered", count)
            requests = sent(found.requests)

        assert max(map(len, requests)) == RECORDS_PER_REQUEST
        assert [number for request in requests for number in request] == list(range(1, count + 1))

    def test_later_record_has_a_request_of_its_own(self) -> None:
        with running() as (found, run):
            run.enqueue(1)
            run.awaited("delivered")
            run.enqueue(2)
            run.awaited("delivered", 2)

            assert sent(found.requests) == [[1], [2]]

    def test_requests_and_bytes_are_counted_with_those_of_the_metrics(self) -> None:
        """The counters are those of the receiver."""
        with running() as (found, run):
            run.enqueue(1)
            run.awaited("delivered")

            assert own_value(run.own, catalog.own.PUSH_ATTEMPTS) == 1
            assert own_value(run.own, catalog.own.PUSHED_BYTES) == len(found.requests[0].body)

    def test_every_counter_starts_at_zero(self) -> None:
        """A rate over the first failure needs the 0 before it."""
        own = made(to("http://127.0.0.1:4318")).own

        assert [own_value(own, catalog.own.RECORD_PUSHES, LOGS, outcome) for outcome in PushOutcome] == [0] * len(
            PushOutcome
        )
        assert [own_value(own, catalog.own.RECORDS, LOGS, fate) for fate in ("delivered", "rejected", "dropped")] == [
            0
        ] * 3


class TestTooLarge:
    """A receiver that refuses large requests."""

    def test_halves_are_delivered_in_order(self) -> None:
        with running([unless(lambda request: len(numbers_of(request)) > 2)], batch_seconds=BATCH_SECONDS) as (
            found,
            run,
        ):
            run.enqueue(1, 2, 3, 4)
            run.awaited("delivered", 4)

            assert sent(found.requests) == [[1, 2, 3, 4], [1, 2], [3, 4]]
            assert (run.fates(), run.pushes()) == ({"delivered": 4}, {"delivered": 1})

    def test_single_record_that_is_too_large_is_rejected(self) -> None:
        """The others are delivered."""
        with running([unless(lambda request: 3 in numbers_of(request))], batch_seconds=BATCH_SECONDS) as (found, run):
            run.enqueue(1, 2, 3, 4)
            run.awaited("rejected")

            assert sent(found.requests) == [[1, 2, 3, 4], [1, 2], [3, 4], [3], [4]]
            assert (run.fates(), run.pushes()) == ({"delivered": 3, "rejected": 1}, {"partial": 1})

    def test_only_what_was_not_read_is_sent_again(self) -> None:
        """The first half was delivered before the receiver failed."""
        script = [CONTENT_TOO_LARGE, answer(), answer(503, headers={"Retry-After": "1"}), answer()]
        with running(script, SHORT, batch_seconds=BATCH_SECONDS) as (found, run):
            run.enqueue(1, 2, 3, 4)
            run.awaited("delivered", 4)

            assert sent(found.requests) == [[1, 2, 3, 4], [1, 2], [3, 4], [3, 4]]
            assert run.fates() == {"delivered": 4}


class TestRetry:
    """A receiver that is unavailable for a while."""

    @pytest.mark.parametrize("first", [answer(503), answer(429), drop()], ids=["503", "429", "drop"])
    def test_second_attempt_delivers(self, first: Entry) -> None:
        """The same request, in the same push."""
        with running([first, answer()]) as (found, run):
            run.enqueue(1)
            run.awaited("delivered")

            assert sent(found.requests) == [[1], [1]]
            assert (run.fates(), run.pushes()) == ({"delivered": 1}, {"delivered": 1})

    def test_undelivered_records_are_sent_again_with_newer_ones(self) -> None:
        """After the interval; the oldest first."""
        with running([answer(503), answer()], SHORT) as (found, run):
            run.enqueue(1)
            found.awaited(1)
            run.enqueue(2)
            run.awaited("delivered", 2)

            assert sent(found.requests) == [[1], [1, 2]]
            assert run.pushes() == {"unavailable": 1, "delivered": 1}

    def test_retry_after_is_respected(self) -> None:
        """Also by newer records."""
        with running([answer(503, headers={"Retry-After": "1"}), answer()], SHORT) as (found, run):
            run.enqueue(1)
            found.awaited(1)
            run.enqueue(2)
            first, second = found.awaited(2)

        assert second.arrived_seconds - first.arrived_seconds > 1.0

    def test_oldest_records_are_dropped_when_the_queue_is_full(self) -> None:
        """They are counted; a receiver that is down for days costs no more memory."""
        with refused() as url:
            run = made(to(url))
            run.enqueue(*range(1, MAX_QUEUED + 4))

            assert run.fates() == {"dropped": 3}

    def test_newest_records_are_kept(self) -> None:
        with receivers.receiver() as found:
            run = made(to(found.url))
            run.enqueue(*range(1, MAX_QUEUED + 4))
            run.queue.start()
            run.awaited("delivered", MAX_QUEUED)
            run.stop()
            numbers = [number for request in sent(found.requests) for number in request]

        assert numbers == list(range(4, MAX_QUEUED + 4))

    def test_requeued_records_are_dropped_for_newer_ones(self) -> None:
        """A request was in flight when the queue became full."""
        with running([hang()], SHORT, timeout="1s") as (found, run):
            run.enqueue(1)
            found.awaited(1)
            run.enqueue(*range(2, MAX_QUEUED + 2))
            eventually(run.fates, "a record is dropped")

            assert run.fates() == {"dropped": 1}

    def test_enqueue_does_not_wait_for_a_receiver_that_hangs(self) -> None:
        """It would wait for an hour."""
        with running([hang()], timeout="1h") as (found, run):
            run.enqueue(1)
            found.awaited(1)
            run.enqueue(*range(2, 502))

        assert run.fates() == {}


class TestRejected:
    """A receiver that rejects records."""

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
        """The specification forbids it, and the next record would wait for ever."""
        with running([entry, answer()], SHORT) as (found, run):
            run.enqueue(1)
            run.awaited("rejected")
            run.enqueue(2)
            run.awaited("delivered")

            assert sent(found.requests) == [[1], [2]]
            assert run.pushes() == {outcome: 1, "delivered": 1}

    @pytest.mark.parametrize("protocol", ["http/json", "http/protobuf"])
    def test_partly_rejected_records_are_counted(self, protocol: str) -> None:
        """The response has their number."""
        script = [partially(2, "too old", "rejectedLogRecords"), answer()]
        with running(script, SHORT, batch_seconds=BATCH_SECONDS, protocol=protocol) as (found, run):
            run.enqueue(1, 2, 3)
            run.awaited("delivered")

            assert run.fates() == {"delivered": 1, "rejected": 2}
            assert (run.pushes(), len(found.requests)) == ({"partial": 1}, 1)


class TestUnsupported:
    """A receiver of metrics only."""

    @pytest.mark.parametrize("status", [404, 405, 501])
    def test_one_request_and_one_log_line(self, caplog: pytest.LogCaptureFixture, status: int) -> None:
        """Nothing more is sent, and the line names the flag to set."""
        caplog.set_level(logging.INFO)
        no = answer(status, b"no such page", content_type="text/plain")
        with running([no], SHORT) as (found, run):
            run.enqueue(1)
            run.awaited("rejected")
            run.enqueue(2, 3)
            run.stop()

            assert sent(found.requests) == [[1]]
            assert run.fates() == {"rejected": 3}
        assert [(one.levelname, one.getMessage()) for one in caplog.records] == [
            (
                "WARNING",
                f"OTLP receiver default ({found.url}/v1/logs): rejected: status {status}: no such page: it accepts no logs:"
                " retrying in an hour, --otlp.logs=false stops that; counted in"
                " gpustall_exporter_record_pushes_total, logged once until a push is delivered",
            )
        ]

    def test_queued_records_are_rejected(self) -> None:
        """Without further requests."""
        with running([answer(404)]) as (found, run):
            run.enqueue(*range(1, RECORDS_PER_REQUEST + 11))
            run.awaited("rejected", RECORDS_PER_REQUEST + 10)

            assert len(found.requests) == 1

    def test_requests_resume_after_the_pause(self, caplog: pytest.LogCaptureFixture) -> None:
        """The receiver may have been configured since. The pause is 0 here."""
        caplog.set_level(logging.INFO)
        with running([answer(404), answer(404), answer()], unsupported_seconds=0.0) as (found, run):
            for number, fate in ((1, "rejected"), (2, "rejected"), (3, "delivered")):
                run.enqueue(number)
                run.awaited(fate, number if fate == "rejected" else 1)

            assert sent(found.requests) == [[1], [2], [3]]
        assert [one.levelname for one in caplog.records] == ["WARNING", "INFO"]
        assert (
            caplog.records[1].getMessage()
            == f"OTLP receiver default ({found.url}/v1/logs): delivery of logs has resumed"
        )


class TestStop:
    """The end of the exporter."""

    def test_queued_records_are_sent(self) -> None:
        """Within the two seconds that metrics have too."""
        with running() as (found, run):
            run.enqueue(1)
            run.stop()

            assert sent(found.requests) == [[1]]
            assert run.fates() == {"delivered": 1}

    def test_waiting_retry_becomes_a_last_attempt(self) -> None:
        with running([answer(503), answer()]) as (found, run):
            run.enqueue(1)
            found.awaited(1)
            run.stop()

            assert sent(found.requests) == [[1], [1]]
            assert run.fates() == {"delivered": 1}

    def test_receiver_that_hangs_is_abandoned(self, caplog: pytest.LogCaptureFixture) -> None:
        """The request may take an hour. The undelivered records are logged."""
        with running([hang()], timeout="1h") as (found, run):
            run.enqueue(1)
            found.awaited(1)
            run.enqueue(2)
            run.stop()

        assert caplog.records[0].getMessage() == (
            f"OTLP receiver default ({found.url}/v1/logs): stopped with 2 undelivered records (logs)"
        )

    def test_empty_queue_sends_no_request(self) -> None:
        """No thread is left."""
        with running() as (found, run):
            run.stop()

            assert found.requests == []
            assert [thread for thread in threading.enumerate() if thread.name == "push default logs"] == []


class TestDefect:
    """A record that cannot be encoded."""

    def test_record_is_dropped_and_the_next_one_is_sent(self, caplog: pytest.LogCaptureFixture) -> None:
        """It would fail again. The log has the traceback."""
        with running() as (_, run):
            run.queue.enqueue(record(1)._replace(attributes={"a": float("nan")}))
            run.awaited("dropped")
            run.enqueue(2)
            run.awaited("delivered")

            assert (run.fates(), run.pushes()) == ({"dropped": 1, "delivered": 1}, {"failed": 1, "delivered": 1})
        assert caplog.records[0].exc_info is not None
