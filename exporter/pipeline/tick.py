"""One tick: read the kernel's tables, account lost time, detect chains. The exporter, replay and the fault rig drive the same.

In: Tables, and who owns each process. Out: transitions of chains at every tick; totals of processes on demand.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Container, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

from exporter.accounting.accountant import ProcessTime
from exporter.accounting.culprits import NO_GROUP_NAMES, GroupNames
from exporter.accounting.thread_time import times_by_process
from exporter.causes import largest_culprit
from exporter.chains.chain import Chain, Transition
from exporter.chains.engine import NOTHING, random_id
from exporter.collectors import COLLECTORS
from exporter.collectors.engine import Engines
from exporter.collectors.sched import Sched
from exporter.gpu.model import GpuState
from exporter.kernel.process_rows import CommunicatorRow, ProcessRow
from exporter.kernel.readings import Reading
from exporter.kernel.tables import Tables
from exporter.kernel.thread_rows import FeedingRow
from exporter.pipeline.collector_runs import RunStage, unguarded
from exporter.pipeline.detection import Detection
from exporter.totals import Totals, Traces, merged
from exporter.workloads.engine import SERVING

_NONE: Mapping[Any, Any] = MappingProxyType({})
_SCHED, _CHAINS, _ENGINE = "sched", "chains", "engine"
_BALANCE = "balance"  # figure of the error of the accounting


class Rows(NamedTuple):
    """The small tables that every tick reads: processes by number, and their NCCL communicators."""

    processes: Mapping[int, ProcessRow]
    communicators: Mapping[int, Sequence[CommunicatorRow]]


class Detected(NamedTuple):
    """One transition. tgid: of its process, 0 if not visible. culprit_tgids: processes with the largest culprit's name."""

    transition: Transition
    tgid: int
    culprit_tgids: tuple[int, ...]


class TickResult(NamedTuple):
    """totals, traces: the last ones of processes that end or are renamed. reading: the rows they come from."""

    detected: list[Detected]
    totals: Totals = _NONE  # type: ignore[assignment]
    traces: Traces = _NONE
    reading: Reading | None = None


