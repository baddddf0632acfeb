"""Start, loop, stop. The only place that catches everything, and the only loop.

A cycle: wait for news or the next tick, look at fresh mappings, walk a little further, let the publication tick.
"""

from __future__ import annotations

import gc
import logging
import math
import os
import platform
import select
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import ExitStack, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from exporter import catalog
from exporter.app import load, logs
from exporter.app.config_reload import Reloads
from exporter.app.self_metrics import report_attachments, report_start
from exporter.app.systemd_notify import ServiceManager
from exporter.chains.event import ChainEvent, ChainEventHandler
from exporter.clock import Clock
from exporter.config import Config, reloaded
from exporter.errors import ExporterError, KernelRefused
from exporter.gpu.model import GpuState
from exporter.gpu.nvml import Nvml
from exporter.gpu.sampler import GpuSampler
from exporter.host import heap
from exporter.host.eh_frame import FrameRules
from exporter.host.libraries import MARKS
from exporter.host.processes import Processes
from exporter.host.symbols import Symbols
from exporter.hostmetrics import host_collectors
from exporter.kernel.abi import EventKind
from exporter.kernel.calibration import calibrate
from exporter.kernel.events import event_of
from exporter.kernel.grace_periods import expedited
from exporter.kernel.loader import AttachKind
from exporter.kernel.mapping_watch import MappingWatch
from exporter.kernel.stacks import Stacks
from exporter.kernel.tables import Tables
from exporter.kernel.thread_rows import THREADS_ADOPT
from exporter.model import Snapshot
from exporter.output.otlp.points import Origin
from exporter.output.own_metrics import OwnMetrics
from exporter.output.web import listeners
from exporter.output.web.access import AccessControl
from exporter.output.web.pages import Pages
from exporter.output.web.server import Server, ServerLimits
from exporter.pipeline.dispatcher import Narrator, place_of, write_to_log
from exporter.pipeline.publication import Publication
from exporter.probes.discovery import Discovery
from exporter.probes.sampling import AdaptiveSampler
from exporter.recording.file import RecordedProcess, Recording
from exporter.recording.ring import RowRing
from exporter.recording.writer import RecordingWriter
from exporter.series.store import SeriesStore
from exporter.stacks.collector import RESULTS, StackCollector
from exporter.workloads.orchestrators.factory import enquirer_of
from exporter.workloads.registry import WorkloadRegistry

if TYPE_CHECKING:
    from exporter.history.recorder import Recorder
    from exporter.output.otlp.exporters import OtlpExporters

log = logging.getLogger(__name__)

# Mappings come in bursts (a process start maps ten files): what is read at once costs one wake-up.
COALESCE_SECONDS = 0.01
# A tick makes hundreds of system calls on a full node, and gets the interpreter back so long after each while a large scrape is
# rendered.
SWITCH_SECONDS = 0.00002
# Whatever is garbage by cycles waits so long. A full collection goes through a full node's histograms for a tenth of a second.
COLLECT_SECONDS = 60.0
RELOAD_SECONDS = 10.0
# The longest tick that was measured, of a full node on a machine whose hypervisor took its CPUs, was 3.7 s.
ALIVE_SECONDS = 60.0
_NEVER = 1 << 30


