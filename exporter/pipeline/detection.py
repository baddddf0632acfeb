"""Gives the chain engine its observations at every tick, and counts its chains.

In: Tables, the progress of each process from the accounting. Out: Transitions at every tick; Totals of each process.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Container, Hashable, Iterable, Iterator, Mapping, Sequence, Set
from functools import partial
from operator import attrgetter
from types import MappingProxyType

from exporter import catalog
from exporter.accounting.progress import WorkloadProgress
from exporter.causes import LOST_TIME_CAUSES, Cause
from exporter.chains import verdict
from exporter.chains.capture import Captures
from exporter.chains.chain import Chain, ChainState, Change, Effect, Severity, Transition, span_id
from exporter.chains.engine import Engine, Observation, Wanted, random_id
from exporter.chains.exit_reason import CallError, Ending
from exporter.chains.memory import Allocations
from exporter.chains.span import Collective
from exporter.chains.spending import Spending
from exporter.gpu.model import GpuState
from exporter.kernel import abi
from exporter.kernel.abi import Shape
from exporter.kernel.end_rows import LastError
from exporter.kernel.gpu_rows import GraphRow
from exporter.kernel.operations import OPERATIONS
from exporter.kernel.process_rows import CommunicatorRow, ProcessRow
from exporter.kernel.progress_rows import ProgressKey, ProgressRow
from exporter.kernel.tables import Tables
from exporter.model import Identity, fairly
from exporter.pipeline.gpu_activity import GpuActivity
from exporter.pipeline.spending import spending
from exporter.totals import Series, Total, Totals, Trace
from exporter.units import NANOSECONDS

MAX_INFOS = 64
"""Open chains with a series of their own, the worst ones: a workload may have several, and a node many workloads."""
_OUT_OF_MEMORY = 2  # cudaErrorMemoryAllocation, CUDA_ERROR_OUT_OF_MEMORY
# increase() needs a 0 to start from. Chains that need no rhythm of steps, for every process: a job that ends by one, and comes
# again under the same name, has counted 0 in between.
_ABRUPT = frozenset((Cause.CUDA_OOM, Cause.CRASH, Cause.OOM_KILLED))
_POSSIBLE = tuple(
    Series(catalog.chains.CHAINS, (cause.value, effect.value, severity.name.lower()))
    for cause, effect, severity in verdict.possible()
)
_POSSIBLE_AT_ONCE = tuple(series for series in _POSSIBLE if series.labels[0] in _ABRUPT)


_NO_OWNERS: Mapping[int, Hashable] = MappingProxyType({})


def _tenant(owner: Hashable) -> Hashable:
    return owner.tenant if isinstance(owner, Identity) else owner


def _escalations(chain: Chain) -> Iterator[Series]:
    """What it may escalate to: at most three series. Those of all kinds of chains would be 65 for each process."""
    for severity in Severity:
        if severity > chain.severity:
            yield Series(catalog.chains.ESCALATIONS, (chain.cause.value, chain.effect.value, severity.name.lower()))


def _call_error(error: LastError | None) -> CallError | None:
    return CallError(OPERATIONS[error.operation].name, error.code, error.at_ns) if error else None


def _allocations(row: ProcessRow, failed: int) -> Allocations:
    live_bytes = max(row.allocated_bytes - row.freed_bytes, 0)
    sums = (row.refused_bytes, row.peak_bytes, row.live_allocations)
    return Allocations(failed, row.allocated_bytes, live_bytes, *sums)


def _captures(row: GraphRow | None) -> Captures:
    return Captures(row.captures, row.captured + row.failed) if row else Captures()


def _collectives(
    communicators: Mapping[int, Iterable[CommunicatorRow]], progress: Mapping[ProgressKey, ProgressRow]
) -> dict[int, dict[int, Collective]]:
    """Process -> hash of a communicator -> its place in it, where its creation was seen and it is counted apart."""
    found: dict[int, dict[int, Collective]] = {}
    for process, rows in communicators.items():
        for row in rows:
            known = progress.get(ProgressKey(process, row.ordinal))
            if known is None or row.rank < 0 or not row.hash or row.ordinal == abi.COMMUNICATOR_OTHER:
                continue
            place = Collective(row.rank, known.collectives, known.lag_ns)
            found.setdefault(process, {})[row.hash] = place
    return found


def _unfinished(progress: Mapping[ProgressKey, ProgressRow]) -> dict[int, dict[int, int]]:
    """Process -> communicator as in the label -> operations that are not known to be complete, where it is counted apart."""
    found: dict[int, dict[int, int]] = {}
    for key, row in progress.items():
        if key.communicator != abi.COMMUNICATOR_OTHER and row.enqueued > row.completed:
            found.setdefault(key.process, {})[key.communicator - 1] = row.enqueued - row.completed
    return found


class Detection:
    """progress: of a process, from the accounting. read_gpus: GPUs as sampled last. new_id: makes ids of chains."""

    def __init__(
        self,
        tables: Tables,
        progress: Callable[[int], WorkloadProgress],
        engine: Engine | None = None,
        read_gpus: Callable[[], Sequence[GpuState]] = tuple,
        new_id: Callable[[], str] = random_id,
    ) -> None:
        self._tables = tables
        self._progress = progress
        self._gpu_activity = GpuActivity(read_gpus)
        self._engine = engine or Engine(new_id, self._spending, self._gpu_activity.side)
        self._opened: dict[int, Counter[tuple[Cause, Effect, Severity]]] = {}
        self._escalated: dict[int, Counter[tuple[Cause, Effect, Severity]]] = {}
        self._chains: dict[int, dict[tuple[Cause, Effect], Chain]] = {}  # the last of each kind

    @property
    def wanted(self) -> Wanted:
        """What the engine needs the next tick to read, for a verdict that is due."""
        return self._engine.wanted

    @property
    def imbalance(self) -> float:
        """Error of lost time: what exceeds that by which steps are longer, as a share of the time that was compared."""
        return self._engine.imbalance

    def tick(
        self,
        processes: Mapping[int, ProcessRow],
        communicators: Mapping[int, Iterable[CommunicatorRow]],
        moved: Set[int],
        now_ns: int,
        *,
        servers: Container[int] = (),
    ) -> list[Transition]:
        """Transitions since the last tick. processes: those alive. moved: those of which the accounting has something new.

        servers: those of a serving engine.
        """
        failed = self._failed_allocations()
        progress = self._tables.read_progress() if communicators else {}
        collectives = _collectives(communicators, progress)
        unfinished = _unfinished(progress)
        graphs = self._tables.read_graphs()
        self._gpu_activity.tick(processes, partial(self._kernels, graphs), now_ns)
        capturing = {number for number, row in graphs.items() if row.open_captures}
        changed = moved | collectives.keys() | failed.keys() | capturing
        observed = {
            number: Observation(
                self._progress(number),
                collectives.get(number, {}),
                _allocations(row, failed[number])._replace(gpu_bytes=self._gpu_activity.gpu_bytes(number)),
                _captures(graphs.get(number)),
                unfinished.get(number, {}),
                number in servers,
            )
            for number, row in processes.items()
            if number in changed or self._engine.is_watched(number)
        }
        return self._counted(self._engine.update(observed, now_ns))

    def _spending(self, number: int) -> Spending:
        return spending(self._tables, number, self._gpu_activity.link_bytes_per_second(number))

    def _kernels(self, graphs: Mapping[int, GraphRow]) -> dict[int, int]:
        feeding = self._tables.waits.feeding
        return {
            number: row.kernels + (graphs[number].kernels if number in graphs else 0) for number, row in feeding.items()
        }

    def end(self, processes: Collection[int], now_ns: int) -> list[Transition]:
        """Resolve the chains of processes that have ended."""
        return self._counted(self._engine.end(processes, now_ns, self._endings(processes)))

    def _endings(self, processes: Collection[int]) -> dict[int, Ending]:
        errors = self._tables.read_last_errors()
        return {
            key.process: Ending(
                key.signal, key.code, bool(key.is_victim), row.at_ns, _call_error(errors.get(key.process))
            )
            for key, row in self._tables.read_exits().items()
            if key.process in processes and not key.is_worker
        }

    def open_chains(self) -> list[Chain]:
        return self._engine.open_chains()

    def totals(self, of: Collection[int], owners: Mapping[int, Hashable] = _NO_OWNERS) -> Totals:
        """Chain metrics of these processes. owners: process -> whose label values it has.

        Each tenant has the ids of its worst chains: one with many takes no place of the others.
        """
        totals = {number: self._totals_of(number) for number in of}
        worst_first = sorted(self._engine.open_chains(), key=lambda one: -one.severity)
        for chain in fairly(worst_first, lambda one: _tenant(owners.get(one.process)))[:MAX_INFOS]:
            if chain.process in totals:
                named = (chain.id, chain.cause.value)
                totals[chain.process] |= {
                    Series(catalog.chains.INFO, (*named, chain.culprit)): 1,
                    Series(catalog.chains.LOST, named): round(chain.present.lost_share * NANOSECONDS),
                    Series(catalog.chains.LOST_AT_WORST, named): round(chain.lost_share * NANOSECONDS),
                }
        return totals

    def traces(self, of: Collection[int]) -> dict[int, dict[Series, Trace]]:
        """What these processes lost in the last chain of each cause, open or resolved."""
        known = {chain.id: chain for number in of for chain in self._chains.get(number, {}).values()}
        known |= {chain.id: chain for chain in self._engine.open_chains()}  # as they are now
        found: dict[int, dict[Series, Trace]] = {}
        for chain in sorted(known.values(), key=attrgetter("updated_ns")):
            if chain.process in of and chain.lost_ns and chain.cause in LOST_TIME_CAUSES:
                trace = Trace(chain.id, span_id(chain.id), chain.lost_ns, chain.updated_ns)
                found.setdefault(chain.process, {})[Series(catalog.sched.LOST, (chain.cause.value,))] = trace
        return found

    def forget(self, processes: Iterable[int]) -> None:
        """Their last totals have been kept."""
        for number in processes:
            for known in (self._opened, self._escalated, self._chains):
                known.pop(number, None)

    def _totals_of(self, number: int) -> dict[Series, Total]:
        # Only once the engine watches it: a node may have a thousand processes that make no steps.
        possible = _POSSIBLE if self._engine.is_watched(number) else _POSSIBLE_AT_ONCE
        series: dict[Series, Total] = dict.fromkeys(possible, 0)
        for chain in self._chains.get(number, {}).values():
            series |= dict.fromkeys(_escalations(chain), 0)
        for metric, counts in ((catalog.chains.CHAINS, self._opened), (catalog.chains.ESCALATIONS, self._escalated)):
            for (cause, effect, severity), count in counts.get(number, Counter()).items():
                series[Series(metric, (cause.value, effect.value, severity.name.lower()))] = count
        cold = self._engine.cold_start(number)
        for effect, ns in cold.cold_ns.items() if cold else ():
            series[Series(catalog.chains.COLD_START, (effect.value,))] = ns
        for (cause, effect), chain in self._chains.get(number, {}).items():
            is_open = chain.state is ChainState.OPEN
            labels = (cause.value, effect.value)
            series[Series(catalog.chains.ACTIVE, labels)] = int(is_open)
            series[Series(catalog.chains.SEVERITY, labels)] = int(chain.severity) if is_open else 0
        return series

    def _counted(self, transitions: list[Transition]) -> list[Transition]:
        for change, chain in transitions:
            kind = (chain.cause, chain.effect, chain.severity)
            if change is Change.OPENED:
                self._opened.setdefault(chain.process, Counter())[kind] += 1
            elif change is Change.ESCALATED:
                self._escalated.setdefault(chain.process, Counter())[kind] += 1
            kinds = self._chains.setdefault(chain.process, {})
            for known, before in list(kinds.items()):
                if before.id == chain.id and known != (chain.cause, chain.effect):
                    del kinds[known]  # its kind has changed
            kinds[chain.cause, chain.effect] = chain
        return transitions

    def _failed_allocations(self) -> Counter[int]:
        failed: Counter[int] = Counter()
        for key, count in self._tables.read_errors().items():
            if key.code == _OUT_OF_MEMORY and OPERATIONS[key.operation].shape is Shape.ALLOCATE:
                failed[key.process] += count
        return failed
