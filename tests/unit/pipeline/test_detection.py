"""diagnosis: what the tables say of a process becomes an observation, and what the engine says becomes metrics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from exporter import catalog
from exporter.accounting.progress import WorkloadProgress
from exporter.causes import Cause
from exporter.chains.chain import Chain, Change, Effect, End, Present, Severity, Transition
from exporter.chains.cold_start import Cold
from exporter.chains.engine import Engine, Observation
from exporter.chains.memory import Allocations
from exporter.chains.span import Collective
from exporter.kernel import abi
from exporter.kernel.tables import Tables
from exporter.model import Identity
from exporter.pipeline.detection import MAX_INFOS, Detection
from exporter.totals import Series, Total, Trace
from tests.support.chains import SECOND, a_chain
from tests.support.tables import FakeTables

GAP = ("cpu_contention", "gap")
ABRUPT = {
    Series(catalog.chains.CHAINS, kind): 0
    for kind in (("cuda_oom", "alloc", "critical"), ("crash", "exit", "critical"), ("oom_killed", "exit", "critical"))
}
"""What every process has, before it has a chain."""
LOST = Series(catalog.sched.LOST, ("cpu_contention",))


class _Scripted(Engine):
    """Returns the transitions that a test sets. observed: at the last tick."""

    def __init__(self) -> None:
        super().__init__()
        self.transitions: list[Transition] = []
        self.open: list[Chain] = []
        self.watched: set[int] = set()
        self.cold: dict[int, Cold] = {}
        self.observed: Mapping[int, Observation] = {}

    def update(self, processes: Mapping[int, Observation], now_ns: int) -> list[Transition]:
        self.observed = processes
        return self.transitions

    def is_watched(self, number: int) -> bool:
        return number in self.watched

    def cold_start(self, number: int) -> Cold | None:
        return self.cold.get(number)

    def open_chains(self) -> list[Chain]:
        return self.open


class Bench:
    """Processes 1 and 2 in the tables."""

    def __init__(self) -> None:
        self.kernel = FakeTables()
        self.kernel.process(1)
        self.kernel.process(2, tgid=200)
        self.engine = _Scripted()
        self._tables = Tables(self.kernel.maps)
        self.detection = Detection(self._tables, lambda number: WorkloadProgress({}, steps=number), self.engine)

    def tick(
        self, *moved: int, says: tuple[Transition, ...] = (), servers: tuple[int, ...] = ()
    ) -> Mapping[int, Observation]:
        """What the engine gets."""
        self.engine.transitions = list(says)
        processes, communicators = self._tables.read_processes(), self._tables.read_communicators()
        self.detection.tick(processes, communicators, frozenset(moved), 1, servers=servers)
        return self.engine.observed

    def totals(self, process: int = 1) -> dict[Series, Total]:
        """Totals of one process."""
        return self.detection.totals([process])[process]


@pytest.fixture
def bench() -> Bench:
    """No chain has opened."""
    return Bench()


class TestObservations:
    """Processes that the engine gets to see."""

    def test_what_has_not_moved_is_left_out(self, bench: Bench) -> None:
        """Most processes of a full node rest."""
        assert bench.tick(2).keys() == {2}

    def test_what_is_watched_is_never_left_out(self, bench: Bench) -> None:
        """That nothing moves is news of it."""
        bench.engine.watched = {1}

        assert bench.tick(2).keys() == {1, 2}

    def test_progress_comes_from_the_accounting(self, bench: Bench) -> None:
        """Each process has its own."""
        assert bench.tick(2)[2].progress.steps == 2

    def test_process_of_a_serving_engine_is_a_server(self, bench: Bench) -> None:
        observed = bench.tick(1, 2, servers=(2,))

        assert (observed[1].is_server, observed[2].is_server) == (False, True)

    def test_collectives_are_known_by_the_hash(self, bench: Bench) -> None:
        """The other communicator was created before the probes were attached."""
        bench.kernel.communicator(1, digest=77, rank=3, ranks=8, ordinal=1)
        bench.kernel.communicator(1, digest=0, rank=-1, ranks=0, ordinal=2, address=0xC1)
        bench.kernel.progress(1, communicator=1, enqueued=12, completed=10, collectives=11, lag_ns=5)
        bench.kernel.progress(1, communicator=2, enqueued=3)

        assert bench.tick()[1].collectives == {77: Collective(3, 11, 5)}

    def test_open_operations_are_known_also_without_a_hash(self, bench: Bench) -> None:
        """The second communicator, whose creation was not seen; the first has none, and the last is several."""
        bench.kernel.communicator(1, ordinal=1, digest=77, rank=3)
        bench.kernel.communicator(1, ordinal=2, address=0xC1, digest=0, rank=-1, ranks=0)
        bench.kernel.progress(1, communicator=1, enqueued=12, completed=12)
        bench.kernel.progress(1, communicator=2, enqueued=3, completed=1)
        bench.kernel.progress(1, communicator=abi.COMMUNICATOR_OTHER, enqueued=3, completed=1)

        assert bench.tick()[1].unfinished == {1: 2}

    def test_allocations_that_failed_without_memory_are_counted(self, bench: Bench) -> None:
        """Code 2 of an allocation, and nothing else."""
        bench.kernel.error(1, "cudaMalloc", code=2)
        bench.kernel.error(1, "cuMemAllocAsync", code=2)
        bench.kernel.error(1, "cudaMalloc", code=1)
        bench.kernel.error(1, "cudaFree", code=2)

        assert bench.tick()[1].allocations == Allocations(failed=2)


class TestMetrics:
    """What is exported of chains."""

    def test_open_chain_is_active(self, bench: Bench) -> None:
        """With its severity, its id and its culprit."""
        chain = a_chain()
        bench.engine.open = [chain]
        bench.tick(says=(Transition(Change.OPENED, chain),))

        assert bench.totals() == ABRUPT | {
            Series(catalog.chains.CHAINS, (*GAP, "high")): 1,
            Series(catalog.chains.ESCALATIONS, (*GAP, "critical")): 0,
            Series(catalog.chains.ACTIVE, GAP): 1,
            Series(catalog.chains.SEVERITY, GAP): 3,
            Series(catalog.chains.LOST, ("1" * 32, "cpu_contention")): 500_000_000,
            Series(catalog.chains.LOST_AT_WORST, ("1" * 32, "cpu_contention")): 500_000_000,
            Series(catalog.chains.INFO, ("1" * 32, "cpu_contention", "stress-ng")): 1,
        }

    def test_figures_of_an_open_chain_are_of_now(self, bench: Bench) -> None:
        """And not of its last transition: it has become weaker, and is another program's doing."""
        chain = a_chain()
        bench.tick(says=(Transition(Change.OPENED, chain),))
        bench.engine.open = [replace(chain, now=Present(0.2, 0.25, (("backup", 1.0),)))]

        totals = bench.totals()

        assert totals[Series(catalog.chains.LOST, ("1" * 32, "cpu_contention"))] == 200_000_000
        assert totals[Series(catalog.chains.LOST_AT_WORST, ("1" * 32, "cpu_contention"))] == 500_000_000
        assert totals[Series(catalog.chains.INFO, ("1" * 32, "cpu_contention", "backup"))] == 1

    def test_resolved_chain_is_not(self, bench: Bench) -> None:
        """It has been opened all the same."""
        chain = a_chain()
        bench.tick(says=(Transition(Change.OPENED, chain), chain.resolved(1, End.RECOVERED)))

        assert bench.totals() == ABRUPT | {
            Series(catalog.chains.CHAINS, (*GAP, "high")): 1,
            Series(catalog.chains.ESCALATIONS, (*GAP, "critical")): 0,
            Series(catalog.chains.ACTIVE, GAP): 0,
            Series(catalog.chains.SEVERITY, GAP): 0,
        }

    def test_open_chain_is_the_trace_of_what_is_lost_to_its_cause(self, bench: Bench) -> None:
        """With the numbers that it has by now."""
        chain = a_chain(lost_ns=485_000_000)
        bench.tick(says=(Transition(Change.OPENED, chain),))
        bench.engine.open = [replace(chain, lost_ns=900_000_000, updated_ns=12 * SECOND)]

        assert bench.detection.traces([1]) == {
            1: {LOST: Trace("1" * 32, "1" * 16, 900_000_000, 12 * SECOND)},
        }

    def test_resolved_chain_is_the_trace_until_another_one_opens(self, bench: Bench) -> None:
        """Lost time has a cause and no effect."""
        chain = a_chain(lost_ns=485_000_000)
        bench.tick(says=(Transition(Change.OPENED, chain), chain.resolved(12 * SECOND, End.RECOVERED)))
        first = bench.detection.traces([1])[1][LOST]
        bench.engine.open = [a_chain(id="2" * 32, effect=Effect.SYNC, lost_ns=1, updated_ns=20 * SECOND)]

        assert (first.trace_id, first.at_ns) == ("1" * 32, 12 * SECOND)
        assert bench.detection.traces([1])[1][LOST].trace_id == "2" * 32

    def test_chain_that_lost_nothing_to_a_cause_of_the_host_is_no_trace(self, bench: Bench) -> None:
        """There is no counter that it could be found by."""
        bench.engine.open = [a_chain(cause=Cause.GPU, lost_ns=5)]

        assert bench.detection.traces([1]) == {}

    def test_chain_of_another_process_is_not_asked_for(self, bench: Bench) -> None:
        """Process 1's."""
        bench.engine.open = [a_chain(lost_ns=5)]

        assert bench.detection.traces([2]) == {}

    def test_escalation_is_counted_as_what_it_has_become(self, bench: Bench) -> None:
        """And no second chain."""
        chain = a_chain()
        worse = replace(chain, severity=Severity.CRITICAL)
        bench.tick(says=(Transition(Change.OPENED, chain), Transition(Change.ESCALATED, worse)))
        totals = bench.totals()

        assert totals[Series(catalog.chains.ESCALATIONS, (*GAP, "critical"))] == 1
        assert totals[Series(catalog.chains.SEVERITY, GAP)] == 4
        assert [key.labels for key in totals.keys() - ABRUPT if key.metric is catalog.chains.CHAINS] == [(*GAP, "high")]

    def test_chain_of_another_cause_by_now_is_active_once(self, bench: Bench) -> None:
        """A rank that was slow does not come at all."""
        chain = a_chain(cause=Cause.SLOW_RANK)
        worse = replace(chain, cause=Cause.NCCL_HANG, severity=Severity.CRITICAL)
        bench.tick(says=(Transition(Change.OPENED, chain), Transition(Change.ESCALATED, worse)))
        active = {key.labels: total for key, total in bench.totals().items() if key.metric is catalog.chains.ACTIVE}

        assert active == {("nccl_hang", "gap"): 1}

    def test_watched_process_begins_at_zero(self, bench: Bench) -> None:
        """A rate needs that. Causes of the host, and four of the job, of four severities; others are never so bad, or always."""
        bench.engine.watched = {1}
        bench.tick()
        totals = bench.totals()

        assert totals[Series(catalog.chains.CHAINS, ("block_io", "gap", "critical"))] == 0
        assert len(totals) == (13 + 4) * 4 + (2 + 4 + 4 * 1) + (3 * 2 + 2 * 3) + 3 * 1 + (3 + 1)
        assert bench.totals(2) == ABRUPT

    def test_open_chain_has_not_escalated_yet(self, bench: Bench) -> None:
        """Each severity that it may become begins at zero, and stays when it is resolved."""
        chain = a_chain(severity=Severity.LOW)
        bench.tick(says=(Transition(Change.OPENED, chain), chain.resolved(1, End.RECOVERED)))
        escalations = {
            key.labels: total for key, total in bench.totals().items() if key.metric is catalog.chains.ESCALATIONS
        }

        assert escalations == {(*GAP, "medium"): 0, (*GAP, "high"): 0, (*GAP, "critical"): 0}

    def test_cold_start_is_what_the_first_steps_cost(self, bench: Bench) -> None:
        """By what they were spent in, once that is known."""
        bench.engine.cold = {1: Cold(0, 9 * SECOND, {Effect.LAUNCH: 2 * SECOND, Effect.GRAPH: 0})}

        assert bench.totals() == ABRUPT | {
            Series(catalog.chains.COLD_START, ("launch",)): 2 * SECOND,
            Series(catalog.chains.COLD_START, ("graph",)): 0,
        }
        assert bench.totals(2) == ABRUPT

    def test_ids_are_bounded(self, bench: Bench) -> None:
        """A node where everything goes wrong at once."""
        bench.engine.open = [a_chain(id=f"{number:032x}") for number in range(100)]

        assert len([key for key in bench.totals() if key.metric is catalog.chains.INFO]) == MAX_INFOS == 64

    def test_worst_chains_have_ids(self, bench: Bench) -> None:
        """Where there are more than that."""
        low = [a_chain(id=f"{number:032x}", severity=Severity.LOW) for number in range(MAX_INFOS)]
        bench.engine.open = [*low, a_chain(id="f" * 32, severity=Severity.CRITICAL)]
        ids = [key.labels[0] for key in bench.totals() if key.metric is catalog.chains.INFO]

        assert ids == ["f" * 32, *(f"{number:032x}" for number in range(MAX_INFOS - 1))]

    def test_tenant_with_many_chains_takes_no_place_of_the_others(self, bench: Bench) -> None:
        """64 critical ones of one namespace, and a low one of another job."""
        many = [a_chain(id=f"{number:032x}", process=2, severity=Severity.CRITICAL) for number in range(MAX_INFOS)]
        bench.engine.open = [*many, a_chain(id="f" * 32, process=3, severity=Severity.LOW)]
        owners = {2: Identity(namespace="many"), 3: Identity(container="job_1")}
        totals = bench.detection.totals([2, 3], owners)
        shown = [key for of in totals.values() for key in of if key.metric is catalog.chains.INFO]

        assert len(shown) == MAX_INFOS
        assert "f" * 32 in [key.labels[0] for key in shown]

    def test_chains_of_several_causes_are_active_side_by_side(self, bench: Bench) -> None:
        """A disk on top of a neighbour: two series, and two ids. The end of one leaves the other."""
        hog, disk = a_chain(), a_chain(id="2" * 32, cause=Cause.BLOCK_IO, severity=Severity.CRITICAL, culprits=())
        bench.engine.open = [hog, disk]
        bench.tick(says=(Transition(Change.OPENED, hog), Transition(Change.OPENED, disk)))
        both = bench.totals()
        bench.engine.open = [disk]
        bench.tick(says=(hog.resolved(12 * SECOND, End.RECOVERED),))
        one = bench.totals()

        severity = {
            "hog": Series(catalog.chains.SEVERITY, GAP),
            "disk": Series(catalog.chains.SEVERITY, ("block_io", "gap")),
        }
        assert (both[severity["hog"]], both[severity["disk"]]) == (3, 4)
        assert both[Series(catalog.chains.INFO, ("1" * 32, "cpu_contention", "stress-ng"))] == 1
        assert both[Series(catalog.chains.INFO, ("2" * 32, "block_io", ""))] == 1
        assert (one[severity["hog"]], one[severity["disk"]]) == (0, 4)

    def test_chains_of_several_causes_are_traces_of_their_own(self, bench: Bench) -> None:
        """What is lost to each cause leads to its chain."""
        bench.engine.open = [a_chain(lost_ns=1), a_chain(id="2" * 32, cause=Cause.OWN_WAIT, lost_ns=2)]
        found = bench.detection.traces([1])[1]

        assert {key.labels: trace.trace_id for key, trace in found.items()} == {
            ("cpu_contention",): "1" * 32,
            ("own_wait",): "2" * 32,
        }

    def test_forgotten_process_has_counted_nothing(self, bench: Bench) -> None:
        """Its number is not given again."""
        bench.tick(says=(Transition(Change.OPENED, a_chain()),))
        bench.detection.forget([1])

        assert bench.totals() == ABRUPT
