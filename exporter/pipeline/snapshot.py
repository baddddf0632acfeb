"""Makes Snapshots: everything that is exported, at one moment. Ticks go on while one is taken.

In: Pipeline, the workloads' identities, collectors of the machine. Out: Snapshots, shared by readers within SHARED_SECONDS.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import NamedTuple

from exporter.clock import Clock, Moment
from exporter.history.collective_mark import CollectiveMark
from exporter.history.communicator_windows import LagKey
from exporter.history.membership import Membership
from exporter.history.window import ProcessLabels, Switches
from exporter.history.window_feed import WindowFeed
from exporter.history.windowing import ProcessTotals
from exporter.hostmetrics import HostCollector
from exporter.kernel.process_rows import ProcessRow
from exporter.model import Identity, Snapshot
from exporter.pipeline.collective_marks import collective_marks
from exporter.pipeline.collector_runs import CollectorRuns
from exporter.pipeline.memberships import lags_ns, memberships
from exporter.pipeline.tick import Pipeline
from exporter.pipeline.workload_tracking import WorkloadTracking, process_labels
from exporter.series.host_totals import TotalsByIdentity
from exporter.series.store import SeriesStore
from exporter.totals import Series, Total, Totals, merged
from exporter.units import NANOSECONDS, seconds

SHARED_SECONDS = 0.2
_SHARED_NS = int(SHARED_SECONDS * NANOSECONDS)
_NO_COLLECTORS: Mapping[str, HostCollector] = MappingProxyType({})

Report = Callable[[Snapshot, float], None]
"""Called after a Snapshot was taken, with the seconds that it took."""


class _TracedProcesses(NamedTuple):
    """What was read of all processes at one moment. identities: of those that are exported.

    collectives: the last ones. memberships: of processes with labels.
    """

    totals: Totals
    rows: Mapping[int, ProcessRow]
    identities: Mapping[int, Identity]
    switches: Mapping[int, tuple[int, int]]
    collectives: Callable[[Moment], Sequence[CollectiveMark]]
    memberships: Callable[[Mapping[int, ProcessLabels], Moment], Sequence[Membership]]
    lags_ns: Callable[[], Mapping[LagKey, int]]


class SnapshotBuilder:
    """Its methods may be called from any thread; one Snapshot is taken at a time.

    runs: guards the collectors of the machine. host_collectors: those, by name. windows: get what was read, by process.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        tracking: WorkloadTracking,
        store: SeriesStore,
        clock: Clock,
        runs: CollectorRuns,
        *,
        host_collectors: Mapping[str, HostCollector] = _NO_COLLECTORS,
        windows: WindowFeed | None = None,
        report: Report = lambda _snapshot, _seconds: None,
    ) -> None:
        self._pipeline = pipeline
        self._tracking = tracking
        self._store = store
        self._clock = clock
        self._runs = runs
        self._host_collectors = host_collectors
        self._windows = windows
        self._report = report
        self._lock = threading.Lock()
        self._latest: Snapshot | None = None
        self._is_closed = False

    def snapshot(self, *, is_shared: bool = True) -> Snapshot:
        """The current numbers. is_shared: a Snapshot of less than SHARED_SECONDS ago will do."""
        with self._lock:
            now = self._clock.now()
            if self._is_closed:
                return self._latest or Snapshot(now, ())
            latest = self._latest if is_shared else None
            if latest is None or now.monotonic_ns - latest.taken_at.monotonic_ns > _SHARED_NS:
                self._latest = latest = None  # of a full node the last one and the next take 10 MiB each
                self._latest = latest = self._take(now)
                self._report(latest, seconds(self._clock.now().monotonic_ns - now.monotonic_ns))
            return latest

    def feed_windows(self) -> None:
        """Read what a Snapshot would, for the windows alone: without a scrape there would be none."""
        with self._lock:
            if self._is_closed:
                return
            now = self._clock.now()
            with self._reading() as read:
                pass
            self._hand_to_windows(read, now)

    def close(self) -> None:
        """From now on the kernel is not read; a request still being served gets the last numbers."""
        with self._lock:
            self._is_closed = True

    def _take(self, now: Moment) -> Snapshot:
        """Most of the work needs no lock that a tick needs: a full node has twenty thousand histograms.

        A process that ends while this goes on is not exported from this reading: its totals have been kept by then.
        """
        host_totals = self._collect_host(now)
        with self._reading() as read:
            totals = merged((read.totals, self._tracking.totals()))
            traces = self._pipeline.traces(read.rows)
            snapshot = self._store.snapshot(totals, read.identities, now, traces, host_totals)
            self._tracking.release_unused_identities()
        self._hand_to_windows(read, now)
        missing = self._runs.missing_metrics()
        return replace(snapshot, families=tuple(one for one in snapshot.families if one.metric not in missing))

    @contextmanager
    def _reading(self) -> Iterator[_TracedProcesses]:
        """The processes now. The pipeline's lock is held while the block lasts."""
        reading, totals = self._pipeline.read_all()
        with self._pipeline.lock:
            rows = reading.processes
            owners, engines = self._tracking.owners(rows), self._tracking.engines()
            totals = merged((totals, self._pipeline.totals(reading, owners, engines)))
            collectives = partial(collective_marks, reading.communicators, reading.progress)
            places = partial(memberships, reading.communicators, reading.progress)
            lags = partial(lags_ns, reading.communicators, reading.progress)
            del reading
            identities, switches = self._tracking.identities(), self._pipeline.switches()
            yield _TracedProcesses(totals, rows, identities, switches, collectives, places, lags)

    def _collect_host(self, now: Moment) -> TotalsByIdentity:
        """Totals of the machine; every collector runs, whatever becomes of the others."""
        if not self._host_collectors:
            return {}
        traced = self._tracking.traced()
        found: dict[Identity, dict[Series, Total]] = {}
        for name, collector in self._host_collectors.items():
            totals = self._runs(name, partial(collector.collect, now.monotonic_ns, traced))
            for identity, totals_of_identity in (totals or {}).items():
                found.setdefault(identity, {}).update(totals_of_identity)
            self._runs.set_resets(name, collector.resets)
        return found

    def _hand_to_windows(self, read: _TracedProcesses, now: Moment) -> None:
        if self._windows is None or not self._windows.is_due(now):
            return
        named = read.identities.keys() & read.rows.keys()
        labels = {number: process_labels(read.identities[number], read.rows[number]) for number in named}
        switches = {number: Switches(*both) for number, both in read.switches.items()}
        collectives: Sequence[CollectiveMark] = ()
        places: Sequence[Membership] = ()
        lags: Mapping[LagKey, int] = {}
        if not self._runs.has_failed("nccl"):
            collectives, places, lags = read.collectives(now), read.memberships(labels, now), read.lags_ns()
        costs_ns = self._tracking.probe_costs_ns()
        totals = ProcessTotals(now, read.totals, labels, switches, collectives, places, lags, costs_ns)
        self._windows.on_totals(totals)
