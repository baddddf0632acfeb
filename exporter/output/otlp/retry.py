"""Sends bodies to one receiver: packed, with retries, and with a word in the log when something changes.

In: the body of a request, and until when it may be tried again. Out: a Verdict. What is sent, and when, is decided by those who
use this: deliveries of numbers and couriers of records. Each has a Sender and a thread of its own.
"""

from __future__ import annotations

import logging
import random
import threading
import time
import zlib
from collections.abc import Callable, Mapping
from typing import Protocol

from tenacity import RetryCallState, Retrying, retry_if_result, stop_before_delay, wait_exponential, wait_random

from exporter import catalog
from exporter.catalog import Metric
from exporter.config.otlp import Target
from exporter.config.otlp_parsers import Compression
from exporter.http_client.errors import HttpFailure
from exporter.output.otlp import response
from exporter.output.otlp.response import PushOutcome, PushResult
from exporter.output.otlp.transport import OtlpTransport
from exporter.output.own_metrics import OwnMetrics

log = logging.getLogger(__name__)

FLUSH_SECONDS = 2.0
"""What a stop grants the last push."""

_FLUSH_MARGIN_SECONDS = 0.2  # of it, for taking and encoding what is pushed
_GZIP_LEVEL, _GZIP_WINDOW = 1, 31
_BACK_OFF = wait_exponential(multiplier=0.5, max=30) + wait_random(0, 0.5)


class Wire(Protocol):
    """How bodies are written: a module that has these."""

    CONTENT_TYPE: str

    def rejected(self, body: bytes) -> tuple[int, str]:
        """How many of what was sent a receiver did not take, and its word on it. Raises ValueError when this is no response."""


class Stopped(Exception):
    """The exporter stops while a retry waits."""


class RetryingSender:
    """Sends to one target until stop(). what: of the log's lines, `pushes`. counter: of pushes, which they name.

    Raises BadInput like OtlpTransport.
    """

    def __init__(self, target: Target, wire: Wire, own: OwnMetrics, what: str, counter: Metric) -> None:
        self._target = target
        self._wire = wire
        self._own = own
        self._what = what
        self._counter = counter
        self._transport = OtlpTransport(target)
        self._stopping = threading.Event()
        self._reported: set[PushOutcome] = set()
        self._last_said = ""  # with a delivery: a warning
        self.shown = f"OTLP receiver {target.name} ({target.shown_url})"
        self.stop_by = 0.0
        """CLOCK_MONOTONIC seconds, once it is stopping: until then the last push may take."""
        self.not_before = 0.0
        """CLOCK_MONOTONIC seconds: until then the receiver wants to be left alone."""

    @property
    def is_stopping(self) -> bool:
        """Whether stop() was called."""
        return self._stopping.is_set()

    def stop(self) -> None:
        """From here on nothing is tried again, and all that is sent has FLUSH_SECONDS together."""
        self.stop_by = time.monotonic() + FLUSH_SECONDS - _FLUSH_MARGIN_SECONDS
        self._stopping.set()

    def wait_for_stop(self, until: float) -> bool:
        """Wait until a time of CLOCK_MONOTONIC in seconds. Returns whether it is stopping."""
        return self._stopping.wait(max(until - time.monotonic(), 0))

    def join(self, thread: threading.Thread) -> None:
        """Wait for the last push of a thread; a receiver that does not answer is left to itself."""
        thread.join(max(self.stop_by + _FLUSH_MARGIN_SECONDS - time.monotonic(), 0))

    def push(self, push: Callable[[], PushResult]) -> PushResult | None:
        """What comes of a push; whatever goes wrong in it is told, and no error. None: the last one is to take its place."""
        try:
            worst = push()
        except Stopped:
            return None
        except Exception as error:  # a defect must not end all pushes
            if PushOutcome.FAILED not in self._reported:
                log.exception("%s: a push failed", self.shown)
            worst = PushResult(PushOutcome.FAILED, f"{type(error).__name__} in the exporter")
        self._report(worst)
        return worst

    def deliver(self, body: bytes, retry_until: float) -> PushResult:
        """One request with its retries. retry_until: CLOCK_MONOTONIC seconds; none begins later."""
        body, headers = packed(body, self._target.compression, self._wire.CONTENT_TYPE)
        retrying = Retrying(
            retry=retry_if_result(lambda result: result.may_pass and not self._stopping.is_set()),
            stop=stop_before_delay(max(retry_until - time.monotonic(), 0)),
            wait=_wait,
            sleep=self._sleep,
            retry_error_callback=_last_result,
        )
        result: PushResult = retrying(self._attempt, body, headers)
        return result

    def _attempt(self, body: bytes, headers: Mapping[str, str]) -> PushResult:
        timeout_seconds = self._target.timeout_seconds
        if self._stopping.is_set():
            timeout_seconds = min(timeout_seconds, max(self.stop_by - time.monotonic(), 0.05))
        self._own.add(catalog.own.PUSH_ATTEMPTS, 1, self._target.name)
        self._own.add(catalog.own.PUSHED_BYTES, len(body), self._target.name)
        result = send(self._transport, body, headers, timeout_seconds, self._wire)
        if result.retry_after_seconds:
            # All that were sent away in one moment should not come back in one.
            result = result._replace(retry_after_seconds=result.retry_after_seconds * random.uniform(1.0, 1.1))  # noqa: S311
            self.not_before = time.monotonic() + result.retry_after_seconds
        return result

    def _sleep(self, seconds: float) -> None:
        if self._stopping.wait(seconds):
            raise Stopped

    def _report(self, worst: PushResult) -> None:
        """One line when something begins to go wrong, one when it is well again."""
        if worst.outcome is PushOutcome.DELIVERED:
            if self._reported:
                log.info("%s: %s are delivered again", self.shown, self._what)
            self._reported.clear()
            if worst.detail and worst.detail != self._last_said:
                log.warning("%s: delivered, and it says: %s", self.shown, worst.detail)
            self._last_said = worst.detail
        elif worst.outcome not in self._reported:
            self._reported.add(worst.outcome)
            log.warning(
                "%s: %s: %s; counted in %s, logged once until a push is delivered",
                self.shown,
                worst.outcome.value.replace("_", " "),
                worst.detail,
                self._counter.name,
            )


def send(
    transport: OtlpTransport, body: bytes, headers: Mapping[str, str], timeout_seconds: float, wire: Wire
) -> PushResult:
    """One request, and what it came to. body, headers: as packed() gives them."""
    try:
        answer = transport.post(body, headers, timeout_seconds)
    except HttpFailure as error:
        return response.of_no_answer(error)
    return response.of_answer(answer, wire.CONTENT_TYPE, wire.rejected)


def packed(body: bytes, compression: Compression, content_type: str) -> tuple[bytes, dict[str, str]]:
    """The body as it is sent, and the headers that say so."""
    if compression is Compression.GZIP:
        body = zlib.compress(body, _GZIP_LEVEL, _GZIP_WINDOW)
        return body, {"Content-Type": content_type, "Content-Encoding": "gzip"}
    return body, {"Content-Type": content_type}


def _wait(state: RetryCallState) -> float:
    """Longer from one attempt to the next, with jitter, and not before the receiver wants it."""
    return max(_BACK_OFF(state), _last_result(state).retry_after_seconds)


def _last_result(state: RetryCallState) -> PushResult:
    assert state.outcome is not None  # noqa: S101 - called after an attempt
    result: PushResult = state.outcome.result()
    return result
