"""The push loop of one receiver: when to push, what to try again, what to say of it.

In: Snapshots, when they are due. Out: requests, counts and a log line when something changes. Each receiver has a thread of its
own: one that hangs delays neither the others nor a tick nor a scrape. Nothing is queued. What could not be delivered is in the
next push, whose totals are cumulative or whose deltas have waited; a retry ends when that push is due.
"""

from __future__ import annotations

import logging
import random
import threading
import time
import zlib
from collections.abc import Callable, Mapping
from types import ModuleType

from tenacity import RetryCallState, Retrying, retry_if_result, stop_before_delay, wait_exponential, wait_random

from exporter import catalog
from exporter.config.otlp import Receiver
from exporter.model import Snapshot
from exporter.output.otlp import json_body, points, verdict
from exporter.output.otlp.deltas import Deltas
from exporter.output.otlp.points import DataPoint, Form, Origin
from exporter.output.otlp.post import NoAnswer, Poster
from exporter.output.otlp.verdict import Outcome, Verdict
from exporter.output.own_metrics import OwnMetrics

log = logging.getLogger(__name__)

FLUSH_SECONDS = 2.0
"""What a stop grants the last push."""

_FLUSH_MARGIN_SECONDS = 0.2  # of it, for taking and encoding the numbers
_GZIP_LEVEL, _GZIP_WINDOW = 1, 31
_BACK_OFF = wait_exponential(multiplier=0.5, max=30) + wait_random(0, 0.5)


def probe(receiver: Receiver) -> Verdict:
    """What the receiver says to a request without a point, which it has to take. Raises BadInput like Poster."""
    body_module = _body_module(receiver.protocol)
    body = body_module.encode([], 0, Origin("", ""), Form(is_delta=False, with_explicit_buckets=False))
    body, headers = _packed(body, receiver.compression, body_module.CONTENT_TYPE)
    try:
        answer = Poster(receiver).post(body, headers, receiver.timeout_seconds)
    except NoAnswer as error:
        return verdict.of_no_answer(error)
    return verdict.of_answer(answer, body_module.CONTENT_TYPE, body_module.rejected)


class _Stopped(Exception):
    """The exporter stops while a retry waits."""


