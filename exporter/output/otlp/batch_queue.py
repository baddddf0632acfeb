"""A bounded queue of log records or spans for one receiver, exported in batches by a thread of its own.

enqueue() never waits. Batches that a receiver did not read are kept and sent again at the receiver's interval; of more than
MAX_QUEUED records the oldest are dropped. Records that the receiver rejected are not sent again, and a receiver without an
endpoint for this signal gets nothing for an hour.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Generic, TypeVar

from exporter import catalog
from exporter.config.otlp import Target
from exporter.output.otlp.records import Record
from exporter.output.otlp.response import PushOutcome, PushResult
from exporter.output.otlp.retry import Codec, RetryingSender, Stopped
from exporter.output.otlp.splitting import Splitter
from exporter.own_metrics.store import OwnMetrics

log = logging.getLogger(__name__)

MAX_QUEUED = 1000  # of 3 KB each, 5 KB for a window
RECORDS_PER_REQUEST = 200
BATCH_SECONDS = 0.5
"""Time from the first record to its request, which later ones share: the ranks of a job become slow together."""

UNSUPPORTED_SECONDS = 3600.0
"""Pause after a receiver has no endpoint for this signal."""

DELIVERED, REJECTED, DROPPED = "delivered", "rejected", "dropped"

_UNREAD = (PushOutcome.UNAVAILABLE, PushOutcome.TIMED_OUT, PushOutcome.NO_ANSWER, PushOutcome.NOT_TRUSTED)
"""The receiver did not read the request, so it may be sent again."""

R = TypeVar("R", bound=Record)


class BatchQueue(Generic[R]):
    """signal: logs, traces or windows, which are log records too. encode: makes the body of a request.

    retry_seconds: between pushes of unread records. unsupported_seconds: pause after a receiver has no endpoint for the signal.
    batch_seconds: from the first record to its request. Raises BadInput like OtlpTransport.
    """

    def __init__(
        self,
        target: Target,
        signal: str,
        encode: Callable[[Sequence[R]], bytes],
        codec: Codec,
        own: OwnMetrics,
        *,
        retry_seconds: float,
        unsupported_seconds: float = UNSUPPORTED_SECONDS,
        batch_seconds: float = BATCH_SECONDS,
    ) -> None:
        self._labels = (target.name, signal)
        self._signal = signal
        self._encode = encode
        self._own = own
        self._retry_seconds = retry_seconds
        self._unsupported_seconds = unsupported_seconds
        self._batch_seconds = batch_seconds
        self._sender = RetryingSender(target, codec, own, signal, catalog.own.RECORD_PUSHES)
        self._splitter = Splitter(RECORDS_PER_REQUEST)
        self._queue: deque[R] = deque()
        self._lock = threading.Lock()  # guards the queue; held for a moment only
        self._enqueued = threading.Event()
        self._in_flight = 0
        self._paused_until = 0.0  # CLOCK_MONOTONIC seconds
        self._thread = threading.Thread(target=self._run, name=f"push {target.name} {signal}", daemon=True)
        for outcome in PushOutcome:
            own.add(catalog.own.RECORD_PUSHES, 0, *self._labels, outcome.value)
        for fate in (DELIVERED, REJECTED, DROPPED):
            own.add(catalog.own.RECORDS, 0, *self._labels, fate)

    def enqueue(self, record: R) -> None:
        """Add a record. Never waits for the receiver."""
        if time.monotonic() < self._paused_until:
            self._count(REJECTED, 1)
            return
        with self._lock:
            self._queue.append(record)
        self._drop_oldest()
        self._enqueued.set()

    def count_dropped(self, records: int) -> None:
        """Count records that were dropped before they could be queued."""
        self._count(DROPPED, records)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Export what is queued within FLUSH_SECONDS. Returns at once; join() waits."""
        self._sender.stop()
        self._enqueued.set()

    def join(self) -> None:
        """Wait for the last push, at most FLUSH_SECONDS."""
        self._sender.join(self._thread)
        if left := len(self._queue) + self._in_flight:
            log.warning("%s: stopped with %d undelivered records (%s)", self._sender.display_name, left, self._signal)

    def _run(self) -> None:
        sender = self._sender
        while not sender.is_stopping:
            self._enqueued.wait()
            self._enqueued.clear()
            if sender.wait_for_stop(time.monotonic() + self._batch_seconds):
                break
            due_at = time.monotonic() + self._retry_seconds
            if not self._push(due_at):
                sender.wait_for_stop(max(due_at, sender.not_before))
                self._enqueued.set()
        if time.monotonic() >= sender.not_before:
            self._push(sender.stop_by)

    def _push(self, retry_until: float) -> bool:
        """Export the whole queue. Returns whether nothing is left to send again. retry_until: CLOCK_MONOTONIC seconds."""
        if not self._queue:
            return True
        worst = self._sender.push(partial(self._push_all, retry_until))
        if worst is None:
            return False
        self._own.add(catalog.own.RECORD_PUSHES, 1, *self._labels, worst.outcome.value)
        return worst.outcome not in _UNREAD

    def _push_all(self, retry_until: float) -> PushResult:
        """The worst result of all batches."""
        worst = PushResult(PushOutcome.DELIVERED)
        records_per_request = self._splitter.begin_push()
        while batch := self._take(records_per_request):
            result = self._export(batch, retry_until)
            if result.is_unsupported:
                self._pause()
                advice = f"it accepts no {self._signal}: retrying in an hour, --otlp.{self._signal}=false stops that"
                result = result._replace(detail=f"{result.detail}: {advice}")
            worst = max(result, worst, key=lambda one: one.outcome_index)
            if result.outcome in _UNREAD:
                break  # the other batches would wait for the same receiver
        return worst

    def _export(self, batch: list[R], retry_until: float) -> PushResult:
        """One request, or parts of it if it is too large; counts or requeues its records. Returns the worst result."""
        worst = PushResult(PushOutcome.DELIVERED)
        self._in_flight = len(batch)
        try:
            for part, result in self._splitter.results(
                batch, lambda records: self._sender.send(self._encode(records), retry_until)
            ):
                worst = max(result, worst, key=lambda one: one.outcome_index)
                if result.outcome in _UNREAD:
                    self._requeue_last(batch)
                    break
                rejected = min(result.rejected, len(part)) if result.is_accepted else len(part)
                self._count(DELIVERED, len(part) - rejected)
                self._count(REJECTED, rejected)
                self._in_flight -= len(part)
        except Stopped:
            self._requeue_last(batch)
            raise
        except Exception:  # a defect, which would come again
            self._count(DROPPED, self._in_flight)
            raise
        finally:
            self._in_flight = 0
        return worst

    def _pause(self) -> None:
        """Reject what is queued and what arrives during the pause."""
        self._paused_until = time.monotonic() + self._unsupported_seconds
        while batch := self._take(RECORDS_PER_REQUEST):
            self._count(REJECTED, len(batch))

    def _take(self, records_max: int) -> list[R]:
        """Remove the oldest records."""
        with self._lock:
            return [self._queue.popleft() for _ in range(min(len(self._queue), records_max))]

    def _requeue_last(self, batch: list[R]) -> None:
        """Put back those in flight, which are the last ones of a batch: parts are sent in order."""
        with self._lock:
            self._queue.extendleft(reversed(batch[len(batch) - self._in_flight :]))
        self._drop_oldest()

    def _drop_oldest(self) -> None:
        with self._lock:
            dropped = max(len(self._queue) - MAX_QUEUED, 0)
            for _ in range(dropped):
                self._queue.popleft()
        if dropped:
            self._count(DROPPED, dropped)

    def _count(self, fate: str, records: int) -> None:
        self._own.add(catalog.own.RECORDS, records, *self._labels, fate)
