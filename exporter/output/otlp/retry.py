"""Sends request bodies to one receiver with retries, and logs when a failure begins and ends.

MetricExporter and BatchQueue decide what is sent and when; each has a RetryingSender and a thread of its own.
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
from exporter.errors import ExporterError
from exporter.http_client.errors import HttpFailure
from exporter.output.otlp.response import PushOutcome, PushResult, from_failure, from_response
from exporter.output.otlp.transport import OtlpTransport
from exporter.own_metrics.store import OwnMetrics

log = logging.getLogger(__name__)

FLUSH_SECONDS = 2.0
"""Time for the last push after stop()."""

_FLUSH_MARGIN_SECONDS = 0.2  # of it, for taking the snapshot and encoding it
_GZIP_LEVEL, _GZIP_WINDOW = 1, 31
_BACK_OFF = wait_exponential(multiplier=0.5, max=30) + wait_random(0, 0.5)


class Codec(Protocol):
    """An encoding of OTLP: the modules json_body, json_records, protobuf_body and protobuf_records."""

    CONTENT_TYPE: str

    def rejected(self, body: bytes) -> tuple[int, str]:
        """How many items the receiver rejected, and its message. Raises ValueError when this is not a response of OTLP."""


class Stopped(Exception):
    """The exporter stops while a retry waits."""


class RetryingSender:
    """Sends to one target until stop(). what: in log lines, such as `pushes`. counter: the metric that counts pushes.

    Raises BadInput like OtlpTransport.
    """

    def __init__(self, target: Target, codec: Codec, own: OwnMetrics, what: str, counter: Metric) -> None:
        self._target = target
        self._codec = codec
        self._own = own
        self._what = what
        self._counter = counter
        self._transport = OtlpTransport(target)
        self._stopping = threading.Event()
        self._reported: set[PushOutcome] = set()
        self._last_warning = ""  # with a push that was delivered
        self.display_name = f"OTLP receiver {target.name} ({target.shown_url})"
        self.stop_by = 0.0
        """CLOCK_MONOTONIC seconds, set by stop(): the end of the last push."""
        self.not_before = 0.0
        """CLOCK_MONOTONIC seconds: the receiver wants no request before (Retry-After)."""

    @property
    def is_stopping(self) -> bool:
        """Whether stop() was called."""
        return self._stopping.is_set()

    def stop(self) -> None:
        """Retry nothing more, and limit the last push to FLUSH_SECONDS."""
        self.stop_by = time.monotonic() + FLUSH_SECONDS - _FLUSH_MARGIN_SECONDS
        self._stopping.set()

    def wait_for_stop(self, until: float) -> bool:
        """Wait until a time of CLOCK_MONOTONIC in seconds. Returns whether it is stopping."""
        return self._stopping.wait(max(until - time.monotonic(), 0))

    def join(self, thread: threading.Thread) -> None:
        """Wait for the last push of a thread, until stop_by."""
        thread.join(max(self.stop_by + _FLUSH_MARGIN_SECONDS - time.monotonic(), 0))

    def push(self, push: Callable[[], PushResult]) -> PushResult | None:
        """The result of push(), which is logged; a defect in it is a result too. None: the last push replaces this one."""
        try:
            worst = push()
        except Stopped:
            return None
        except ExporterError as error:  # no snapshot: the kernel refuses to read a map
            worst = PushResult(PushOutcome.FAILED, error.one_line())
        except Exception as error:  # a defect must not end all pushes
            if PushOutcome.FAILED not in self._reported:
                log.exception("%s: push failed: internal error (bug)", self.display_name)
            worst = PushResult(PushOutcome.FAILED, f"{type(error).__name__} in the exporter")
        self._report(worst)
        return worst

    def send(self, body: bytes, retry_until: float) -> PushResult:
        """One request with its retries. retry_until: CLOCK_MONOTONIC seconds; no retry begins later. Raises Stopped."""
        body, headers = compressed(body, self._target.compression, self._codec.CONTENT_TYPE)
        retrying = Retrying(
            retry=retry_if_result(lambda result: result.is_retryable and not self._stopping.is_set()),
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
        result = send_once(self._transport, body, headers, timeout_seconds, self._codec)
        if result.retry_after_seconds:
            # Jitter: the exporters that a receiver refused at one moment must not return at one moment.
            result = result._replace(retry_after_seconds=result.retry_after_seconds * random.uniform(1.0, 1.1))  # noqa: S311
            self.not_before = time.monotonic() + result.retry_after_seconds
        return result

    def _sleep(self, seconds: float) -> None:
        if self._stopping.wait(seconds):
            raise Stopped

    def _report(self, worst: PushResult) -> None:
        """Log the first failure of each outcome, and the recovery."""
        if worst.outcome is PushOutcome.DELIVERED:
            if self._reported:
                log.info("%s: delivery of %s has resumed", self.display_name, self._what)
            self._reported.clear()
            if worst.detail and worst.detail != self._last_warning:
                log.warning("%s: delivered with a warning: %s", self.display_name, worst.detail)
            self._last_warning = worst.detail
        elif worst.outcome not in self._reported:
            self._reported.add(worst.outcome)
            log.warning(
                "%s: %s: %s; counted in %s, logged once until a push is delivered",
                self.display_name,
                worst.outcome.value.replace("_", " "),
                worst.detail,
                self._counter.name,
            )


def send_once(
    transport: OtlpTransport, body: bytes, headers: Mapping[str, str], timeout_seconds: float, codec: Codec
) -> PushResult:
    """The result of one request. body, headers: as compressed() returns them."""
    try:
        response = transport.post(body, headers, timeout_seconds)
    except HttpFailure as error:
        return from_failure(error)
    return from_response(response, codec.CONTENT_TYPE, codec.rejected)


def compressed(body: bytes, compression: Compression, content_type: str) -> tuple[bytes, dict[str, str]]:
    """The body as it is sent, and the headers that describe it."""
    if compression is Compression.GZIP:
        body = zlib.compress(body, _GZIP_LEVEL, _GZIP_WINDOW)
        return body, {"Content-Type": content_type, "Content-Encoding": "gzip"}
    return body, {"Content-Type": content_type}


def _wait(state: RetryCallState) -> float:
    """Exponential back-off with jitter, and at least Retry-After."""
    return max(_BACK_OFF(state), _last_result(state).retry_after_seconds)


def _last_result(state: RetryCallState) -> PushResult:
    assert state.outcome is not None  # noqa: S101 - called after an attempt
    result: PushResult = state.outcome.result()
    return result
