"""Makes the parts of the exporter from a configuration, and connects them.

In: Config. Out: Parts, closed with the resources that were given. Nothing runs yet but what the kernel counts.
"""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from exporter import catalog
from exporter.accounting.culprits import GroupNames
from exporter.app import wanted_programs
from exporter.app.otlp_push import OtlpPush
from exporter.app.self_metrics import report_snapshot
from exporter.chains.event import ChainSink
from exporter.clock import Clock
from exporter.config import Config
from exporter.config.stacks import StackSettings
from exporter.errors import ExporterError, KernelRefused
from exporter.gpu.model import GpuState
from exporter.gpu.nvml import Nvml
from exporter.gpu.sampler import GpuSampler
from exporter.history.window_feed import WindowFeed
from exporter.host import tenant_reads
from exporter.host.cgroup_paths import CgroupPaths
from exporter.host.cgroups import hierarchy_of
from exporter.host.libraries import MARKS
from exporter.host.processes import Processes
from exporter.host.reader import TenantReader
from exporter.host.symbols import Symbols
from exporter.host.tenant_reads import TenantReads
from exporter.host.users import uid_of
from exporter.hostmetrics import host_collectors
from exporter.hostmetrics.cgroup_labels import CgroupLabels
from exporter.kernel.calibration import calibrate
from exporter.kernel.event_source import OWN_EVENTS, EventSource
from exporter.kernel.hazards import Judgement
from exporter.kernel.loader import Kernel
from exporter.kernel.mapping_watch import MappingWatch
from exporter.kernel.python_frames import PythonFrames
from exporter.kernel.share_rows import Shares
from exporter.kernel.stacks import Stacks
from exporter.kernel.tables import Tables
from exporter.output.web.call_sites import NO_READING, CallSitesReading, ProcessCallSites
from exporter.own_metrics.store import OwnMetrics
from exporter.pipeline.chain_events import ChainEvents
from exporter.pipeline.collector_runs import CollectorRuns
from exporter.pipeline.node_context import node_context
from exporter.pipeline.process_context import process_context
from exporter.pipeline.running_processes import RunningProcesses
from exporter.pipeline.snapshot import SnapshotBuilder
from exporter.pipeline.tick import Pipeline
from exporter.pipeline.workload_tracking import WorkloadTracking
from exporter.probes.discovery import Discovery
from exporter.probes.looks import Looks
from exporter.probes.sampling import AdaptiveSampler
from exporter.python.call_site import CallSite
from exporter.ras.asker import RasAsker
from exporter.ras.asking import RESULTS as RAS_RESULTS
from exporter.ras.view import RasView
from exporter.recording.call_sites import bounded
from exporter.recording.file import RecordedProcess
from exporter.recording.ring import KEPT_SECONDS, RowRing
from exporter.recording.single_calls import Recorded
from exporter.recording.writer import RecordingWriter
from exporter.series.store import SeriesStore
from exporter.stacks.collector import RESULTS, StackCollector
from exporter.stacks.named_sites import NamedSites
from exporter.stacks.python_evidence import PythonEvidence
from exporter.stacks.python_stacks import RESULTS as INTERPRETER_RESULTS
from exporter.stacks.python_stacks import PythonStacks
from exporter.stacks.python_tasks import RESULTS as TASK_RESULTS
from exporter.stacks.python_tasks import PythonTasks
from exporter.text.printable import printable
from exporter.units import NANOSECONDS
from exporter.workloads.machine import machine_container_id
from exporter.workloads.orchestrators.factory import make_poller
from exporter.workloads.orchestrators.poller import OrchestratorPoller
from exporter.workloads.owner import owner_of
from exporter.workloads.refusals import Refusals
from exporter.workloads.registry import WorkloadRegistry

if TYPE_CHECKING:
    from exporter.history.recorder import Recorder

log = logging.getLogger(__name__)

