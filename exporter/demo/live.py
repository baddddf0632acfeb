"""A scenario on this machine, now: the real exporter on a real job, and what it says.

In: a Scenario, its duration. Out: the Reports of its chains, as they come and at the end.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from exporter import config, standin
from exporter.app.daemon import Daemon
from exporter.chains.chain import Change
from exporter.chains.event import ChainEvent
from exporter.demo.scenarios import Scenario
from exporter.demo.stage import Parts, Progress, Stage, private_libraries, staged
from exporter.explain.explanation import Explanation, explain
from exporter.explain.selection import Selection
from exporter.history.reader import opened
from exporter.history.run import RecordedEvent
from exporter.host.libraries import LibraryKind
from exporter.recording.file import Recording

LOOK_SECONDS = 0.25
PATIENCE_SECONDS = 15.0
"""After the planned end: so long is waited for chains to be resolved."""
_STALLED_SECONDS = 12.0
"""A job that hangs is left alone for so long."""

See = Callable[[Progress, list[ChainEvent]], None]
"""Called some times a second: how far the job is, and what has been said since the last time."""


class Shown(NamedTuple):
    """A scenario that has been played. explanation: as of its last moment. capsule: of its last minute."""

    explanation: Explanation
    capsule: Recording | None


class _Hearer:
    """Of the job's own chains: others may run on this machine. The exporter's loop tells, the demo asks."""

    def __init__(self) -> None:
        self._stage: Stage | None = None
        self._own: set[str] = set()
        self._fresh: list[ChainEvent] = []
        self.reports: list[ChainEvent] = []

    def follow(self, stage: Stage) -> None:
        """It has begun."""
        self._stage = stage

    def on_chain_event(self, report: ChainEvent) -> None:
        """From the loop."""
        if report.chain_id in self._own or (self._stage and self._stage.owns(report.tgid)):
            self._own.add(report.chain_id)
            self.reports.append(report)
            self._fresh.append(report)

    def fresh(self) -> list[ChainEvent]:
        """Since the last time."""
        fresh, self._fresh = self._fresh, []
        return fresh

    @property
    def open(self) -> int:
        """Chains that are not resolved."""
        changes = {report.chain_id: report.change for report in self.reports}
        return sum(change is not Change.RESOLVED for change in changes.values())


def play(scenario: Scenario, duration_seconds: float, see: See) -> Shown:
    """Blocks until it is over. Raises NotPossibleHere or KernelRefused where the exporter cannot run."""
    parts = Parts.of(scenario, duration_seconds)
    hearer = _Hearer()
    with ExitStack() as resources:
        folder = resources.enter_context(private_libraries())
        history = folder / "history.sqlite"
        daemon = _daemon(folder, history, hearer, resources)
        with _running(daemon), staged(scenario, parts, folder) as stage:
            hearer.follow(stage)
            _watch(stage, parts, hearer, see)
            reports = tuple(hearer.reports)
            return Shown(_explained(history, reports), daemon.recording(reports))


def _explained(history: Path, reports: tuple[ChainEvent, ...]) -> Explanation:
    """What was said, and what the windows that are written by now say of the job."""
    now_unix_ns = time.time_ns()
    with opened(history) as read:
        runs = read.runs()
        told = [RecordedEvent(runs[-1].id, report) for report in reports]
        return explain(
            runs,
            told,
            read.seen(0),
            selection=Selection(),
            since_unix_ns=runs[-1].began_unix_ns,
            now_unix_ns=now_unix_ns,
        )


def _daemon(folder: Path, history: Path, hearer: _Hearer, resources: ExitStack) -> Daemon:
    settings = config.load(
        {
            "web.listen-address": "127.0.0.1:0",
            "node": "demo",
            "capsule.directory": str(folder / "capsules"),
            "history.path": str(history),
        },
        {},
    )
    daemon = Daemon(settings, resources, sinks=(hearer,), only_in=folder)
    for name, kind in standin.PROBED.items():
        daemon.discovery.expect(folder / name, LibraryKind(kind))
    return daemon


@contextmanager
def _running(daemon: Daemon) -> Iterator[None]:
    loop = threading.Thread(target=daemon.run, name="exporter")
    loop.start()
    try:
        yield
    finally:
        daemon.stop()
        loop.join()


def _watch(stage: Stage, parts: Parts, hearer: _Hearer, see: See) -> None:
    """Until the fault is over for long enough, and nothing is open any more; or nothing moves, or the job has ended."""
    over_at = None
    while not stage.has_ended and stage.stalled_seconds < _STALLED_SECONDS:
        time.sleep(LOOK_SECONDS)
        see(stage.progress, hearer.fresh())
        if not stage.is_over:
            continue
        over_at = over_at or time.monotonic()
        since_seconds = time.monotonic() - over_at
        if since_seconds >= parts.after and (not hearer.open or since_seconds >= parts.after + PATIENCE_SECONDS):
            return