class Daemon:
    """The running exporter. Everything is in place when the constructor returns; run() loops until stop().

    hearers: of what happens to chains. only_in: the directory of the libraries that are probed; None for all. read_config: reads
    the configuration again, for reload().
    """

    def __init__(
        self,
        config: Config,
        resources: ExitStack,
        *,
        machine: str = platform.machine(),
        hearers: Sequence[ChainEventHandler] = (write_to_log,),
        only_in: Path | None = None,
        read_config: Callable[[], Config] | None = None,
    ) -> None:
        self._config = config
        self._read_config = read_config or (lambda: config)
        self._manager = ServiceManager(os.environ)
        self._stopping = threading.Event()
        self._has_ticked = False
        self._alive_until = math.inf  # it starts
        self._next_roll_call_at = 0.0
        self.own = OwnMetrics()
        self._hearers = list(hearers)
        self._pushes = self._make_pushes(config)
        self._reloads = Reloads(self._reload, lambda: self.own.set(catalog.own.RELOAD_SUCCESS, 0))
        loaded = load.load(config, self.own, resources)
        self.kernel, collectors = loaded.kernel, loaded.collectors
        processes = Processes(config.procfs)
        self._clock = clock = Clock()
        self._capsules = self._keep_capsules(config.capsules, processes) if "chains" in collectors else None
        self.tables = self._open_tables()
        cost = calibrate(self.kernel)
        self.tables.forget(set(self.tables.read_processes()), self.tables.read())  # what that was measured on
        self.discovery = Discovery(
            self.kernel,
            processes,
            loaded.apis,
            config.discovery_interval_seconds,
            with_launches=config.launch_mode != "off",
            only_in=only_in,
        )
        resources.callback(self.discovery.close)
        self._history = self._make_history(clock, collectors)
        self._hearers += [one.on_chain_event for one in (self._capsules, self._history) if one]
        self._hearers.append(lambda report: self._pushes.on_chain_event(report) if self._pushes else None)
        narrator = Narrator(processes, self._hearers)
        self._enquirer = enquirer_of(
            config.orchestrator,
            config.node,
            os.environ,
            lambda is_current: self.own.set(catalog.own.NAMES_SUCCESS, float(is_current)),
        )
        self._ledger = SeriesStore(config.series_ttl_seconds, clock.now())
        self._with_returns = loaded.with_returns
        self._governor = AdaptiveSampler(cost, self._overhead_limit(config), is_duty=config.launch_mode == "duty")
        names = self._enquirer.directory if self._enquirer else None
        self._devices = GpuSampler(Nvml()) if "device" in collectors else None
        self.publication = Publication(
            self.tables,
            WorkloadRegistry(processes, config.node, config.max_workloads, names, with_engines="engine" in collectors),
            self._ledger,
            self.own,
            collectors,
            clock=clock,
            onlooker=self._history,
            tell=narrator.tell,
            witness=self._open_witness(resources, processes),
            tell_evidence=narrator.tell_evidence,
            governor=self._governor,
            impaired=loaded.impaired,
            recursion_misses=self.kernel.recursion_misses,
            surroundings=host_collectors(
                collectors,
                self.kernel.maps,
                config.node,
                config.series_ttl_seconds,
                names,
                processes=processes,
                with_network_namespaces=config.with_network_namespaces,
                read_gpus=self._devices.reading if self._devices else None,
            ),
            devices=self._device_states(),
        )
        resources.callback(self.publication.close)
        self._records: list[bytes] = []
        self._ended: set[int] = set()
        self._ring = self.kernel.open_events(self._records)
        resources.callback(self._ring.close)
        self._wake_fd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        resources.callback(os.close, self._wake_fd)
        self._epoll = self._open_epoll(resources)
        self._watch = self._open_watch(resources)
        self._mappings_lost = 0
        self.server = self._make_server()
        resources.callback(self.server.close)
        report_start(self.own, self.kernel)
        self._is_probing = True
        if not load.may_probe(config, machine):
            self.discovery.disable()
            self._remove_probes()
        self.discovery.walk_all()

    def _overhead_limit(self, config: Config) -> float:
        """Where returns are not probed, there is no launch to be timed less often."""
        return config.overhead_limit if self._with_returns else math.inf

    def _make_server(self) -> Server:
        config = self._config
        gatekeeper = AccessControl(config.web_config_file)
        pages = Pages(
            self.publication.snapshot,
            self.own,
            lambda: self._has_ticked,
            telemetry_path=config.telemetry_path,
            with_exporter_metrics=config.with_exporter_metrics,
            reload=self._reload_and_wait if config.with_reload else None,
            is_alive=lambda: time.monotonic() < self._alive_until,
        )
        sockets = (
            listeners.handed_over(os.environ)
            if config.with_systemd_sockets
            else listeners.listening(config.listen_addresses)
        )
        limits = ServerLimits(max_requests=config.max_requests)
        return Server(sockets, pages, gatekeeper, limits, is_health_open=config.is_health_open)

    def _reload_and_wait(self) -> Sequence[str]:
        """For a thread of the web server. Raises ExporterError."""
        try:
            return self.reload().result(RELOAD_SECONDS)
        except FutureTimeout:
            raise ExporterError(f"not within {RELOAD_SECONDS:.0f} s") from None

    def _keep_capsules(self, directory: Path | None, processes: Processes) -> RecordingWriter | None:
        if directory is None:
            return None

        def subjects() -> dict[int, RecordedProcess]:
            found = {}
            for number, (identity, tgid) in self.publication.workloads().items():
                place = place_of(processes, tgid)
                found[number] = RecordedProcess(identity, tgid, place.cgroup, place.cpus)
            return found

        return RecordingWriter(directory, self._config.node, RowRing(), subjects)

    def _device_states(self) -> Callable[[], Sequence[GpuState]]:
        """As they were sampled last; none where nobody samples."""
        if self._devices is None:
            return tuple
        return self._capsules.ring.wrap_devices(self._devices.states) if self._capsules else self._devices.states

    def _open_tables(self) -> Tables:
        maps, iterate = self.kernel.maps, self.kernel.iterate
        if self._capsules is None:
            return Tables(maps, iterate)
        return Tables(self._capsules.ring.wrap_maps(maps), self._capsules.ring.wrap_iterator(iterate))

    def _make_pushes(self, config: Config) -> OtlpExporters | None:
        """None where nobody is pushed to."""
        if not config.receivers:
            return None
        from exporter.output.otlp.exporters import OtlpExporters  # noqa: PLC0415 - TLS, HTTP and retries take 10 MiB

        origin = Origin(config.node, config.service_name, config.resource_attributes)
        with_chains = "chains" in config.collectors
        return OtlpExporters(config.receivers, self._snapshot, self.own, origin, with_chains=with_chains)

    def _make_history(self, clock: Clock, collectors: Sequence[str]) -> Recorder | None:
        """None where none is wanted."""
        config = self._config
        if config.history_path is None:
            return None
        from exporter.history.recorder import Recorder, Settings  # noqa: PLC0415 - SQLite, only for those who keep one

        settings = Settings(
            config.history_path, config.history_max_bytes, config.history_retention_seconds, "chains" in collectors
        )
        return Recorder(settings, self.own, clock)

    def _snapshot(self) -> Snapshot:
        """Of this very moment when the exporter stops: no later push makes up for calls that are missing."""
        return self.publication.snapshot(is_shared=not self._stopping.is_set())

    def _open_epoll(self, resources: ExitStack) -> select.epoll:
        """News of the kernel, and of those who want the loop to end."""
        epoll = select.epoll()
        resources.callback(epoll.close)
        for descriptor in (self._ring.fileno(), self._wake_fd):
            epoll.register(descriptor, select.EPOLLIN)
        return epoll

    def _open_witness(self, resources: ExitStack, processes: Processes) -> StackCollector | None:
        """None where its program is not wanted, or has not been loaded, which is counted among what is missing."""
        stacks = Stacks(self.kernel)
        if not stacks.is_possible:
            return None
        for result in RESULTS:
            self.own.add(catalog.own.STACKS, 0, result)
        witness = StackCollector(
            self.tables.read_threads,
            stacks,
            partial(FrameRules, processes),
            Symbols(processes),
            lambda result: self.own.add(catalog.own.STACKS, 1, result),
        )
        resources.callback(witness.close)
        return witness

    def _open_watch(self, resources: ExitStack) -> MappingWatch | None:
        """Fresh mappings as they happen; without them the walk finds libraries, later."""
        try:
            watch = MappingWatch(MARKS)
        except KernelRefused as error:
            log.warning("libraries are found by walking /proc only: %s", error.one_line())
            return None
        resources.callback(watch.close)
        for fd in watch.filenos():
            self._epoll.register(fd, select.EPOLLIN | select.EPOLLET)
        return watch

    def run(self) -> None:
        """Serve and tick until stop()."""
        heap.share_one_heap()
        sys.setswitchinterval(SWITCH_SECONDS)
        _leave_full_collections_to_the_loop()
        self.server.start()
        if self._pushes:
            self._pushes.start()
        if self._enquirer:
            self._enquirer.start()
        if self._devices:
            self._devices.start()
        if self._history:
            self._history.start(self.publication.look)
        try:
            next_tick_at = next_collection_at = time.monotonic()
            while not self._stopping.is_set():
                self._wait(next_tick_at)
                started_at, cpu_started_at = time.monotonic(), time.thread_time()
                is_due = started_at >= next_tick_at
                if is_due:
                    next_tick_at = started_at + self._config.tick_interval_seconds
                self._cycle(is_due=is_due)
                took_seconds = time.monotonic() - started_at
                log.debug("a tick took %.1f ms", took_seconds * 1000)
                self.own.set(catalog.own.TICK_DURATION, took_seconds)
                self.own.add(catalog.own.TICK_TIME, time.thread_time() - cpu_started_at)
                if started_at >= next_collection_at:  # now, when the next tick is farthest
                    gc.collect()
                    heap.give_back()
                    next_collection_at = started_at + COLLECT_SECONDS
        finally:
            self._manager.stopping()
            self._reloads.close()
            self._flush()
            if self._capsules:
                self._capsules.close(self._clock.now())
            if self._history:
                self._history.stop()
            if self._enquirer:
                self._enquirer.stop()
            if self._devices:
                self._devices.stop()
            self.server.close()

    def _flush(self) -> None:
        """The last push to every receiver; with the processes that came since the last tick."""
        if self._pushes:
            self._cycle(is_due=True)
            self._pushes.finish()

    def capsule(self, reports: Sequence[ChainEvent]) -> Recording | None:
        """The last minute, with these; None where no capsules are kept. From any thread."""
        return self._capsules.recording(tuple(reports), self._clock.now()) if self._capsules else None

    def stop(self) -> None:
        """Make run() return; from any thread or a signal handler."""
        self._stopping.set()
        os.eventfd_write(self._wake_fd, 1)

    def reload(self) -> Future[Sequence[str]]:
        """Make run() read the configuration again; from any thread or a signal handler. Done when it is in force.

        The result: flags whose change needs a restart.
        """
        asked = self._reloads.ask()
        os.eventfd_write(self._wake_fd, 1)
        return asked

    def _reload(self) -> Sequence[str]:
        """Raises ExporterError, and leaves all as it was."""
        self._manager.reloading()
        try:
            config, left = reloaded(self._config, self._read_config())
            is_pushed_otherwise = _of_pushes(config) != _of_pushes(self._config)
            pushes = self._make_pushes(config) if is_pushed_otherwise else self._pushes
        except ExporterError as error:
            self.own.set(catalog.own.RELOAD_SUCCESS, 0)
            log.error("the configuration stays as it was: %s", error.one_line())
            raise
        finally:
            self._manager.ready("serving")
        logs.set_up(config.log_level, config.log_format)
        self._config = config
        self.discovery.interval_seconds = config.discovery_interval_seconds
        self._ledger.ttl_seconds = config.series_ttl_seconds
        self._governor.limit = self._overhead_limit(config)
        if pushes is not self._pushes:
            before, self._pushes = self._pushes, pushes
            if pushes:
                pushes.start()
            if before:
                before.finish_apart()
        self.own.set(catalog.own.RELOAD_SUCCESS, 1)
        self.own.set(catalog.own.RELOAD_TIME, time.time())
        log.info("the configuration was read again")
        if left:
            log.warning("a restart is needed for what has changed in %s", ", ".join(left))
        return left

    def disable_probes(self) -> None:
        """Make run() remove every probe and attach none any more; from any thread or a signal handler."""
        self.discovery.disable()
        os.eventfd_write(self._wake_fd, 1)

    def _wait(self, until: float) -> None:
        """Sleep until the time of the next tick, news, or a signal."""
        remaining = until - time.monotonic()
        woken_by = {fd for fd, _ in self._epoll.poll(remaining)} if remaining > 0 else set()
        if self._wake_fd in woken_by:
            os.eventfd_read(self._wake_fd)
        elif woken_by:
            time.sleep(COALESCE_SECONDS)

    def _switch_off(self) -> None:
        """What SIGUSR1 asks for. What was counted until now is exported as that of processes that have ended."""
        started_at = time.monotonic()
        files = len(self.discovery.probed())
        with expedited() if self.kernel.attach_kind is AttachKind.SINGLE else nullcontext():
            self._remove_probes()
        log.warning(
            "every probe is removed, of %d library files in %.2f s; none is attached any more until a restart",
            files,
            time.monotonic() - started_at,
        )
        self.publication.take_leave()

    def _remove_probes(self) -> None:
        """The job first, then the machine."""
        self._is_probing = False
        self.discovery.close()
        self.kernel.detach()
        if self._watch is not None:
            self._watch.close()
            self._watch = None
        self.own.set(catalog.own.PROBES_ENABLED, 0)
        report_attachments(self.own, self.discovery)

    def _cycle(self, *, is_due: bool) -> None:
        """One round; whatever goes wrong costs this round only."""
        try:
            self._reloads.obey()
            if self._is_probing and not self.discovery.is_enabled:
                self._switch_off()
            self._look_at_fresh_mappings()
            self._ring.consume()
            events = [event_of(record) for record in self._records]
            self._records.clear()
            self._ended.update(event.process for event in events if event.kind is EventKind.PROCESS_ENDED)
            for event in events:
                if event.kind is EventKind.ATTACHMENT_SURPLUS:
                    self.discovery.resolve_surplus(event.attachment, event.first)
            if any(event.kind is EventKind.PROCESS_TRACKED for event in events):
                self.kernel.iterate(THREADS_ADOPT)  # its threads and workers from before it made a call
            if is_due:
                self._tick()
            elif events:
                self.publication.admit()
        except ExporterError as error:
            log.error("tick failed: %s", error.one_line())
        except Exception:
            log.exception("tick failed")

    def _tick(self) -> None:
        """What is done at every interval, whether there is news or not."""
        self.discovery.step()
        now = time.monotonic()
        if now >= self._next_roll_call_at:  # exit events may have been lost
            self._next_roll_call_at = now + self._config.discovery_interval_seconds
            self.publication.call_roll()
        self._ended.update(self.publication.gone())
        self.publication.tick(self._ended)
        self._ended.clear()
        if self._capsules:
            self._capsules.tick(self._clock.now())
        report_attachments(self.own, self.discovery)
        self.own.add(catalog.own.TICKS, 1)
        if not self._has_ticked:
            self._has_ticked = True
            self._manager.ready("serving")
        self._manager.alive()
        self._alive_until = time.monotonic() + ALIVE_SECONDS

    def _look_at_fresh_mappings(self) -> None:
        if self._watch is None:
            return
        fresh = self._watch.drain()
        for tgid in {mapped.tgid for mapped in fresh}:
            self.discovery.look_at(tgid)
        self.discovery.note_use({(mapped.inode, mapped.path) for mapped in fresh})
        if self._watch.lost > self._mappings_lost:
            self._mappings_lost = self._watch.lost
            self.own.set(catalog.own.LOSSES, self._mappings_lost, "mapping_watch", "ring_full")
            self.discovery.hurry()


def _of_pushes(config: Config) -> tuple[object, ...]:
    return config.receivers, config.service_name, config.resource_attributes


def _leave_full_collections_to_the_loop() -> None:
    """What lives by now stays, and is not gone through any more."""
    gc.freeze()
    young, middle, _ = gc.get_threshold()
    gc.set_threshold(young, middle, _NEVER)