STACK_PATIENCE_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class ExporterParts:
    """What runs. with_returns: whether returns of functions are probed. None: not wanted, or not possible here.

    call_sites: slow calls of the processes that are exported. recorded: what recordings of single calls are made from.
    """

    own: OwnMetrics
    clock: Clock
    kernel: Kernel
    with_returns: bool
    discovery: Discovery
    looks: Looks
    sampler: AdaptiveSampler
    store: SeriesStore
    tracking: WorkloadTracking
    snapshots: SnapshotBuilder
    otlp: OtlpPush
    recordings: RecordingWriter | None
    history: Recorder | None
    windows: WindowFeed
    poller: OrchestratorPoller | None
    gpus: GpuSampler | None
    call_sites: Callable[[], CallSitesReading]
    recorded: Recorded


def overhead_limit(config: Config, *, with_returns: bool) -> float:
    """Without probed returns no launch is timed, so none can be timed less often."""
    return config.probes.overhead_limit if with_returns else math.inf


def build(
    config: Config,
    resources: ExitStack,
    sinks: Sequence[ChainSink],
    *,
    only_in: Path | None = None,
    event_source: EventSource = OWN_EVENTS,
    returns: Judgement | None = None,
    is_stopping: Callable[[], bool],
) -> ExporterParts:
    """sinks: of chain events, before those of the configuration. only_in: directory of the libraries to probe; None: all.

    Raises ExporterError.
    """
    own, clock, processes = OwnMetrics(), Clock(), Processes(config.procfs)
    # When the exporter stops, the last push must hold every call: no later one makes up for it.
    otlp = OtlpPush(config, lambda: snapshots.snapshot(is_shared=not is_stopping()), own)
    with_whole_paths = Processes(config.procfs, CgroupPaths.of_machine(config.procfs).from_root)
    owner = partial(_owner, with_whole_paths)
    loaded = wanted_programs.load(config, own, resources, event_source, returns)
    kernel, collectors = loaded.kernel, loaded.collectors
    ring = RowRing() if config.recording.directory is not None and "chains" in collectors else None
    tables = _tables(kernel, ring)
    sampler = AdaptiveSampler(
        calibrate(kernel),
        overhead_limit(config, with_returns=loaded.with_returns),
        launch_mode=config.probes.launch_mode,
    )
    tables.forget(set(tables.read_processes()), tables.read())  # the process that calibrate() measured on
    discovery = Discovery(
        kernel,
        processes,
        loaded.apis,
        with_launches=config.probes.with_launches,
        only_in=only_in,
        owner_of=owner,
    )
    resources.callback(discovery.close)
    looks = Looks(
        discovery,
        processes,
        _mapping_watch(kernel.event_source),
        owner,
        interval_seconds=config.probes.discovery_interval_seconds,
    )
    recordings = (
        RecordingWriter(
            config.recording.directory,
            config.node,
            ring,
            lambda: _recorded_processes(with_whole_paths, tracking, stacks, clock),
        )
        if config.recording.directory is not None and ring is not None
        else None
    )
    poller = make_poller(
        config.orchestrator,
        config.node,
        os.environ,
        lambda is_current: own.set(catalog.own.NAMES_SUCCESS, float(is_current)),
    )
    pods = poller.cache if poller else None
    reader = TenantReader(processes, tenant_reads.PATIENCE_SECONDS)
    reader.start()
    own.add(catalog.own.UNANSWERED_READS, 0)
    reads = TenantReads(reader, owner, lambda: own.add(catalog.own.UNANSWERED_READS, 1))
    resources.callback(reads.close)
    machine_id = machine_container_id(processes)
    gpus = GpuSampler(Nvml()) if "device" in collectors else None
    store = SeriesStore(config.series.ttl_seconds, clock.now())
    refused = Refusals()
    runs = CollectorRuns(own, collectors, loaded.impaired)
    pipeline = Pipeline(
        tables,
        collectors,
        lambda: clock.now().monotonic_ns,
        read_gpus=_read_gpus(gpus, ring),
        run=runs,
        group_names=GroupNames(
            *(CgroupLabels(config.node, hierarchy_of(name), pods, machine_id).culprit_name for name in ("cpu", "blkio"))
        ),
    )
    stacks = _stack_collector(kernel, tables, processes, own, resources, settings=config.stacks)
    ras = _ras_asker(tables, processes, own, resources) if config.with_ras and "chains" in collectors else None
    call_sites = stacks.call_sites if stacks else _no_call_sites
    history = _history(config, own, clock, collectors)
    windows = WindowFeed([*([history] if history else []), otlp], clock, call_sites)
    all_sinks = [*sinks, *(sink for sink in (recordings, history) if sink), otlp]
    tracking = WorkloadTracking(
        pipeline,
        registry=WorkloadRegistry(
            with_whole_paths,
            reads,
            config.node,
            config.series.max_workloads,
            pods,
            with_engines="engine" in collectors,
            shares=tables.shares,
            refused=refused,
        ),
        store=store,
        sampler=sampler,
        events=ChainEvents(
            with_whole_paths,
            all_sinks,
            [one for one in (stacks, ras) if one],
            keepers=[history] if history else [],
            running=RunningProcesses(with_whole_paths, node_context(config.procfs), machine_id=machine_id),
        ),
        own=own,
        clock=clock,
        windows=windows,
    )
    snapshots = SnapshotBuilder(
        pipeline,
        tracking,
        store,
        clock,
        runs,
        host_collectors=host_collectors(
            collectors,
            kernel.maps,
            config.node,
            config.series.ttl_seconds,
            pods,
            shares=tables.shares,
            processes=processes,
            with_network_namespaces=config.collectors.network_namespaces,
            read_gpus=gpus.reading if gpus else None,
        ),
        windows=windows,
        report=partial(report_snapshot, own, pipeline, kernel.recursion_misses),
    )
    resources.callback(snapshots.close)
    return ExporterParts(
        own=own,
        clock=clock,
        kernel=kernel,
        with_returns=loaded.with_returns,
        discovery=discovery,
        looks=looks,
        sampler=sampler,
        store=store,
        tracking=tracking,
        snapshots=snapshots,
        otlp=otlp,
        recordings=recordings,
        history=history,
        windows=windows,
        poller=poller,
        gpus=gpus,
        call_sites=partial(_call_sites_reading, tracking, stacks),
        recorded=Recorded(
            kernel,
            config.node,
            config.probes.overhead_limit,
            attachments=lambda: [one.attachment for one in discovery.probed() if one.attachment],
            workloads=tracking.workloads,
            names=dict,
            threads=tables.read_threads,
        ),
    )


