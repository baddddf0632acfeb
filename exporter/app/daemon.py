"""Start, loop, stop: the running exporter.

A cycle: wait for an event or the next tick, run one tick. Other threads look for libraries, and serve.
"""

from __future__ import annotations

import gc
import logging
import math
import os
import platform
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import ExitStack
from pathlib import Path

from exporter import catalog
from exporter.app import logs, wanted_programs
from exporter.app.config_reload import Reloads
from exporter.app.failed_ticks import FailedTicks
from exporter.app.probing import Probing
from exporter.app.recording_socket import RecordingSocket
from exporter.app.self_metrics import report_start
from exporter.app.systemd_notify import ServiceManager
from exporter.app.wakeups import Wakeups
from exporter.app.web import web_server
from exporter.app.wiring import ExporterParts, build, overhead_limit
from exporter.chains.event import ChainEvent, ChainSink
from exporter.config import Config
from exporter.config.setting import reloaded
from exporter.errors import ExporterError, NotPossibleHere
from exporter.host import heap
from exporter.host.processes import Processes
from exporter.kernel.abi import EventKind
from exporter.kernel.event_source import OWN_EVENTS, EventSource
from exporter.kernel.hazards import Judgement
from exporter.kernel.thread_rows import THREADS_ADOPT
from exporter.pipeline.chain_log import ChainLog
from exporter.probes.search import LibrarySearch
from exporter.recording.file import Recording

log = logging.getLogger(__name__)

# A tick makes hundreds of system calls on a full node; after each it waits this long for the interpreter while a large scrape is
# rendered.
SWITCH_SECONDS = 0.00002
# Cycles of garbage wait so long. A full collection goes through a full node's histograms for a tenth of a second.
COLLECT_SECONDS = 60.0
RELOAD_SECONDS = 10.0
# The longest tick that was measured, of a full node on a machine whose hypervisor took its CPUs, was 3.7 s.
ALIVE_SECONDS = 60.0
# The first tick comes when what runs already is probed, or after so long.
FIRST_TICK_SECONDS = 0.5
_NEVER = 1 << 30