class Delivery:
    """Pushes to one receiver until stop(). snapshot: gives the current numbers. Raises BadInput like Poster."""

    def __init__(self, receiver: Receiver, snapshot: Callable[[], Snapshot], own: OwnMetrics, origin: Origin) -> None:
        self._receiver = receiver
        self._snapshot = snapshot
        self._own = own
        self._origin = origin
        self._body = _body_module(receiver.protocol)
        self._form = Form(receiver.temporality == "delta", receiver.histograms == "explicit")
        self._deltas = Deltas() if self._form.is_delta else None
        self._poster = Poster(receiver)
        self._stopping = threading.Event()
        self._stop_by = 0.0
        self._not_before = 0.0  # CLOCK_MONOTONIC seconds: until then the receiver wants to be left alone
        self._reported: set[Outcome] = set()
        self._last_said = ""  # with a delivery: a warning
        self._thread = threading.Thread(target=self._run, name=f"push {receiver.name}", daemon=True)
        self._shown = f"OTLP receiver {receiver.name} ({receiver.shown_url})"
        for outcome in Outcome:
            own.add(catalog.PUSHES, 0, receiver.name, outcome.value)
        for metric in (
            catalog.PUSH_ATTEMPTS,
            catalog.PUSHED_POINTS,
            catalog.REJECTED_POINTS,
            catalog.FORGOTTEN_POINTS,
            catalog.PUSHED_BYTES,
            catalog.PUSH_LAST_SUCCESS,
        ):
            own.add(metric, 0, receiver.name)

    def start(self) -> None:
        """Begin; the first push comes somewhere in the first interval, so that a fleet does not push in step."""
        self._thread.start()

    def stop(self) -> None:
        """Push what there is once more, within FLUSH_SECONDS. Returns at once; join() waits."""
        self._stop_by = time.monotonic() + FLUSH_SECONDS - _FLUSH_MARGIN_SECONDS
        self._stopping.set()

    def join(self) -> None:
        """Wait for the last push; a receiver that does not answer is left to itself."""
        self._thread.join(max(self._stop_by + _FLUSH_MARGIN_SECONDS - time.monotonic(), 0))

    def _run(self) -> None:
        interval_seconds = self._receiver.interval_seconds
        next_at = time.monotonic() + interval_seconds * random.random()  # noqa: S311 - no secret
        while not self._stopping.wait(max(next_at - time.monotonic(), 0)):
            next_at = time.monotonic() + interval_seconds
            self._push(next_at)
            next_at = max(next_at, self._not_before)
        if time.monotonic() >= self._not_before:
            self._push(self._stop_by)

    def _push(self, retry_until: float) -> None:
        """One push, whatever comes of it. retry_until: CLOCK_MONOTONIC seconds; none begins later."""
        started_at = time.monotonic()
        try:
            worst = self._push_all(retry_until)
        except _Stopped:
            return  # the last push is about to say the same, and more
        except Exception as error:  # a defect must not end all pushes
            if Outcome.FAILED not in self._reported:
                log.exception("%s: a push failed", self._shown)
            worst = Verdict(Outcome.FAILED, f"{type(error).__name__} in the exporter")
        self._own.add(catalog.PUSHES, 1, self._receiver.name, worst.outcome.value)
        self._own.set(catalog.PUSH_DURATION, time.monotonic() - started_at, self._receiver.name)
        if worst.outcome is Outcome.DELIVERED:
            self._own.set(catalog.PUSH_LAST_SUCCESS, time.time(), self._receiver.name)
        self._report(worst)

    def _push_all(self, retry_until: float) -> Verdict:
        """Every request of one moment; the worst of what came of them."""
        snapshot = self._snapshot()
        time_unix_ns = snapshot.taken_at.unix_ns
        wanted = points.data_points(snapshot, self._own.families())
        if self._deltas:
            wanted = self._deltas.collect(wanted, time_unix_ns)
            self._own.set(catalog.FORGOTTEN_POINTS, self._deltas.forgotten, self._receiver.name)
        worst = Verdict(Outcome.DELIVERED)
        for request in points.requests(wanted):
            result = self._deliver(request, time_unix_ns, retry_until)
            if result.is_taken:
                self._took(request, min(result.rejected_points, len(request)))
            worst = max(result, worst, key=lambda one: list(Outcome).index(one.outcome))
            if result.may_pass:
                break  # the others would wait for the same receiver
        return worst

    def _took(self, request: list[DataPoint], rejected_points: int) -> None:
        name = self._receiver.name
        self._own.add(catalog.PUSHED_POINTS, len(request) - rejected_points, name)
        self._own.add(catalog.REJECTED_POINTS, rejected_points, name)
        if self._deltas:
            self._deltas.delivered(request)  # a partial success must not be sent again

    def _deliver(self, request: list[DataPoint], time_unix_ns: int, retry_until: float) -> Verdict:
        """One request with its retries."""
        body: bytes = self._body.encode(request, time_unix_ns, self._origin, self._form)
        body, headers = _packed(body, self._receiver.compression, self._body.CONTENT_TYPE)
        retrying = Retrying(
            retry=retry_if_result(lambda result: result.may_pass and not self._stopping.is_set()),
            stop=stop_before_delay(max(retry_until - time.monotonic(), 0)),
            wait=_wait,
            sleep=self._sleep,
            retry_error_callback=_last_result,
        )
        result: Verdict = retrying(self._attempt, body, headers)
        return result

    def _attempt(self, body: bytes, headers: Mapping[str, str]) -> Verdict:
        timeout_seconds = self._receiver.timeout_seconds
        if self._stopping.is_set():
            timeout_seconds = min(timeout_seconds, max(self._stop_by - time.monotonic(), 0.05))
        self._own.add(catalog.PUSH_ATTEMPTS, 1, self._receiver.name)
        self._own.add(catalog.PUSHED_BYTES, len(body), self._receiver.name)
        try:
            answer = self._poster.post(body, headers, timeout_seconds)
        except NoAnswer as error:
            return verdict.of_no_answer(error)
        result = verdict.of_answer(answer, self._body.CONTENT_TYPE, self._body.rejected)
        if result.retry_after_seconds:
            # All that were sent away in one moment should not come back in one.
            result = result._replace(retry_after_seconds=result.retry_after_seconds * random.uniform(1.0, 1.1))  # noqa: S311
            self._not_before = time.monotonic() + result.retry_after_seconds
        return result

    def _sleep(self, seconds: float) -> None:
        if self._stopping.wait(seconds):
            raise _Stopped

    def _report(self, worst: Verdict) -> None:
        """One line when something begins to go wrong, one when it is well again."""
        if worst.outcome is Outcome.DELIVERED:
            if self._reported:
                log.info("%s: pushes are delivered again", self._shown)
            self._reported.clear()
            if worst.detail and worst.detail != self._last_said:
                log.warning("%s: delivered, and it says: %s", self._shown, worst.detail)
            self._last_said = worst.detail
        elif worst.outcome not in self._reported:
            self._reported.add(worst.outcome)
            log.warning(
                "%s: %s: %s; counted in %s, logged once until a push is delivered",
                self._shown,
                worst.outcome.value.replace("_", " "),
                worst.detail,
                catalog.PUSHES.name,
            )


def _body_module(protocol: str) -> ModuleType:
    """What encodes bodies and reads responses: encode(), rejected() and CONTENT_TYPE."""
    if protocol == "http/json":
        return json_body
    from exporter.output.otlp import protobuf_body  # noqa: PLC0415 - 6 MiB for those who want it

    return protobuf_body


def _packed(body: bytes, compression: str, content_type: str) -> tuple[bytes, dict[str, str]]:
    """The body as it is sent, and the headers that say so."""
    if compression == "gzip":
        packed = zlib.compress(body, _GZIP_LEVEL, _GZIP_WINDOW)
        return packed, {"Content-Type": content_type, "Content-Encoding": "gzip"}
    return body, {"Content-Type": content_type}


def _wait(state: RetryCallState) -> float:
    """Longer from one attempt to the next, with jitter, and not before the receiver wants it."""
    return max(_BACK_OFF(state), _last_result(state).retry_after_seconds)


def _last_result(state: RetryCallState) -> Verdict:
    assert state.outcome is not None  # noqa: S101 - called after an attempt
    result: Verdict = state.outcome.result()
    return result