def _tables(kernel: Kernel, ring: RowRing | None) -> Tables:
    shares = Shares(kernel.maps, kernel.request_share)
    if ring is None:
        return Tables(kernel.maps, kernel.iterate, shares)
    return Tables(ring.wrap_maps(kernel.maps), ring.wrap_iterator(kernel.iterate), shares)


def _owner(processes: Processes, tgid: int) -> str:
    """The key of its owner; that of processes that have ended for one that has."""
    try:
        return owner_of(processes.cgroup(tgid), uid_of(processes, tgid)).key
    except ExporterError:
        return ""


def _mapping_watch(event_source: EventSource) -> MappingWatch | None:
    try:
        return MappingWatch(MARKS, event_source=event_source)
    except KernelRefused as error:
        log.warning(
            "libraries are found only by scanning /proc, up to one --probes.discovery-interval late: %s",
            error.one_line(),
        )
        return None


def _read_gpus(gpus: GpuSampler | None, ring: RowRing | None) -> Callable[[], Sequence[GpuState]]:
    """GPUs as they were sampled last."""
    if gpus is None:
        return tuple
    return ring.wrap_gpus(gpus.states) if ring else gpus.states


def _recorded_processes(
    processes: Processes, tracking: WorkloadTracking, stacks: StackCollector | None, clock: Clock
) -> dict[int, RecordedProcess]:
    workloads = tracking.workloads()
    since_ns = clock.now().monotonic_ns - KEPT_SECONDS * NANOSECONDS
    sites = bounded({number: stacks.call_sites_since(number, since_ns) for number in workloads} if stacks else {})
    found = {}
    for number, (identity, tgid) in workloads.items():
        context = process_context(processes, tgid)
        cgroup = printable(context.cgroup)
        found[number] = RecordedProcess(identity, tgid, cgroup, context.cpus, sites.get(number, ()))
    return found


