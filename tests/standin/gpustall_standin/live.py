"""Live demos: the real exporter with real probes on a real job with a fault, on this machine.

In: the name of a scenario and a duration. Out: a LiveRun, which exporter/commands/demo.py explains.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import gpustall_standin as standin
from exporter import config
from exporter.app.daemon import Daemon
from exporter.chains.chain import Change
from exporter.chains.event import ChainEvent
from exporter.demo.live import LiveRun, Watch
from exporter.history.reader import opened
from exporter.history.run import RecordedEvent
from exporter.host.libraries import LibraryKind
from gpustall_standin.job import Job, Phases, private_libraries, running_job
from gpustall_standin.scenarios import PLANS

POLL_SECONDS = 0.25
PATIENCE_SECONDS = 15.0
"""How long after its planned end a demo waits for chains to resolve."""
_STALLED_SECONDS = 12.0
"""How long a job may hang before the demo ends."""


class _JobEvents:
    """Chain events of the demo's own job; other jobs may run on this machine. Filled by the exporter's thread."""

    def __init__(self) -> None:
        self._job: Job | None = None
        self._own: set[str] = set()
        self._fresh: list[ChainEvent] = []
        self.all: list[ChainEvent] = []

    def follow(self, job: Job) -> None:
        self._job = job

    def on_chain_event(self, event: ChainEvent) -> None:
        if event.chain_id in self._own or (self._job and self._job.owns(event.tgid)):
            self._own.add(event.chain_id)
            self.all.append(event)
            self._fresh.append(event)

    def take_fresh(self) -> list[ChainEvent]:
        """Events since the previous call."""
        fresh, self._fresh = self._fresh, []
        return fresh

    @property
    def open_chains(self) -> int:
        changes = {event.chain_id: event.change for event in self.all}
        return sum(change is not Change.RESOLVED for change in changes.values())


def play(scenario: str, duration_seconds: float, watch: Watch) -> LiveRun:
    """Blocks until the demo is over. Raises NotPossibleHere or KernelRefused where the exporter cannot run."""
    plan = PLANS[scenario]
    phases = Phases.of(plan, duration_seconds)
    events = _JobEvents()
    with ExitStack() as resources:
        folder = resources.enter_context(private_libraries())
        history = folder / "history.sqlite"
        daemon = _daemon(folder, history, events, resources)
        with _running(daemon), running_job(plan, phases, folder) as job:
            events.follow(job)
            _watch(job, phases, events, watch)
            return _live_run(history, tuple(events.all), daemon)


def _live_run(history: Path, events: tuple[ChainEvent, ...], daemon: Daemon) -> LiveRun:
    now_unix_ns = time.time_ns()
    with opened(history) as reader:
        runs = reader.runs()
        return LiveRun(
            runs=runs,
            events=[RecordedEvent(runs[-1].id, event) for event in events],
            windows=list(reader.windows(0)),
            now_unix_ns=now_unix_ns,
            recording=daemon.recording(events),
        )


def _daemon(folder: Path, history: Path, events: _JobEvents, resources: ExitStack) -> Daemon:
    settings = config.load(
        {
            "web.listen-address": "127.0.0.1:0",
            "node": "demo",
            "recording.directory": str(folder / "recordings"),
            "recording.socket": "none",
            "history.path": str(history),
        },
        {},
    )
    daemon = Daemon(settings, resources, sinks=(events,), only_in=folder)
    for name, kind in standin.PROBED.items():
        daemon.looks.expect(folder / name, LibraryKind(kind))
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


def _watch(job: Job, phases: Phases, events: _JobEvents, watch: Watch) -> None:
    """Returns when the fault is over for long enough and every chain is resolved, or when the job hangs or has ended."""
    over_at = None
    while not job.has_ended and job.stalled_seconds < _STALLED_SECONDS:
        time.sleep(POLL_SECONDS)
        watch(job.progress, events.take_fresh())
        if not job.is_fault_over:
            continue
        over_at = over_at or time.monotonic()
        since_seconds = time.monotonic() - over_at
        if since_seconds >= phases.after and (
            not events.open_chains or since_seconds >= phases.after + PATIENCE_SECONDS
        ):
            return
