"""The exporter's tick: admit, name and retire workloads around Pipeline.tick(), and report what happened to their chains.

In: process numbers that have ended; Pipeline, WorkloadRegistry. Out: totals kept in the SeriesStore, ChainEvents, window totals.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Final

from exporter import catalog
from exporter.chains.chain import Chain
from exporter.chains.event import ChainProcess
from exporter.clock import Clock
from exporter.history.communicator_windows import LagKey
from exporter.history.membership import Membership
from exporter.history.window import NO_SWITCHES, ProcessLabels, Switches
from exporter.history.window_feed import WindowFeed
from exporter.history.windowing import EndedProcess
from exporter.kernel.process_rows import CommunicatorRow, ProcessRow
from exporter.kernel.readings import Reading
from exporter.model import Identity, label_value
from exporter.own_metrics.store import OwnMetrics
from exporter.pipeline.chain_events import ChainEvents
from exporter.pipeline.chain_shares import ChainShares
from exporter.pipeline.memberships import lags_ns, memberships
from exporter.pipeline.tick import Detected, Pipeline, Rows, TickResult
from exporter.probes.sampling import AdaptiveSampler
from exporter.series.host_totals import TracedProcess
from exporter.series.store import SeriesStore
from exporter.totals import Totals, merged
from exporter.workloads.registry import WorkloadRegistry

RETIRED_AT_ONCE: Final = 1_024
"""Processes whose last totals are kept in one tick. A program may end thousands in a second."""


class WorkloadTracking:
    """Its methods may be called from any thread.

    Two locks: one for the registry and the sampler, never held for long; Pipeline.lock for the accounting, names and kept totals,
    which must not change while a snapshot is taken. A thread that waits for the second must not hold the first.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        *,
        registry: WorkloadRegistry,
        store: SeriesStore,
        sampler: AdaptiveSampler,
        events: ChainEvents,
        own: OwnMetrics,
        clock: Clock,
        windows: WindowFeed | None = None,
    ) -> None:
        self._pipeline = pipeline
        self._registry = registry
        self._store = store
        self._sampler = sampler
        self._events = events
        self._own = own
        self._clock = clock
        self._windows = windows
        self._chain_shares = ChainShares(registry.refused)
        self._lock = threading.Lock()
        # Processes whose last totals have not been kept yet, in the order of their ends.
        self._ended: dict[int, None] = {}
        self._communicators: dict[
            int, Sequence[CommunicatorRow]
        ] = {}  # the last ones of a process, which it may have destroyed

    def admit(self) -> None:
        """Read /proc of new processes while it is still there. Reads small tables only."""
        with self._lock:
            self._registry.admit(self._pipeline.tables.read_processes())

    def tick(self, ended: Iterable[int]) -> None:
        """Run one tick of the pipeline, and name or retire the processes whose time has come.

        While a snapshot is taken this is left to the next tick: a snapshot accounts what was lost.
        """
        with self._lock:
            self._ended.update(dict.fromkeys(ended))
            rows = self._pipeline.read()
            self._registry.admit(rows.processes, self._ended)
            if self._pipeline.lock.acquire(blocking=False):
                try:
                    self._run(rows)
                finally:
                    self._pipeline.lock.release()
            self._sample_launches(rows.processes.keys() - self._ended.keys())
            self._ended = {process: None for process in self._ended if process in rows.processes}
            self._own.set(catalog.own.TRACKED_PROCESSES, len(self._registry))

    def end_all(self) -> None:
        """Nothing is traced any more: keep the last totals of every process, as if it had ended."""
        with self._lock:
            processes = list(self._pipeline.tables.read_processes())
        self.tick(processes)

    def begin_liveness_check(self) -> None:
        """From now on missed_exits() goes through all processes once."""
        with self._lock:
            self._registry.queue_liveness_checks()

    def missed_exits(self) -> list[int]:
        """The next few processes that have ended without an exit event."""
        with self._lock:
            return self._registry.find_ended()

    def workloads(self) -> dict[int, tuple[Identity | None, int]]:
        """Process number -> its identity, None while it is held back, and its tgid, 0 if not visible."""
        with self._lock:
            identities = self._registry.identities()
            return {number: (identities.get(number), tgid) for number, tgid in self._registry.tgids().items()}

    def traced(self) -> list[TracedProcess]:
        """Processes that are exported."""
        with self._lock:
            tgids, identities = self._registry.tgids(), self._registry.identities()
        return [TracedProcess(process, tgids[process], identity) for process, identity in identities.items()]

    def owners(self, processes: Iterable[int]) -> dict[int, Hashable]:
        """Process -> the identity whose series it shares; itself while it has none. Unknown processes are left out."""
        with self._lock:
            return self._owners(processes)

    def engines(self) -> Mapping[int, str]:
        """Process -> its serving engine or framework."""
        with self._lock:
            return self._registry.engines()

    def identities(self) -> dict[int, Identity]:
        """Process -> identity, of those that are exported."""
        with self._lock:
            return self._registry.identities()

    def totals(self) -> Totals:
        """Info series of every workload, and what probes cost it."""
        with self._lock:
            return merged((self._registry.workload_info(), self._sampler.totals()))

    def probe_costs_ns(self) -> Mapping[int, int]:
        """What probes have cost each process so far, as of the last tick."""
        with self._lock:
            return self._sampler.spent_ns()

    def release_unused_identities(self) -> None:
        """Make room for new workloads: identities without a living process and without kept totals are free again."""
        with self._lock:
            self._registry.expire(self._store.retained())
            self._registry.count_refusals()
            self._registry.count_folded(self._store.take_folded())
            self._own.replace(catalog.own.REFUSED, self._registry.refused.sums())

    def _run(self, rows: Rows) -> None:
        """Needs both locks."""
        ended = set(islice(self._ended, RETIRED_AT_ONCE))
        self._communicators.update((process, known) for process, known in rows.communicators.items() if known)
        renames = self._registry.update_identities(rows.communicators)
        result = self._pipeline.tick(
            rows,
            owners=self._owners(rows.processes),
            engines=self._registry.engines(),
            ended=ended,
            leaving=ended.union(process for process, _ in renames),
        )
        self._report(result.detected)
        for process, old in renames:
            self._store.rename(process, old, result.totals.get(process, {}))
        for identity in self._registry.evicted:
            self._store.end(identity, self._clock.now())
        if result.reading is not None:
            self._retire(ended, rows, result)
            self._pipeline.forget(ended, result.reading)
            for process in ended:
                self._communicators.pop(process, None)
            self._sampler.forget(ended)
            for process in ended:
                del self._ended[process]

    def _retire(self, ended: Iterable[int], rows: Rows, result: TickResult) -> None:
        costs_ns = self._sampler.spent_ns()
        for process in ended:
            identity = self._registry.remove(process)
            if identity is None:
                continue
            totals = result.totals.get(process, {})
            self._store.retire(process, identity, totals, result.traces.get(process, {}))
            self._registry.count_folded(self._store.take_folded())
            for brief in self._registry.take_surplus():
                self._store.fold(brief, self._registry.other, self._clock.now())
            row = rows.processes.get(process)
            if self._windows is not None and row is not None:
                switches = Switches(*self._pipeline.switches().get(process, NO_SWITCHES))
                labels = process_labels(identity, row)
                places, lags = self._last_places(process, labels, result.reading)
                self._windows.on_process_end(
                    EndedProcess(process, labels, totals, switches, places, lags, costs_ns.get(process))
                )

    def _last_places(
        self, process: int, labels: ProcessLabels, reading: Reading | None
    ) -> tuple[Sequence[Membership], Mapping[LagKey, int]]:
        """Its last places in communicators, and how late it had come there in all."""
        if reading is None:
            return (), {}
        communicators = {process: self._communicators.get(process, ())}
        places = memberships(communicators, reading.progress, {process: labels}, self._clock.now())
        return places, lags_ns(communicators, reading.progress)

    def _report(self, detected: Collection[Detected]) -> None:
        """Chain events go out while it is still known whose they are."""
        now, transitions = self._clock.now(), []
        for transition, _, culprit_tgids in detected:
            owner = self._registry.owner(transition.chain.process)
            if self._chain_shares.admits(transition, owner, now.monotonic_ns):
                transitions.append(transition)
                self._events.transition(transition, self._chain_process(transition.chain, culprit_tgids), now)
        unreported = self._chain_shares.unreported
        chains = [chain for chain in self._pipeline.open_chains() if chain.id not in unreported]
        self._pipeline.run("chains", partial(self._events.update, chains, self._chain_process, now))
        self._pipeline.run("chains", partial(self._events.evidence, chains, transitions, self._chain_process, now))

    def _chain_process(self, chain: Chain, culprit_tgids: tuple[int, ...] | None = None) -> ChainProcess:
        if culprit_tgids is None:
            culprit_tgids = self._pipeline.culprit_tgids(chain)
        identity = self._registry.identities().get(chain.process)
        since_ns = self._pipeline.charged_since_ns(culprit_tgids)
        traced = tuple(tgid for tgid in self._registry.tgids().values() if tgid)
        return ChainProcess(identity, self._registry.tgid(chain.process), culprit_tgids, since_ns, traced)

    def _owners(self, processes: Iterable[int]) -> dict[int, Hashable]:
        identities = self._registry.identities()
        return {process: identities.get(process, process) for process in processes if process in self._registry}

    def _sample_launches(self, processes: Collection[int]) -> None:
        """Time fewer launches of processes that the probes cost too much."""
        now_ns = self._clock.now().monotonic_ns
        if not self._sampler.is_due(now_ns):
            return
        alive = {process: row for process, row in self._pipeline.feeding(processes).items() if process in processes}
        for process, mask in self._sampler.update(alive, now_ns, self._described).items():
            self._pipeline.tables.sample_launches(process, mask)

    def _described(self, process: int) -> str:
        """`pid 4032 (rank 0)`."""
        identity = self._registry.identities().get(process)
        rank = f" (rank {identity.rank})" if identity and identity.rank else ""
        return f"pid {self._registry.tgid(process)}{rank}"


def process_labels(identity: Identity, row: ProcessRow) -> ProcessLabels:
    """Who a process is, for windows."""
    return ProcessLabels(identity, row.tgid, label_value(row.comm.decode("utf-8", "replace")))
