"""Pushes the metrics to one receiver at its interval, from a thread of its own: a receiver that hangs delays nothing else.

No push is queued: points that were not delivered are in the next one, whose totals are cumulative or whose deltas include them.
Retries of a push end when the next one is due.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from types import ModuleType

from exporter import catalog
from exporter.config.otlp import Receiver
from exporter.config.otlp_parsers import HistogramForm, OtlpProtocol, Temporality
from exporter.model import Snapshot
from exporter.output.otlp import json_body, points
from exporter.output.otlp.deltas import Deltas
from exporter.output.otlp.points import DataPoint, Form, Origin
from exporter.output.otlp.response import PushOutcome, PushResult
from exporter.output.otlp.retry import RetryingSender, compressed, send_once
from exporter.output.otlp.splitting import Splitter
from exporter.output.otlp.transport import OtlpTransport
from exporter.own_metrics.store import OwnMetrics


def probe(receiver: Receiver) -> PushResult:
    """The result of a request without points, which a receiver has to accept. Raises BadInput like OtlpTransport."""
    codec = _codec(receiver.protocol)
    body = codec.encode([], 0, Origin("", ""), Form(is_delta=False, with_explicit_buckets=False))
    body, headers = compressed(body, receiver.compression, codec.CONTENT_TYPE)
    return send_once(OtlpTransport(receiver), body, headers, receiver.timeout_seconds, codec)


class MetricExporter:
    """snapshot: returns the current metrics. Raises BadInput like OtlpTransport."""

    def __init__(self, receiver: Receiver, snapshot: Callable[[], Snapshot], own: OwnMetrics, origin: Origin) -> None:
        self._receiver = receiver
        self._snapshot = snapshot
        self._own = own
        self._origin = origin
        self._codec = _codec(receiver.protocol)
        self._form = Form(receiver.temporality is Temporality.DELTA, receiver.histograms is HistogramForm.EXPLICIT)
        self._deltas = Deltas() if self._form.is_delta else None
        self._splitter = Splitter(points.POINTS_PER_REQUEST)
        self._sender = RetryingSender(receiver, self._codec, own, "pushes", catalog.own.PUSHES)
        self._thread = threading.Thread(target=self._run, name=f"push {receiver.name}", daemon=True)
        for outcome in PushOutcome:
            own.add(catalog.own.PUSHES, 0, receiver.name, outcome.value)
        for metric in (
            catalog.own.PUSH_ATTEMPTS,
            catalog.own.PUSHED_POINTS,
            catalog.own.REJECTED_POINTS,
            catalog.own.FORGOTTEN_POINTS,
            catalog.own.PUSHED_BYTES,
            catalog.own.PUSH_LAST_SUCCESS,
        ):
            own.add(metric, 0, receiver.name)

    def start(self) -> None:
        """Start the thread. The first push is at a random time in the first interval, so that a fleet does not push at once."""
        self._thread.start()

    def stop(self) -> None:
        """Push once more within FLUSH_SECONDS. Returns at once; join() waits."""
        self._sender.stop()

    def join(self) -> None:
        """Wait for the last push, at most FLUSH_SECONDS."""
        self._sender.join(self._thread)

    def _run(self) -> None:
        interval_seconds = self._receiver.interval_seconds
        next_at = time.monotonic() + interval_seconds * random.random()  # noqa: S311 - no secret
        while not self._sender.wait_for_stop(next_at):
            next_at = time.monotonic() + interval_seconds
            self._push(next_at)
            next_at = max(next_at, self._sender.not_before)
        if time.monotonic() >= self._sender.not_before:
            self._push(self._sender.stop_by)

    def _push(self, retry_until: float) -> None:
        """One push and its counters. retry_until: CLOCK_MONOTONIC seconds; no retry begins later."""
        started_at = time.monotonic()
        worst = self._sender.push(partial(self._push_all, retry_until))
        if worst is None:
            return  # the last push replaces it
        self._own.add(catalog.own.PUSHES, 1, self._receiver.name, worst.outcome.value)
        self._own.set(catalog.own.PUSH_DURATION, time.monotonic() - started_at, self._receiver.name)
        if worst.outcome is PushOutcome.DELIVERED:
            self._own.set(catalog.own.PUSH_LAST_SUCCESS, time.time(), self._receiver.name)

    def _push_all(self, retry_until: float) -> PushResult:
        """The worst result of all requests of a snapshot."""
        snapshot = self._snapshot()
        time_unix_ns = snapshot.taken_at.unix_ns
        wanted = points.data_points(snapshot, self._own.families())
        if self._deltas:
            wanted = self._deltas.collect(wanted, time_unix_ns)
            self._own.set(catalog.own.FORGOTTEN_POINTS, self._deltas.forgotten, self._receiver.name)

        def send(request: Sequence[DataPoint]) -> PushResult:
            body: bytes = self._codec.encode(request, time_unix_ns, self._origin, self._form)
            return self._sender.send(body, retry_until)

        worst = PushResult(PushOutcome.DELIVERED)
        for request in points.requests(wanted, self._splitter.begin_push()):
            for part, result in self._splitter.results(request, send):
                if result.is_accepted or result.rejected:
                    self._settled(part, min(result.rejected, len(part)))
                worst = max(result, worst, key=lambda one: one.outcome_index)
                if result.is_retryable:
                    return worst  # the other requests would wait for the same receiver
        return worst

    def _settled(self, request: Sequence[DataPoint], rejected_points: int) -> None:
        name = self._receiver.name
        self._own.add(catalog.own.PUSHED_POINTS, len(request) - rejected_points, name)
        self._own.add(catalog.own.REJECTED_POINTS, rejected_points, name)
        if self._deltas:
            self._deltas.delivered(request)  # what was rejected must not be sent again


def _codec(protocol: OtlpProtocol) -> ModuleType:
    """A Codec that also has encode()."""
    if protocol is OtlpProtocol.JSON:
        return json_body
    from exporter.output.otlp import protobuf_body  # noqa: PLC0415 - 6 MiB, for receivers of protobuf only

    return protobuf_body