class Pipeline:
    """read -> account -> detect.

    collectors: names of those that run. read_gpus: GPUs as sampled last. run: how a stage is called. new_id: makes ids of chains.
    group_names: cgroups as culprits.
    lock: taken by callers around the methods that need it; it guards accounting, detection and engines.
    """

    def __init__(
        self,
        tables: Tables,
        collectors: Iterable[str],
        now_ns: Callable[[], int],
        *,
        read_gpus: Callable[[], Sequence[GpuState]] = tuple,
        run: RunStage = unguarded,
        new_id: Callable[[], str] = random_id,
        group_names: GroupNames = NO_GROUP_NAMES,
    ) -> None:
        names = frozenset(collectors)
        self.lock = threading.Lock()
        self.tables = tables
        self._now_ns = now_ns
        self.run = run
        self._collectors = {name: collect for name, collect in COLLECTORS.items() if name in names}
        self._accounting = Sched(tables, group_names) if _SCHED in names else None
        self._engines = Engines(tables, SERVING) if _ENGINE in names else None
        self._are_engines_current = False
        self._last_rows: Mapping[int, ProcessRow] = _NONE
        self._detection = (
            Detection(tables, self._accounting.progress, read_gpus=read_gpus, new_id=new_id)
            if self._accounting and _CHAINS in names
            else None
        )

    def read(self) -> Rows:
        """What a tick begins with."""
        return Rows(self.tables.read_processes(), self.tables.read_communicators())

    def tick(
        self,
        rows: Rows,
        *,
        owners: Mapping[int, Hashable] | None = None,
        engines: Mapping[int, str] = _NONE,
        ended: Collection[int] = (),
        leaving: Collection[int] = (),
    ) -> TickResult:
        """Account what was lost since the last tick, and detect what has changed. Needs the lock.

        owners: process -> whose label values it shares; each its own by default. engines: process -> its serving engine.
        ended: processes that have ended. leaving: those, and others, whose totals up to now are wanted.
        """
        owners = owners if owners is not None else {number: number for number in rows.processes}
        self._update_engines(engines)
        servers = frozenset(number for number, engine in engines.items() if engine in SERVING)
        if not leaving:
            self._account(owners)
            return TickResult(self._detect(rows, owners, ended, servers))
        reading = self.tables.read({number: row for number, row in rows.processes.items() if number in leaving})
        threads = self.account_all(owners, reading, ended=ended, of=reading.processes.keys())
        detected = self._detect(rows, owners, ended, servers)
        collected = (self._collect(reading), threads, self._chain_totals(leaving, owners), self._engine_totals(leaving))
        return TickResult(detected, merged(collected), self.traces(ended), reading)

    def end(self, processes: Collection[int]) -> list[Detected]:
        """These have ended, and nothing more will be read of them: their chains are resolved."""
        if self._detection is None:
            return []
        found = self.run(_CHAINS, partial(self._detection.end, processes, self._now_ns()))
        return list(self._with_processes(found or (), self._last_rows))

    def forget(self, ended: Collection[int], reading: Reading) -> None:
        """Their last totals have been kept. reading: of the tick that gave them."""
        self.tables.forget(set(ended), reading)
        for stage in (self._engines, self._accounting, self._detection):
            if stage:
                stage.forget(ended)

    def read_all(self) -> tuple[Reading, Totals]:
        """Everything in the tables, and the totals of the collectors that remember nothing. Without the lock: it takes long."""
        reading = self.tables.read()
        return reading, self._collect(reading)

    def totals(self, reading: Reading, owners: Mapping[int, Hashable], engines: Mapping[int, str]) -> Totals:
        """Totals of the collectors that remember the last tick. Needs the lock."""
        threads = self.account_all(owners, reading)
        chains = self._chain_totals(reading.processes, owners)
        self._update_engines(engines)
        return merged((threads, chains, self._engine_totals(reading.processes)))

    def account_all(
        self,
        owners: Mapping[int, Hashable],
        reading: Reading | None = None,
        *,
        ended: Collection[int] = (),
        of: Collection[int] | None = None,
    ) -> Totals:
        """Account all thread time up to now, and return the totals of every process, or `of` these. Needs the lock.

        reading: read already; None: read what is needed. ended: nothing of these stays open.
        """
        if self._accounting is None:
            return {}
        with_threads = of is None or not set(of) <= set(ended)
        update = partial(self._accounting.update, owners, self._now_ns(), reading, with_threads=with_threads)
        accounts = self.run(_SCHED, update)
        if accounts is None:
            return {}
        times = times_by_process(accounts, of)
        return self.run(_SCHED, partial(self._accounting.totals, accounts, times, ended, of)) or {}

    def traces(self, processes: Collection[int]) -> Traces:
        """The chains in which these processes lose time, or did last. Needs the lock."""
        if self._detection is None:
            return {}
        return self.run(_CHAINS, partial(self._detection.traces, processes)) or {}

    def open_chains(self) -> list[Chain]:
        """Open chains of all processes. Needs the lock."""
        return self._detection.open_chains() if self._detection else []

    def culprit_tgids(self, chain: Chain) -> tuple[int, ...]:
        """Processes with the name of the chain's largest culprit now."""
        culprit = largest_culprit(chain.present.culprits)
        return self._accounting.tgids_of(chain.process, culprit) if self._accounting and culprit else ()

    def charged_since_ns(self, tgids: Iterable[int]) -> tuple[int, ...]:
        """For each process id since when time is charged to it, CLOCK_MONOTONIC; 0 if it is not known."""
        return tuple(self._accounting.charged_since_ns(tgid) if self._accounting else 0 for tgid in tgids)

    def times(self) -> Mapping[int, ProcessTime]:
        """Where the time of each process went so far."""
        return self._accounting.times() if self._accounting else {}

    def switches(self) -> Mapping[int, tuple[int, int]]:
        """Process -> voluntary and involuntary context switches so far."""
        return self._accounting.switches if self._accounting else {}

    def accounting_errors(self) -> Mapping[str, float]:
        """Figure -> how far the accounting is off."""
        errors = self._accounting.errors() if self._accounting else {}
        return errors | {_BALANCE: self._detection.imbalance} if self._detection else errors

    def feeding(self, processes: Collection[int]) -> Mapping[int, FeedingRow]:
        """The feeding timeline of these processes, as the last tick read it."""
        return self.tables.waits.feeding if self._accounting else self.tables.read_feeding(processes)

    def _account(self, owners: Mapping[int, Hashable]) -> None:
        if self._accounting:
            wanted = self._detection.wanted if self._detection else NOTHING
            self.run(_SCHED, partial(self._accounting.tick, owners, self._now_ns(), **wanted._asdict()))

    def _detect(
        self, rows: Rows, owners: Container[int], ended: Collection[int], servers: Container[int]
    ) -> list[Detected]:
        if self._detection is None or self._accounting is None:
            return []
        known = {number: row for number, row in rows.processes.items() if number in owners}
        moved, now_ns = self._accounting.moved, self._now_ns()
        stages = [partial(self._detection.tick, known, rows.communicators, moved, now_ns, servers=servers)]
        if ended:
            stages.append(partial(self._detection.end, ended, self._now_ns()))
        found = (transition for stage in stages for transition in self.run(_CHAINS, stage) or ())
        detected = list(self._with_processes(found, rows.processes))
        self._last_rows = rows.processes
        return detected

    def _with_processes(self, transitions: Iterable[Transition], rows: Mapping[int, ProcessRow]) -> Iterator[Detected]:
        """With the process it is about and the culprits, while both are known."""
        for transition in transitions:
            process = transition.chain.process
            row = rows.get(process) or self._last_rows.get(
                process
            )  # a recording does not show a process that has ended
            yield Detected(transition, row.tgid if row else 0, self.culprit_tgids(transition.chain))

    def _collect(self, reading: Reading) -> Totals:
        runs = ((name, partial(collect, reading)) for name, collect in self._collectors.items())
        return merged(totals for totals in (self.run(name, collect) for name, collect in runs) if totals)

    def _chain_totals(self, processes: Iterable[int], owners: Mapping[int, Hashable]) -> Totals:
        if self._detection is None:
            return {}
        return self.run(_CHAINS, partial(self._detection.totals, tuple(processes), owners)) or {}

    def _update_engines(self, engines: Mapping[int, str]) -> None:
        """Take what serving engines gave out since the last time: their rings hold little more than one tick."""
        engines_collector = self._engines
        if engines_collector is None:
            return

        def update() -> bool:
            engines_collector.update(engines, self._now_ns())
            return True

        self._are_engines_current = self.run(_ENGINE, update) is not None

    def _engine_totals(self, processes: Container[int]) -> Totals:
        if self._engines is None or not self._are_engines_current:
            return {}
        return self.run(_ENGINE, partial(self._engines.totals, processes)) or {}
