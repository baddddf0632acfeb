"""A running MetricExporter: it pushes made-up snapshots to a receiver with a script, and its first push is immediate.

with pushing([answer(503), answer()], Source(1, 2)) as (found, push):
    push.awaited(Outcome.DELIVERED)
    first, second = found.requests
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from exporter import catalog
from exporter.catalog import Metric
from exporter.config import otlp
from exporter.config.otlp import Receiver
from exporter.config.setting import Given
from exporter.model import Family, Snapshot
from exporter.output.otlp.metric_exporter import MetricExporter
from exporter.output.otlp.points import Origin
from exporter.output.otlp.response import PushOutcome
from exporter.own_metrics.store import OwnMetrics
from tests.support import receiver
from tests.support.otlp import Received, read_json, read_protobuf
from tests.support.patience import PATIENCE_SECONDS
from tests.support.receiver import Entry, Request
from tests.support.records import STARTED_UNIX_NS, TRAINER, at, point
from tests.support.traced import eventually, only

ORIGIN = Origin("gpu7", "gpu-stall-exporter")
ONCE, AGAIN_AND_AGAIN = "60s", "200ms"
"""Intervals: with the first, a test has one push besides that of the stop; with the second, as many as the flag allows."""

FIRST_OWN_POINTS = 16  # of the first push: ten outcomes, and six more counters and times
_EARLY = 2401725  # with this seed the first push comes within 2 ms of a minute, and the back-offs are 0.5 s and 1 s
_WORKLOAD = catalog.cuda.OPERATIONS


def target(url: str, **settings: object) -> Receiver:
    """A receiver as flags describe it: target(url, ca_file="authority.pem")."""
    texts = {f"otlp.{key.replace('_', '-')}": (str(value), "a test") for key, value in settings.items()}
    found: Receiver = only(otlp.read(Given({"otlp.endpoint": (url, "a test"), **texts}, {})).receivers)
    return found


def snapshot(*totals: int, seconds: float = 1.0) -> Snapshot:
    """A series for each total, of calls of cudaMalloc0, cudaMalloc1…"""
    series = tuple(point(total, "runtime", f"cudaMalloc{n}") for n, total in enumerate(totals))
    return Snapshot(at(seconds), (Family(_WORKLOAD, series),), {TRAINER: STARTED_UNIX_NS, None: STARTED_UNIX_NS})


class Source:
    """The snapshots of pushes: one series, whose total at push n is totals[n - 1]; the last total is repeated."""

    def __init__(self, *totals: int) -> None:
        self._totals = totals
        self.taken_seconds: list[float] = []

    def __call__(self) -> Snapshot:
        """A snapshot one second after the last one."""
        total = self._totals[min(len(self.taken_seconds), len(self._totals) - 1)]
        self.taken_seconds.append(time.monotonic())
        return snapshot(total, seconds=len(self.taken_seconds))

    @property
    def taken(self) -> int:
        """How many pushes have begun."""
        return len(self.taken_seconds)


@dataclass(frozen=True)
class Push:
    """A running exporter and its counters."""

    exporter: MetricExporter
    own: OwnMetrics

    def value(self, metric: Metric, *labels: str) -> float:
        """The value of a metric about the receiver `default`."""
        return own_value(self.own, metric, *labels)

    def pushes(self) -> dict[str, float]:
        """Outcome -> number of pushes, without zeros."""
        counts = {outcome.value: self.value(catalog.own.PUSHES, outcome) for outcome in PushOutcome}
        return {outcome: count for outcome, count in counts.items() if count}

    def awaited(self, outcome: str, count: int = 1) -> None:
        """Wait for so many pushes with this outcome."""
        eventually(lambda: self.value(catalog.own.PUSHES, outcome) >= count, f"{count} pushes are {outcome}")

    def stop(self) -> None:
        """Stop, and wait for the last push."""
        self.exporter.stop()
        self.exporter.join()


def own_value(own: OwnMetrics, metric: Metric, *labels: str) -> float:
    """The value of a series about the receiver `default`."""
    found = (
        p.value for f in own.families() if f.metric is metric for p in f.points if p.labels == ("default", *labels)
    )
    value: float = only(found)
    return value


@contextmanager
def delivering(to: Receiver, source: Callable[[], Snapshot] | None = None) -> Iterator[Push]:
    """An exporter in its first push; stopped at the end of the block, which is another push."""
    take = source or Source(1)
    begun = threading.Event()

    def taken() -> Snapshot:
        begun.set()
        return take()

    own = OwnMetrics()
    exporter = MetricExporter(to, taken, own, ORIGIN)
    random.seed(_EARLY)
    exporter.start()
    try:
        assert begun.wait(PATIENCE_SECONDS), "the first push does not begin"
        yield Push(exporter, own)
    finally:
        exporter.stop()


@contextmanager
def pushing(
    script: Sequence[Entry] = (),
    source: Callable[[], Snapshot] | None = None,
    interval: str = ONCE,
    **settings: object,
) -> Iterator[tuple[receiver.Receiver, Push]]:
    """The same, to a receiver with a script."""
    with (
        receiver.receiver(script) as found,
        delivering(target(found.url, interval=interval, **settings), source) as push,
    ):
        yield found, push


def points(request: Request) -> list[Received]:
    """The points of a request, which is checked against the protocol."""
    return (read_protobuf if request.is_protobuf else read_json)(request.content)


def workload(request: Request) -> list[Received]:
    """The points of the workload's metric."""
    return [point for point in points(request) if point.name == _WORKLOAD.otel_name]


def totals(requests: Sequence[Request]) -> list[list[object]]:
    """The values of the workload's points in each request."""
    return [[point.value for point in workload(request)] for request in requests]


def push_threads() -> list[threading.Thread]:
    """The threads of exporters to the receiver `default` that have not ended."""
    return [thread for thread in threading.enumerate() if thread.name == "push default"]
