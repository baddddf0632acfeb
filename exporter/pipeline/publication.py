"""From kernel tables to a Snapshot: reads, collects, names, keeps the books. Ticks go on while a snapshot is taken.

In: Tables, Roster, Ledger. Out: Snapshots, shared by publications within SHARED_SECONDS; the two can be called from any thread.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Container, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import NamedTuple, TypeVar

from exporter import catalog
from exporter.accounting.thread_time import times_by_process
from exporter.chains.chain import Chain, Transition
from exporter.chains.engine import NOTHING
from exporter.clock import Clock, Moment
from exporter.collectors import COLLECTORS, Collect, HostCollector
from exporter.collectors.engine import Engines
from exporter.collectors.sched import Sched
from exporter.gpu.model import GpuState
from exporter.history.window import NO_SWITCHES, ProcessLabels, Switches
from exporter.history.windowing import ProcessTotals, WindowSink
from exporter.kernel.process_rows import CommunicatorRow, ProcessRow
from exporter.kernel.readings import Reading
from exporter.kernel.tables import Tables
from exporter.model import Identity, Snapshot, label_value
from exporter.output.own_metrics import OwnMetrics
from exporter.pipeline.detection import Diagnosis
from exporter.probes.sampling import AdaptiveSampler
from exporter.series.host_totals import TotalsByIdentity, TracedProcess
from exporter.series.store import SeriesStore
from exporter.stacks.collector import ChainProcess, StackCollector
from exporter.totals import Series, Total, Totals, Traces, merged
from exporter.units import NANOSECONDS, seconds
from exporter.workloads.engine import SERVING
from exporter.workloads.registry import WorkloadRegistry

log = logging.getLogger(__name__)

SHARED_SECONDS = 0.2
_SHARED_NS = int(SHARED_SECONDS * NANOSECONDS)
_SCHED, _CHAINS, _ENGINE = "sched", "chains", "engine"
_NONE: Mapping[str, HostCollector] = MappingProxyType({})

T = TypeVar("T")

Tell = Callable[[Transition, Identity | None, int, tuple[int, ...], Moment], None]
"""Of a process: its identity, None while it is held back; its tgid, 0 out of sight; tgids of those most to blame; and now."""


def _say_nothing(
    _transition: Transition, _identity: Identity | None, _tgid: int, _culprits: tuple[int, ...], _now: Moment
) -> None:
    pass


TellEvidence = Callable[[Chain, ChainProcess, tuple[str, ...], Moment], None]
"""What a witness says of the threads of a chain."""


def _say_no_evidence(_chain: Chain, _whose: ChainProcess, _lines: tuple[str, ...], _now: Moment) -> None:
    pass


class _Known(NamedTuple):
    """Of the processes in the tables at a moment. identities: of those that are exported."""

    totals: Totals
    rows: Mapping[int, ProcessRow]
    identities: Mapping[int, Identity]
    switches: Mapping[int, tuple[int, int]]


class Publication:
    """Owns what is exported.

    collectors: names of those that run. impaired: those of which a kernel program is missing; they run, and are no success.
    tell: what happens to chains, as it happens. onlooker: sees what is read, by process.
    witness: looks at threads of open chains, None where there is no living process to look at; tell_evidence: what it says.
    recursion_misses: asks the kernel, program name -> runs it left out. surroundings: collectors of the machine, by name.
    devices: what is known of GPUs, as it was sampled last.
    """

    def __init__(
        self,
        tables: Tables,
        roster: WorkloadRegistry,
        ledger: SeriesStore,
        own: OwnMetrics,
        collectors: Iterable[str],
        *,
        clock: Clock,
        governor: AdaptiveSampler,
        tell: Tell = _say_nothing,
        witness: StackCollector | None = None,
        tell_evidence: TellEvidence = _say_no_evidence,
        onlooker: WindowSink | None = None,
        impaired: Collection[str] = (),
        recursion_misses: Callable[[], Mapping[str, int]] = dict,
        surroundings: Mapping[str, HostCollector] = _NONE,
        devices: Callable[[], Sequence[GpuState]] = tuple,
    ) -> None:
        self._tell = tell
        self._witness = witness
        self._tell_evidence = tell_evidence
        self._onlooker = onlooker
        self._impaired = impaired
        self._recursion_misses = recursion_misses
        self._surroundings = surroundings
        self._clock = clock
        self._tables = tables
        self._roster = roster
        self._ledger = ledger
        self._governor = governor
        self._own = own
        names = tuple(collectors)
        self._collectors: Mapping[str, Collect] = {name: COLLECTORS[name] for name in names if name in COLLECTORS}
        self._sched = Sched(tables) if _SCHED in names else None
        self._diagnosis = (
            Diagnosis(tables, self._sched.standing, devices=devices) if self._sched and _CHAINS in names else None
        )
        self._engines = Engines(tables, SERVING) if _ENGINE in names else None
        self._publishing = threading.Lock()  # one snapshot at a time
        # The accounting; names and kept totals stay as they are. Whoever waits for it must not hold _lock.
        self._books = threading.Lock()
        self._lock = threading.Lock()  # the roster and the governor; never held for long
        self._latest: Snapshot | None = None
        self._is_closed = False
        self._ended: set[int] = set()  # processes whose totals have not been kept yet
        self._failed: set[str] = set()  # collectors whose last run failed
        for name in names:
            own.add(catalog.own.COLLECTOR_ERRORS, 0, name)

    def admit(self) -> None:
        """Meet new processes while their /proc is still there. Reads small rows only."""
        with self._lock:
            self._roster.admit(self._tables.read_processes())

    def tick(self, ended: Iterable[int]) -> None:
        """Book what the GPU lost, name the processes whose time has come, take leave of those that ended.

        While a publication keeps the books, this is put off to the next tick: it books what was lost itself.
        """
        with self._lock:
            self._ended.update(ended)
            processes = self._tables.read_processes()
            self._roster.admit(processes)
            if self._books.acquire(blocking=False):
                try:
                    self._settle(processes)
                finally:
                    self._books.release()
            self._govern(processes.keys() - self._ended)
            self._ended &= processes.keys()
            self._own.set(catalog.own.TRACKED_PROCESSES, len(self._roster))

    def _settle(self, processes: Mapping[int, ProcessRow]) -> None:
        """What was lost, names, and totals that stay. Needs the lock and the books."""
        ended = set(self._ended)
        communicators = self._tables.read_communicators()
        renames = self._roster.update_identities(communicators)
        self._serve(self._roster.engines())
        if not ended and not renames:
            self._book(processes)
            self._diagnose(processes, communicators)
            return
        wanted = ended.union(process for process, _ in renames)
        reading = self._tables.read_of({number: row for number, row in processes.items() if number in wanted})
        of_threads = self._last_of_threads(reading, processes, ended)
        self._diagnose(processes, communicators, ended)
        totals = merged((self._collect(reading), of_threads, self._of_chains(wanted), self._of_engines(wanted)))
        traces = self._traces(ended)
        for process, old in renames:
            self._ledger.rename(process, old, totals.get(process, {}))
        for process in ended:
            identity = self._roster.remove(process)
            if identity is not None:
                self._ledger.retire(process, identity, totals.get(process, {}), traces.get(process, {}))
                self._show_last(process, identity, processes.get(process), totals.get(process, {}))
        self._tables.forget(ended, reading)
        self._governor.forget(ended)
        if self._engines:
            self._engines.forget(ended)
        if self._sched:
            self._sched.forget(ended)
        if self._diagnosis:
            self._diagnosis.forget(ended)
        self._ended.clear()

    def take_leave(self) -> None:
        """Nothing is traced any more: of every process these are the last totals, as if it had ended.

        While a publication keeps the books, at the next tick.
        """
        with self._lock:
            processes = list(self._tables.read_processes())
        self.tick(processes)

    def call_roll(self) -> None:
        """From here on gone() goes through the processes once."""
        with self._lock:
            self._roster.queue_liveness_checks()

    def gone(self) -> list[int]:
        """Of the next few processes those that ended without the kernel's event having been seen."""
        with self._lock:
            return self._roster.find_ended()

    def snapshot(self, *, is_shared: bool = True) -> Snapshot:
        """The current numbers; those of a moment ago will do where they are shared."""
        with self._publishing:
            now = self._clock.now()
            if self._is_closed:
                return self._latest or Snapshot(now, ())
            latest = self._latest if is_shared else None
            if latest is None or now.monotonic_ns - latest.taken_at.monotonic_ns > _SHARED_NS:
                self._latest = latest = None  # of a full node the last one and the next take 10 MiB each
                self._latest = latest = self._take(now)
                self._report(seconds(self._clock.now().monotonic_ns - now.monotonic_ns))
            return latest

    def workloads(self) -> dict[int, tuple[Identity | None, int]]:
        """Of each process that is known: its identity, None while it is held back; its tgid, 0 out of sight."""
        with self._lock:
            identities = self._roster.identities()
            return {number: (identities.get(number), tgid) for number, tgid in self._roster.tgids().items()}

    def close(self) -> None:
        """From here on the kernel is not asked again; a request still being served gets the last numbers."""
        with self._publishing, self._lock:
            self._is_closed = True

    def _take(self, now: Moment) -> Snapshot:
        """Most of the work is done without the lock, so that ticks go on: a full node has twenty thousand histograms.

        A process that ends meanwhile is not exported from this reading: its totals have been kept by then.
        """
        of_places = self._of_places(now)
        with self._reading() as known:
            with self._lock:
                info, overhead = self._roster.workload_info(), self._governor.totals()
            totals = merged((known.totals, info, overhead))
            snapshot = self._ledger.snapshot(totals, known.identities, now, self._traces(known.rows), of_places)
            with self._lock:
                self._roster.expire(self._ledger.retained())
        self._show(known, now)
        # Without the living, a sum would be that of the dead, and go back: a metric is exported whole or not at all.
        missing = {metric for name in self._failed for metric in catalog.METRICS_OF_COLLECTOR[name]}
        return replace(snapshot, families=tuple(one for one in snapshot.families if one.metric not in missing))

    @contextmanager
    def _reading(self) -> Iterator[_Known]:
        """What is known now. The books are kept while the block lasts."""
        reading = self._tables.read()
        totals = self._collect(reading)
        with self._books:
            totals = merged((totals, self._of_threads(reading), self._of_chains(reading.processes)))
            rows = reading.processes
            del reading
            with self._lock:
                engines = self._roster.engines()
            self._serve(engines)
            totals = merged((totals, self._of_engines(rows)))
            with self._lock:
                identities = self._roster.identities()
            yield _Known(totals, rows, identities, self._switches())

    def look(self) -> None:
        """Read what a snapshot would, for the onlooker alone: where nobody scrapes it would not see anything."""
        with self._publishing:
            if self._is_closed:
                return
            now = self._clock.now()
            with self._reading() as known:
                pass
            self._show(known, now)

    def _show(self, known: _Known, now: Moment) -> None:
        if self._onlooker is None or not self._onlooker.is_due(now):
            return
        named = known.identities.keys() & known.rows.keys()
        labels = {number: _process_labels(known.identities[number], known.rows[number]) for number in named}
        switches = {number: Switches(*both) for number, both in known.switches.items()}
        self._onlooker.on_totals(ProcessTotals(now, known.totals, labels, switches))

    def _show_last(
        self, process: int, identity: Identity, row: ProcessRow | None, totals: Mapping[Series, Total]
    ) -> None:
        if self._onlooker is not None and row is not None:
            switches = Switches(*self._switches().get(process, NO_SWITCHES))
            self._onlooker.on_process_end(process, _process_labels(identity, row), totals, switches)

    def _switches(self) -> Mapping[int, tuple[int, int]]:
        return self._sched.switches if self._sched else {}

    def _of_threads(self, reading: Reading) -> Totals:
        """What the accounting says; nothing where it is off, or has failed. Needs the books."""
        if self._sched is None:
            return {}
        with self._lock:
            owners = self._owners(reading.processes)
        accounts = self._run(_SCHED, partial(self._sched.update, owners, self._now_ns(), reading))
        if accounts is None:
            return {}
        return self._run(_SCHED, partial(self._sched.totals, accounts, times_by_process(accounts))) or {}

    def _last_of_threads(self, reading: Reading, processes: Mapping[int, ProcessRow], ended: Collection[int]) -> Totals:
        """The same of the processes of the reading, all others being booked on the way. Needs the lock and the books."""
        if self._sched is None:
            return {}
        of = reading.processes.keys()
        with_threads = not of <= set(ended)
        update = partial(
            self._sched.update, self._owners(processes), self._now_ns(), reading, with_threads=with_threads
        )
        accounts = self._run(_SCHED, update)
        if accounts is None:
            return {}
        times = times_by_process(accounts, of)
        return self._run(_SCHED, partial(self._sched.totals, accounts, times, ended, of)) or {}

    def _book(self, processes: Mapping[int, ProcessRow]) -> None:
        """What was lost since the last tick, as collecting does."""
        if self._sched:
            wanted = self._diagnosis.wanted if self._diagnosis else NOTHING
            owners = self._owners(processes)
            self._run(_SCHED, partial(self._sched.tick, owners, self._now_ns(), **wanted._asdict()))

    def _diagnose(
        self,
        processes: Mapping[int, ProcessRow],
        communicators: Mapping[int, Sequence[CommunicatorRow]],
        ended: Collection[int] = (),
    ) -> None:
        """Chains that open and close. ended: of the processes; theirs close. Needs the books, and that they are up to date."""
        if self._diagnosis is None or self._sched is None:
            return
        known = {number: row for number, row in processes.items() if number in self._roster}
        steps = [partial(self._diagnosis.tick, known, communicators, self._sched.moved, self._now_ns())]
        if ended:
            steps.append(partial(self._diagnosis.end, ended, self._now_ns()))
        transitions = [transition for step in steps for transition in self._run(_CHAINS, step) or ()]
        for transition in transitions:
            self._narrate(transition)
        self._run(_CHAINS, partial(self._hear_witness, transitions))

    def _narrate(self, transition: Transition) -> None:
        """Say what has happened, while it is still known whose it is."""
        self._tell(transition, *self._whose(transition.chain), self._clock.now())

    def _whose(self, chain: Chain) -> ChainProcess:
        assert self._sched is not None  # noqa: S101 - chains stand on it
        culprit_tgids = self._sched.tgids_of(chain.process, chain.culprits[0][0]) if chain.culprits else ()
        return ChainProcess(
            self._roster.identities().get(chain.process), self._roster.tgid(chain.process), culprit_tgids
        )

    def _hear_witness(self, transitions: Sequence[Transition]) -> None:
        """Have threads looked at, and say what has become known of others."""
        if self._witness is None or self._diagnosis is None:
            return
        now = self._clock.now()
        for one in self._witness.tick(self._diagnosis.open_chains(), transitions, self._whose, now.monotonic_ns):
            self._tell_evidence(one.chain, one.process, one.lines, now)

    def _of_chains(self, processes: Iterable[int]) -> Totals:
        """What is said of these processes; nothing where the engine is off, or has failed. Needs the books."""
        if self._diagnosis is None:
            return {}
        return self._run(_CHAINS, partial(self._diagnosis.totals, tuple(processes))) or {}

    def _serve(self, engines: Mapping[int, str]) -> None:
        """The outputs of engines since the last time; their rings hold little more than a tick's. Needs the books."""
        if self._engines:
            self._run(_ENGINE, partial(self._engines.update, engines, self._now_ns()))

    def _of_engines(self, processes: Container[int]) -> Totals:
        """What is said of these processes; nothing where the collector is off, or has failed. Needs the books."""
        if self._engines is None or _ENGINE in self._failed:
            return {}
        return self._run(_ENGINE, partial(self._engines.totals, processes)) or {}

    def _traces(self, processes: Collection[int]) -> Traces:
        """In which episodes these processes lose time, or did of late. Needs the books."""
        if self._diagnosis is None:
            return {}
        return self._run(_CHAINS, partial(self._diagnosis.traces, processes)) or {}

    def _govern(self, processes: Collection[int]) -> None:
        """Time fewer launches of those that the probes cost too much."""
        now_ns = self._now_ns()
        if not self._governor.is_due(now_ns):
            return
        feeding = self._tables.waits.feeding if self._sched else self._tables.read_feeding(processes)
        alive = {process: row for process, row in feeding.items() if process in processes}
        for process, mask in self._governor.update(alive, now_ns).items():
            self._tables.sample_launches(process, mask)

    def _owners(self, processes: Mapping[int, ProcessRow]) -> dict[int, Hashable]:
        """The identity of each process that is known; itself while it has none."""
        identities = self._roster.identities()
        return {process: identities.get(process, process) for process in processes if process in self._roster}

    def _now_ns(self) -> int:
        """CLOCK_MONOTONIC."""
        return self._clock.now().monotonic_ns

    def _collect(self, reading: Reading) -> Totals:
        """Every collector without a memory that works; one that fails costs its own metrics."""
        runs = {name: partial(collect, reading) for name, collect in self._collectors.items()}
        return merged(filter(None, (self._run(name, collect) for name, collect in runs.items())))

    def _of_places(self, now: Moment) -> TotalsByIdentity:
        """What the collectors of the machine say; each is asked, whatever becomes of the others."""
        if not self._surroundings:
            return {}
        with self._lock:
            tgids, identities = self._roster.tgids(), self._roster.identities()
        traced = [TracedProcess(process, tgids[process], identity) for process, identity in identities.items()]
        found: dict[Identity, dict[Series, Total]] = {}
        for name, collector in self._surroundings.items():
            totals = self._run(name, partial(collector.collect, now.monotonic_ns, traced))
            for place, of_place in (totals or {}).items():
                found.setdefault(place, {}).update(of_place)
            self._own.set(catalog.own.COLLECTOR_RESETS, collector.resets, name)
        return found

    def _run(self, name: str, collect: partial[T]) -> T | None:
        started_at = time.perf_counter()
        try:
            result = collect()
        except Exception:  # a defect in one collector must not cost the others' metrics
            log.exception("collector %s failed", name)
            self._own.add(catalog.own.COLLECTOR_ERRORS, 1, name)
            self._own.set(catalog.own.COLLECTOR_SUCCESS, 0, name)
            self._failed.add(name)
            return None
        finally:
            self._own.set(catalog.own.COLLECTOR_DURATION, time.perf_counter() - started_at, name)
        self._failed.discard(name)
        self._own.set(catalog.own.COLLECTOR_SUCCESS, name not in self._impaired, name)
        return result

    def _report(self, duration_seconds: float) -> None:
        assert self._latest is not None  # noqa: S101 - just taken
        own, tables = self._own, self._tables
        own.set(catalog.own.PUBLISH_DURATION, duration_seconds)
        own.set(catalog.own.SERIES, sum(len(family.points) for family in self._latest.families))
        own.replace(catalog.own.MAP_ENTRIES, {(name,): count for name, count in tables.entries.items()})
        own.replace(catalog.own.MAP_CAPACITY, {(name,): count for name, count in tables.capacities().items()})
        for (program, reason), count in tables.losses().items():
            own.set(catalog.own.LOSSES, count, program.name.lower(), reason.name.lower())
        own.set(catalog.own.HEALED_SWITCHES, tables.healed())
        for figure, error in (self._sched.errors() if self._sched else {}).items():
            own.set(catalog.own.ACCOUNTING_ERROR, error, figure)
        recursions: Counter[str] = Counter()
        for name, misses in self._recursion_misses().items():
            recursions[name.partition("_")[0]] += misses
        for subject, count in recursions.items():
            own.set(catalog.own.LOSSES, count, subject, "recursion")


def _process_labels(identity: Identity, row: ProcessRow) -> ProcessLabels:
    return ProcessLabels(identity, row.tgid, label_value(row.comm.decode("utf-8", "replace")))