def _no_call_sites(_process: int) -> tuple[CallSite, ...]:
    return ()


def _call_sites_reading(tracking: WorkloadTracking, stacks: StackCollector | None) -> CallSitesReading:
    if stacks is None:
        return NO_READING
    processes = [
        ProcessCallSites(identity, tgid, stacks.call_sites(process)) for process, tgid, identity in tracking.traced()
    ]
    return CallSitesReading(stacks.call_sites_read_ns, processes)


def _history(config: Config, own: OwnMetrics, clock: Clock, collectors: Sequence[str]) -> Recorder | None:
    if config.history.path is None:
        return None
    from exporter.history.recorder import Recorder  # noqa: PLC0415 - SQLite, only for those who keep one
    from exporter.history.writer import Settings  # noqa: PLC0415

    settings = Settings(
        config.history.path, config.history.max_bytes, config.history.retention_seconds, "chains" in collectors
    )
    return Recorder(settings, own, clock)


def _stack_collector(
    kernel: Kernel,
    tables: Tables,
    processes: Processes,
    own: OwnMetrics,
    resources: ExitStack,
    *,
    settings: StackSettings,
) -> StackCollector | None:
    stacks = Stacks(kernel)
    if not stacks.is_possible:
        return None
    for result in RESULTS:
        own.add(catalog.own.STACKS, 0, result)
    reader = TenantReader(processes, STACK_PATIENCE_SECONDS)
    collector = StackCollector(
        tables.read_threads,
        stacks,
        reader.rules_of,
        Symbols(processes, reader.files),
        lambda result: own.add(catalog.own.STACKS, 1, result),
        python=_python_evidence(kernel, tables, processes, own, reader, with_paths=settings.with_python_paths)
        if settings.with_python
        else None,
        on_idle=reader.end,
    )
    resources.callback(collector.close)
    resources.callback(reader.close)  # first: the collector may be waiting for it
    return collector


def _ras_asker(tables: Tables, processes: Processes, own: OwnMetrics, resources: ExitStack) -> RasAsker:
    for result in RAS_RESULTS:
        own.add(catalog.own.NCCL_RAS, 0, result)
    reader = TenantReader(processes, STACK_PATIENCE_SECONDS)
    view = RasView(processes, lambda tgid, names: reader.environment(tgid, tuple(names)))
    asker = RasAsker(
        tables.read_processes,
        tables.read_communicators,
        view.of,
        lambda result: own.add(catalog.own.NCCL_RAS, 1, result),
        on_idle=reader.end,
    )
    resources.callback(asker.close)
    resources.callback(view.close)  # first: the asker may be waiting for it
    resources.callback(reader.close)
    return asker


def _python_evidence(
    kernel: Kernel,
    tables: Tables,
    processes: Processes,
    own: OwnMetrics,
    reader: TenantReader,
    *,
    with_paths: bool,
) -> PythonEvidence | None:
    frames = PythonFrames(kernel)
    if not frames.is_possible:
        return None
    for result in INTERPRETER_RESULTS:
        own.add(catalog.own.PYTHON_INTERPRETERS, 0, result)
    stacks = PythonStacks(
        frames,
        reader.interpreters_of,
        processes.start_time_ticks,
        lambda result: own.add(catalog.own.PYTHON_INTERPRETERS, 1, result),
    )
    named_sites = NamedSites(stacks, processes.working_directory, with_paths=with_paths)
    for result in TASK_RESULTS:
        own.add(catalog.own.PYTHON_TASKS, 0, result)
    tasks = PythonTasks(
        frames,
        stacks,
        reader.asyncio_sections_of,
        named_sites.shown,
        lambda result: own.add(catalog.own.PYTHON_TASKS, 1, result),
    )
    return PythonEvidence(stacks, named_sites, tables.traced_tgids, tables.read_call_sites, tasks)
