"""The pipeline over fake tables and a fake /proc, for the tests of this folder."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial
from pathlib import Path

from exporter import catalog
from exporter.app.self_metrics import report_snapshot
from exporter.chains.event import ChainEvent
from exporter.clock import Clock, Moment
from exporter.config.probes import LaunchMode
from exporter.history.window import Window
from exporter.history.windowing import EndedProcess, ProcessTotals, WindowBuilder
from exporter.hostmetrics import HostCollector
from exporter.kernel.calibration import CallCost
from exporter.kernel.tables import Tables
from exporter.model import Histogram
from exporter.own_metrics.store import OwnMetrics
from exporter.pipeline.chain_events import ChainEvents
from exporter.pipeline.collector_runs import CollectorRuns
from exporter.pipeline.snapshot import SnapshotBuilder
from exporter.pipeline.tick import Pipeline
from exporter.pipeline.workload_tracking import WorkloadTracking
from exporter.probes.sampling import AdaptiveSampler
from exporter.series.store import SeriesStore
from exporter.workloads.orchestrators.pod_cache import PodCache
from exporter.workloads.registry import WorkloadRegistry
from tests.support.direct_reads import DirectReads
from tests.support.records import at, own_sample, series_of
from tests.support.stack_collector import STUCK, CollectorBench
from tests.support.tables import FakeTables
from tests.unit.host.process_tree import process


class Windows:
    """Builds windows of whatever is handed over. is_wanted: whether a window is due."""

    def __init__(self) -> None:
        self.is_wanted = True
        self.received: list[ProcessTotals] = []
        self._builder = WindowBuilder(at(0))

    def is_due(self, now: Moment) -> bool:
        return self.is_wanted

    def on_totals(self, totals: ProcessTotals) -> None:
        self.received.append(totals)

    def on_process_end(self, ended: EndedProcess) -> None:
        self._builder.end_process(ended)

    def windows(self) -> list[Window]:
        """Those of the last reading."""
        return self._builder.build(self.received[-1])


class Events:
    """A sink that keeps every event."""

    def __init__(self) -> None:
        self.received: list[ChainEvent] = []

    def on_chain_event(self, event: ChainEvent) -> None:
        self.received.append(event)


class Bench:
    """The pipeline as the exporter wires it, over fake tables and a fake /proc. now: the clock's time in seconds."""

    def __init__(
        self,
        proc: Path,
        make_tables: type[Tables] = Tables,
        impaired: Collection[str] = (),
        *,
        make_store: type[SeriesStore] = SeriesStore,
        host_collectors: Mapping[str, HostCollector] | None = None,
        pods: PodCache | None = None,
    ) -> None:
        self.kernel = FakeTables()
        self.tables = make_tables(self.kernel.maps, self.kernel.iterate)
        self.own = OwnMetrics()
        self.now = 100.0
        clock = Clock(lambda: at(self.now).monotonic_ns, lambda: at(self.now).unix_ns)
        self.processes = process(proc, 100, environ=b"RANK=3\0", cgroup=b"0::/\n")
        self.store = make_store(900.0, clock.now())
        collectors = ("cuda", "nccl", "sched", "chains", "engine")
        self.windows, self.events, self.scene = Windows(), Events(), CollectorBench(STUCK)
        runs = CollectorRuns(self.own, collectors, impaired)
        pipeline = Pipeline(self.tables, collectors, lambda: clock.now().monotonic_ns, run=runs)
        self.tracking = WorkloadTracking(
            pipeline,
            registry=WorkloadRegistry(self.processes, DirectReads(self.processes), "gpu7", 256, pods),
            store=self.store,
            sampler=AdaptiveSampler(
                CallCost(timed_ns=2000.0, counted_ns=500.0), limit=0.01, launch_mode=LaunchMode.FULL
            ),
            events=ChainEvents(self.processes, [self.events], [self.scene.collector]),
            own=self.own,
            clock=clock,
            windows=self.windows,
        )
        self.snapshots = SnapshotBuilder(
            pipeline,
            self.tracking,
            self.store,
            clock,
            runs,
            host_collectors=host_collectors or {},
            windows=self.windows,
            report=partial(report_snapshot, self.own, pipeline, dict),
        )

    def exported(self, metric: catalog.Metric) -> dict[tuple[str, ...], int | float | Histogram]:
        """The series of one metric in a fresh snapshot."""
        self.now += 1.0
        return series_of(self.snapshots.snapshot().families, metric)

    def own_value(self, name: str, **labels: str) -> float | None:
        """A sample of the exporter's own metrics."""
        return own_sample(self.own, name, **labels)
