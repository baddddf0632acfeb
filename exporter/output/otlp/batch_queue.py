"""Brings records of one signal to one receiver: log records, or spans, as they come.

In: records, from the loop, which is never kept waiting. Out: requests and counts. What could not be brought waits and is tried
again at the receiver's interval; of more than MAX_WAITING the oldest are dropped. A receiver that has said no to a record is not
sent it again, and one that has no place for its kind is left alone for an hour.
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
from exporter.output.otlp.chain_records import Record
from exporter.output.otlp.response import PushOutcome, PushResult
from exporter.output.otlp.retry import RetryingSender, Stopped, Wire
from exporter.output.own_metrics import OwnMetrics

log = logging.getLogger(__name__)

MAX_WAITING = 1000  # of 3 KB each
RECORDS_PER_REQUEST = 200
GATHER_SECONDS = 0.5
"""What comes so soon after a record goes with it: the ranks of a job become slow together."""

ABSENT_SECONDS = 3600.0
"""So long nothing is sent to a receiver that has said that it has no place for it."""

DELIVERED, REJECTED, DROPPED = "delivered", "rejected", "dropped"

_UNREAD = (PushOutcome.UNAVAILABLE, PushOutcome.TIMED_OUT, PushOutcome.NO_ANSWER, PushOutcome.NOT_TRUSTED)
"""What was sent is worth sending again: nobody has looked at it."""

R = TypeVar("R", bound=Record)


class BatchQueue(Generic[R]):
    """Brings records to a target until stop().

    signal: logs or traces. encode: makes the body of a request. retry_seconds: what was not brought is tried again so much later.
    absent_seconds: so long a receiver without a place for them is left alone. Raises BadInput like OtlpTransport.
    """

    def __init__(
        self,
        target: Target,
        signal: str,
        encode: Callable[[Sequence[R]], bytes],
        wire: Wire,
        own: OwnMetrics,
        *,
        retry_seconds: float,
        absent_seconds: float = ABSENT_SECONDS,
    ) -> None:
        self._labels = (target.name, signal)
        self._signal = signal
        self._encode = encode
        self._own = own
        self._retry_seconds = retry_seconds
        self._absent_seconds = absent_seconds
        self._sender = RetryingSender(target, wire, own, signal, catalog.own.RECORD_PUSHES)
        self._waiting: deque[R] = deque()
        self._lock = threading.Lock()  # of what waits; held for a moment only
        self._news = threading.Event()
        self._on_its_way = 0
        self._absent_until = 0.0  # CLOCK_MONOTONIC seconds
        self._if_absent = f"it takes no {signal}, and is asked again in an hour; --otlp.{signal}=false if it never will"
        self._thread = threading.Thread(target=self._run, name=f"push {target.name} {signal}", daemon=True)
        for outcome in PushOutcome:
            own.add(catalog.own.RECORD_PUSHES, 0, *self._labels, outcome.value)
        for fate in (DELIVERED, REJECTED, DROPPED):
            own.add(catalog.own.RECORDS, 0, *self._labels, fate)

    def bring(self, record: R) -> None:
        """Take a record over; at once, whatever the receiver does."""
        if time.monotonic() < self._absent_until:
            self._count(REJECTED, 1)
            return
        with self._lock:
            self._waiting.append(record)
        self._drop_oldest()
        self._news.set()

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """Bring what waits, within FLUSH_SECONDS. Returns at once; join() waits."""
        self._sender.stop()
        self._news.set()

    def join(self) -> None:
        """Wait for the last push; a receiver that does not answer is left to itself."""
        self._sender.join(self._thread)
        if left := len(self._waiting) + self._on_its_way:
            log.warning("%s: %s that were not delivered before the end: %d", self._sender.shown, self._signal, left)

    def _run(self) -> None:
        sender = self._sender
        while not sender.is_stopping:
            self._news.wait()
            self._news.clear()
            if sender.wait_for_stop(time.monotonic() + GATHER_SECONDS):
                break
            due_at = time.monotonic() + self._retry_seconds
            if not self._push(due_at):
                sender.wait_for_stop(max(due_at, sender.not_before))
                self._news.set()
        if time.monotonic() >= sender.not_before:
            self._push(sender.stop_by)

    def _push(self, retry_until: float) -> bool:
        """Everything that waits. Returns whether it is settled. retry_until: CLOCK_MONOTONIC seconds; no retry begins later."""
        if not self._waiting:
            return True
        worst = self._sender.push(partial(self._push_all, retry_until))
        if worst is None:
            return False
        self._own.add(catalog.own.RECORD_PUSHES, 1, *self._labels, worst.outcome.value)
        return worst.outcome not in _UNREAD

    def _push_all(self, retry_until: float) -> PushResult:
        """Every request; the worst of what came of them."""
        worst = PushResult(PushOutcome.DELIVERED)
        while taken := self._take():
            result = self._deliver(taken, retry_until)
            if result.is_absent:
                self._leave_alone()
                result = result._replace(detail=f"{result.detail}: {self._if_absent}")
            worst = max(result, worst, key=lambda one: one.rank)
            if result.outcome in _UNREAD:
                break  # the others would wait for the same receiver
        return worst

    def _deliver(self, taken: list[R], retry_until: float) -> PushResult:
        """One request, and what becomes of its records."""
        self._on_its_way = len(taken)
        try:
            result = self._sender.deliver(self._encode(taken), retry_until)
        except Stopped:
            self._put_back(taken)
            raise
        except Exception:  # a defect, which would come again
            self._count(DROPPED, len(taken))
            raise
        else:
            if result.outcome in _UNREAD:
                self._put_back(taken)
            else:
                rejected = min(result.rejected, len(taken)) if result.is_taken else len(taken)
                self._count(DELIVERED, len(taken) - rejected)
                self._count(REJECTED, rejected)
            return result
        finally:
            self._on_its_way = 0

    def _leave_alone(self) -> None:
        """For so long that nobody is bothered."""
        self._absent_until = time.monotonic() + self._absent_seconds
        while taken := self._take():
            self._count(REJECTED, len(taken))

    def _take(self) -> list[R]:
        """The oldest, as many as go into a request."""
        with self._lock:
            return [self._waiting.popleft() for _ in range(min(len(self._waiting), RECORDS_PER_REQUEST))]

    def _put_back(self, taken: list[R]) -> None:
        with self._lock:
            self._waiting.extendleft(reversed(taken))
        self._drop_oldest()

    def _drop_oldest(self) -> None:
        with self._lock:
            dropped = max(len(self._waiting) - MAX_WAITING, 0)
            for _ in range(dropped):
                self._waiting.popleft()
        if dropped:
            self._count(DROPPED, dropped)

    def _count(self, fate: str, records: int) -> None:
        self._own.add(catalog.own.RECORDS, records, *self._labels, fate)