class Daemon:
    """Everything is in place when the constructor returns; run() loops until stop().

    sinks: of chain events, before those of the configuration. only_in: directory of the libraries to probe; None: all.
    event_source: opens perf events with the capabilities that are left. returns: as of judged_returns().
    read_config: reads the configuration again, for reload().
    """

    def __init__(
        self,
        config: Config,
        resources: ExitStack,
        *,
        machine: str = platform.machine(),
        sinks: Sequence[ChainSink] = (ChainLog(),),
        only_in: Path | None = None,
        event_source: EventSource = OWN_EVENTS,
        returns: Judgement | None = None,
        read_config: Callable[[], Config] | None = None,
    ) -> None:
        self._config = config
        self._read_config = read_config or (lambda: config)
        self._manager = ServiceManager(os.environ)
        self._stopping = threading.Event()
        self._is_ready = False
        self._alive_until = math.inf  # until the first tick
        self._next_liveness_check_at = 0.0
        self._failed_ticks = FailedTicks()
        self._ended: set[int] = set()  # processes that the next tick retires
        self._parts = parts = build(
            config,
            resources,
            sinks,
            only_in=only_in,
            event_source=event_source,
            returns=returns,
            is_stopping=self._stopping.is_set,
        )
        self.discovery, self.looks = parts.discovery, parts.looks
        self._reloads = Reloads(self._reload, lambda: parts.own.set(catalog.own.RELOAD_SUCCESS, 0))
        self._wakeups = Wakeups(parts.kernel, resources)
        search = LibrarySearch(parts.discovery, Processes(config.procfs))
        self._probing = Probing(parts.kernel, parts.discovery, parts.looks, search, parts.own, wake=self._wakeups.wake)
        resources.callback(self._probing.close)
        self.server = web_server(
            config,
            parts.own,
            resources,
            snapshot=parts.snapshots.snapshot,
            is_ready=lambda: self._is_ready,
            is_alive=lambda: time.monotonic() < self._alive_until,
            reload=self._reload_and_wait,
            call_sites=parts.call_sites,
        )
        resources.callback(self.server.close)
        self._recordings = _recording_socket(config, parts)
        if self._recordings:
            resources.callback(self._recordings.close)
        report_start(parts.own, parts.kernel)
        if not wanted_programs.may_probe(config, machine):
            self._probing.disable()
            self._probing.remove()
        elif config.probes.attaches_once:
            self._probing.look_at_everything()

    def run(self) -> None:
        """Serve and tick until stop()."""
        heap.share_one_heap()
        sys.setswitchinterval(SWITCH_SECONDS)
        _leave_full_collections_to_the_loop()
        self._start()
        try:
            self._loop()
        finally:
            self._stop_all()

    def stop(self) -> None:
        """Make run() return; from any thread or a signal handler."""
        self._stopping.set()
        self._wakeups.wake()

    def reload(self) -> Future[Sequence[str]]:
        """Have the loop read the configuration again; from any thread or a signal handler. Done when it is in force.

        The result: flags whose change needs a restart.
        """
        requested = self._reloads.request()
        self._wakeups.wake()
        return requested

    def disable_probes(self) -> None:
        """Have the loop remove every probe and attach none until a restart; from any thread or a signal handler."""
        self._probing.disable()
        self._wakeups.wake()

    def recording(self, events: Sequence[ChainEvent]) -> Recording | None:
        """The last minute, with these events; None where nothing is recorded. From any thread."""
        recordings = self._parts.recordings
        return recordings.recording(tuple(events), self._parts.clock.now()) if recordings else None

    def _start(self) -> None:
        parts = self._parts
        self.server.start()
        self._probing.start()
        if self._recordings:
            self._recordings.start()
        parts.otlp.start()
        if parts.poller:
            parts.poller.start()
        if parts.gpus:
            parts.gpus.start()
        if parts.history:
            parts.history.start()
        parts.windows.start(parts.snapshots.feed_windows)

    def _stop_all(self) -> None:
        parts = self._parts
        self._manager.stopping()
        self._reloads.close()
        if parts.otlp.is_wanted:
            self._cycle(is_due=True)  # with the processes that came since the last tick
        parts.windows.stop()
        if parts.otlp.is_wanted:
            parts.otlp.finish()
        if parts.recordings:
            parts.recordings.close(parts.clock.now())
        if parts.history:
            parts.history.stop()
        if parts.poller:
            parts.poller.stop()
        if parts.gpus:
            parts.gpus.stop()
        self.server.close()

    def _loop(self) -> None:
        own = self._parts.own
        next_collection_at = time.monotonic()
        next_tick_at = next_collection_at + FIRST_TICK_SECONDS
        has_ticked = False
        while not self._stopping.is_set():
            self._wakeups.wait(next_tick_at)
            started_at, cpu_started_at = time.monotonic(), time.thread_time()
            is_due = started_at >= next_tick_at or (not has_ticked and self._probing.is_first_walk_over)
            has_ticked |= is_due
            if is_due:
                next_tick_at = started_at + self._config.tick_interval_seconds
            self._cycle(is_due=is_due)
            if self._parts.kernel.event_source.is_lost:
                raise ExporterError(
                    "the process that opens perf events is gone: no library can be probed any more",
                    remedy="start the exporter again, as systemd and Kubernetes do",
                )
            took_seconds = time.monotonic() - started_at
            log.debug("tick took %.1f ms", took_seconds * 1000)
            own.set(catalog.own.TICK_DURATION, took_seconds)
            own.add(catalog.own.TICK_TIME, time.thread_time() - cpu_started_at)
            if started_at >= next_collection_at:  # now, when the next tick is farthest
                gc.collect()
                heap.give_back()
                next_collection_at = started_at + COLLECT_SECONDS

    def _cycle(self, *, is_due: bool) -> None:
        """One round; whatever fails costs this round only."""
        parts = self._parts
        try:
            self._reloads.run_requested()
            if self._probing.remove_if_disabled():
                parts.tracking.end_all()
            events = self._wakeups.events()
            self._ended.update(event.process for event in events if event.kind is EventKind.PROCESS_ENDED)
            self._probing.note_surplus(events)
            if any(event.kind is EventKind.PROCESS_TRACKED for event in events):
                parts.kernel.iterate(THREADS_ADOPT)  # its threads and workers from before it made a call
            if is_due:
                self._tick()
                self._failed_ticks.succeeded()
            elif events:
                parts.tracking.admit()
        except Exception as error:
            self._failed_ticks.failed(error)

    def _tick(self) -> None:
        """What is done at every interval."""
        parts = self._parts
        now = time.monotonic()
        if now >= self._next_liveness_check_at:  # exit events may have been lost
            self._next_liveness_check_at = now + self._config.probes.discovery_interval_seconds
            parts.tracking.begin_liveness_check()
            self._probing.follow_cpus()
        self._ended.update(parts.tracking.missed_exits())
        parts.tracking.tick(self._ended)
        self._ended.clear()
        if parts.recordings:
            parts.recordings.tick(parts.clock.now())
            parts.own.set(catalog.own.RECORDING_DROPPED, parts.recordings.dropped_events)
        self._probing.report()
        parts.own.set(catalog.own.LOG_DROPPED, logs.dropped())
        parts.own.add(catalog.own.TICKS, 1)
        if not self._is_ready and self._probing.is_first_walk_over:
            self._is_ready = True
            self._manager.ready("serving")
        self._manager.alive()
        self._alive_until = time.monotonic() + ALIVE_SECONDS

    def _reload_and_wait(self) -> Sequence[str]:
        """For a thread of the web server. Raises ExporterError."""
        try:
            return self.reload().result(RELOAD_SECONDS)
        except FutureTimeout:
            raise ExporterError(f"the configuration was not read within {RELOAD_SECONDS:.0f} s") from None

    def _reload(self) -> Sequence[str]:
        """Raises ExporterError, and leaves all as it was."""
        parts = self._parts
        self._manager.reloading()
        try:
            config, needs_restart = reloaded(self._config, self._read_config())
            replace_push = parts.otlp.prepare(config)
        except ExporterError as error:
            parts.own.set(catalog.own.RELOAD_SUCCESS, 0)
            log.error("configuration not reloaded, the old one stays in force: %s", error.one_line())
            raise
        finally:
            self._manager.ready("serving")
        logs.set_up(config.log.level, config.log.format)
        self._config = config
        parts.looks.interval_seconds = config.probes.discovery_interval_seconds
        parts.store.ttl_seconds = config.series.ttl_seconds
        parts.sampler.limit = overhead_limit(config, with_returns=parts.with_returns)
        replace_push()
        parts.own.set(catalog.own.RELOAD_SUCCESS, 1)
        parts.own.set(catalog.own.RELOAD_TIME, time.time())
        log.info("configuration reloaded")
        if needs_restart:
            log.warning("restart the exporter to apply the changes to %s", ", ".join(needs_restart))
        return needs_restart


def _recording_socket(config: Config, parts: ExporterParts) -> RecordingSocket | None:
    if config.recording.socket is None:
        return None
    try:
        return RecordingSocket(config.recording.socket, parts.recorded)
    except NotPossibleHere as error:
        log.warning("`record` cannot ask this exporter for single calls: %s", error.one_line())
        return None


def _leave_full_collections_to_the_loop() -> None:
    """What lives by now stays, and is not gone through again."""
    gc.freeze()
    young, middle, _ = gc.get_threshold()
    gc.set_threshold(young, middle, _NEVER)
