"""From kernel tables to a Snapshot: reads, collects, names, keeps the books. One lock around all of it.

In: Tables, Roster, Ledger. Out: Snapshots, shared by publications within SHARED_SECONDS; the two can be called from any thread.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import TypeVar

from exporter import catalog
from exporter.clock import Clock, Moment
from exporter.collectors import COLLECTORS, Collect
from exporter.collectors.sched import Sched
from exporter.kernel.rows import ProcessRow, Reading, Tables
from exporter.ledger import Ledger
from exporter.model import Snapshot
from exporter.output.own_metrics import OwnMetrics
from exporter.roster import Roster
from exporter.totals import Totals, merged
from exporter.units import NANOSECONDS, seconds

log = logging.getLogger(__name__)

SHARED_SECONDS = 0.2
_SHARED_NS = int(SHARED_SECONDS * NANOSECONDS)
_SCHED = "sched"

T = TypeVar("T")


class Publication:
    """Owns what is exported.

    collectors: names of those that run. recursion_misses: asks the kernel, program name -> runs it left out.
    """

    def __init__(
        self,
        tables: Tables,
        roster: Roster,
        ledger: Ledger,
        own: OwnMetrics,
        collectors: Iterable[str],
        *,
        clock: Clock,
        recursion_misses: Callable[[], Mapping[str, int]] = dict,
    ) -> None:
        self._recursion_misses = recursion_misses
        self._clock = clock
        self._tables = tables
        self._roster = roster
        self._ledger = ledger
        self._own = own
        names = tuple(collectors)
        self._collectors: Mapping[str, Collect] = {name: COLLECTORS[name] for name in names if name != _SCHED}
        self._sched = Sched(tables) if _SCHED in names else None
        self._lock = threading.Lock()
        self._latest: Snapshot | None = None
        self._is_closed = False
        self._failed: set[str] = set()  # collectors whose last run failed
        for name in names:
            own.add(catalog.COLLECTOR_ERRORS, 0, name)

    def admit(self) -> None:
        """Meet new processes while their /proc is still there. Reads small rows only."""
        with self._lock:
            self._roster.admit(self._tables.read_processes())

    def tick(self, ended: Iterable[int]) -> None:
        """Book what the GPU lost, name the processes whose time has come, take leave of those that ended.

        The whole tables are read only if need be.
        """
        with self._lock:
            processes = self._tables.read_processes()
            self._roster.admit(processes)
            ended = set(ended)
            renames = self._roster.tick(self._tables.read_communicators())
            if ended or renames:
                reading = self._tables.read()
                totals = self._collect(reading, ended)
                for process, old in renames:
                    self._ledger.rename(process, old, totals.get(process, {}))
                for process in ended:
                    identity = self._roster.dismiss(process)
                    if identity is not None:
                        self._ledger.retire(process, identity, totals.get(process, {}))
                self._tables.forget(ended, reading)
                if self._sched:
                    self._sched.forget(ended)
            else:
                self._book(processes)
            self._own.set(catalog.TRACKED_PROCESSES, len(self._roster))

    def gone(self) -> list[int]:
        """Processes that ended without the kernel's event having been seen."""
        with self._lock:
            return self._roster.gone()

    def snapshot(self, *, is_shared: bool = True) -> Snapshot:
        """The current numbers; those of a moment ago will do where they are shared."""
        with self._lock:
            now = self._clock.now()
            if self._is_closed:
                return self._latest or Snapshot(now, ())
            latest = self._latest if is_shared else None
            if latest is None or now.monotonic_ns - latest.taken_at.monotonic_ns > _SHARED_NS:
                latest = self._latest = self._take(now)
                self._report(seconds(self._clock.now().monotonic_ns - now.monotonic_ns))
            return latest

    def close(self) -> None:
        """From here on the kernel is not asked again; a request still being served gets the last numbers."""
        with self._lock:
            self._is_closed = True

    def _take(self, now: Moment) -> Snapshot:
        totals = merged(iter((self._collect(self._tables.read()), self._roster.workload_info())))
        snapshot = self._ledger.snapshot(totals, self._roster.identities(), now)
        # Without the living, a sum would be that of the dead, and go back: a metric is exported whole or not at all.
        missing = {metric for name in self._failed for metric in catalog.METRICS_OF_COLLECTOR[name]}
        return replace(snapshot, families=tuple(one for one in snapshot.families if one.metric not in missing))

    def _book(self, processes: Mapping[int, ProcessRow]) -> None:
        """What was lost since the last tick, as collecting does."""
        if self._sched:
            now_ns = self._clock.now().monotonic_ns
            self._run(_SCHED, partial(self._sched.tick, self._owners(processes), now_ns))

    def _owners(self, processes: Mapping[int, ProcessRow]) -> dict[int, Hashable]:
        """The identity of each process; itself while it has none."""
        identities = self._roster.identities()
        return {process: identities.get(process, process) for process in processes}

    def _collect(self, reading: Reading, ended: Collection[int] = ()) -> Totals:
        """Every collector that works; one that fails costs its own metrics. ended: processes that are read for the last time."""
        runs = {name: partial(collect, reading) for name, collect in self._collectors.items()}
        if self._sched:
            now_ns = self._clock.now().monotonic_ns
            runs[_SCHED] = partial(self._sched.collect, self._owners(reading.processes), now_ns, ended)
        return merged(filter(None, (self._run(name, collect) for name, collect in runs.items())))

    def _run(self, name: str, collect: partial[T]) -> T | None:
        try:
            result = collect()
        except Exception:  # a defect in one collector must not cost the others' metrics
            log.exception("collector %s failed", name)
            self._own.add(catalog.COLLECTOR_ERRORS, 1, name)
            self._own.set(catalog.COLLECTOR_SUCCESS, 0, name)
            self._failed.add(name)
            return None
        self._failed.discard(name)
        self._own.set(catalog.COLLECTOR_SUCCESS, 1, name)
        return result

    def _report(self, duration_seconds: float) -> None:
        assert self._latest is not None  # noqa: S101 - just taken
        own, tables = self._own, self._tables
        own.set(catalog.PUBLISH_DURATION, duration_seconds)
        own.set(catalog.SERIES, sum(len(family.points) for family in self._latest.families))
        own.replace(catalog.MAP_ENTRIES, {(name,): count for name, count in tables.entries.items()})
        own.replace(catalog.MAP_CAPACITY, {(name,): count for name, count in tables.capacities().items()})
        for (program, reason), count in tables.losses().items():
            own.set(catalog.LOSSES, count, program.name.lower(), reason.name.lower())
        own.set(catalog.HEALED_SWITCHES, tables.healed())
        for figure, error in (self._sched.errors() if self._sched else {}).items():
            own.set(catalog.ACCOUNTING_ERROR, error, figure)
        recursions: Counter[str] = Counter()
        for name, misses in self._recursion_misses().items():
            recursions[name.partition("_")[0]] += misses
        for subject, count in recursions.items():
            own.set(catalog.LOSSES, count, subject, "recursion")
