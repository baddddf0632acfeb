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
from exporter.errors import ExporterError, KernelRefused
from exporter.gpu.model import GpuState
from exporter.gpu.nvml import Nvml
from exporter.gpu.sampler import GpuSampler
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
from exporter.kernel.loader import Kernel
from exporter.kernel.mapping_watch import MappingWatch
from exporter.kernel.share_rows import Shares
from exporter.kernel.stacks import Stacks
from exporter.kernel.tables import Tables
from exporter.own_metrics.store import OwnMetrics
from exporter.pipeline.chain_events import ChainEvents
from exporter.pipeline.collector_runs import CollectorRuns
from exporter.pipeline.process_context import process_context
from exporter.pipeline.snapshot import SnapshotBuilder
from exporter.pipeline.tick import Pipeline
from exporter.pipeline.workload_tracking import WorkloadTracking
from exporter.probes.discovery import Discovery
from exporter.probes.looks import Looks
from exporter.probes.sampling import AdaptiveSampler
from exporter.recording.file import RecordedProcess
from exporter.recording.ring import RowRing
from exporter.recording.writer import RecordingWriter
from exporter.series.store import SeriesStore
from exporter.stacks.collector import RESULTS, StackCollector
from exporter.text.printable import printable
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
    """What runs. with_returns: whether returns of functions are probed. None: not wanted, or not possible here."""

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
    poller: OrchestratorPoller | None
    gpus: GpuSampler | None


def overhead_limit(config: Config, *, with_returns: bool) -> float:
    """Without probed returns no launch is timed, so none can be timed less often."""
    return config.probes.overhead_limit if with_returns else math.inf


def build(
    config: Config,
    resources: ExitStack,
    sinks: Sequence[ChainSink],
    *,
    only_in: Path | None = None,
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
    loaded = wanted_programs.load(config, own, resources)
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
        _mapping_watch(),
        owner,
        interval_seconds=config.probes.discovery_interval_seconds,
    )
    history = _history(config, own, clock, collectors)
    recordings = (
        RecordingWriter(
            config.recording.directory, config.node, ring, lambda: _recorded_processes(with_whole_paths, tracking)
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
    stacks = _stack_collector(kernel, tables, processes, own, resources)
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
        events=ChainEvents(with_whole_paths, all_sinks, stacks),
        own=own,
        clock=clock,
        history=history,
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
            processes=processes,
            with_network_namespaces=config.collectors.network_namespaces,
            read_gpus=gpus.reading if gpus else None,
        ),
        history=history,
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
        poller=poller,
        gpus=gpus,
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


def _mapping_watch() -> MappingWatch | None:
    try:
        return MappingWatch(MARKS)
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


def _recorded_processes(processes: Processes, tracking: WorkloadTracking) -> dict[int, RecordedProcess]:
    found = {}
    for number, (identity, tgid) in tracking.workloads().items():
        context = process_context(processes, tgid)
        found[number] = RecordedProcess(identity, tgid, printable(context.cgroup), context.cpus)
    return found


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
    kernel: Kernel, tables: Tables, processes: Processes, own: OwnMetrics, resources: ExitStack
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
        on_idle=reader.end,
    )
    resources.callback(collector.close)
    resources.callback(reader.close)  # first: the collector may be waiting for it
    return collector
