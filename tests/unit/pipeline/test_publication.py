"""publication: from tables to snapshots, with real collectors, roster and ledger over fake maps and a fake /proc."""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from exporter.pipeline.publication import Publication
from prometheus_client.parser import text_string_to_metric_families

from exporter import catalog
from exporter.chains.chain import Chain, Transition
from exporter.clock import Clock, Moment
from exporter.collectors import HostCollector
from exporter.history.window import ProcessLabels, Switches, Window
from exporter.history.windowing import ProcessTotals, WindowBuilder
from exporter.kernel import abi
from exporter.kernel.abi import ThreadState
from exporter.kernel.calibration import CallCost
from exporter.kernel.process_rows import CommunicatorRow, ProcessRow
from exporter.kernel.readings import Accounts, Reading
from exporter.kernel.tables import Tables
from exporter.model import Exemplar, Histogram, Identity, Snapshot
from exporter.output.negotiation import Format
from exporter.output.own_metrics import OwnMetrics
from exporter.probes.sampling import AdaptiveSampler
from exporter.series.host_totals import TotalsByIdentity, TracedProcess
from exporter.series.store import SeriesStore
from exporter.stacks.collector import ChainProcess
from exporter.totals import Series, Total
from exporter.workloads.registry import WorkloadRegistry
from tests.support.records import at, series_of
from tests.support.tables import FakeTables
from tests.support.traced import eventually, only
from tests.support.witnessing import STUCK, Scene
from tests.unit.host.process_tree import process

PATIENCE_SECONDS = 20


class _BrokenCommunicators(dict[int, list[CommunicatorRow]]):
    """Raises when the nccl collector goes through it; the cuda collector never does."""

    def items(self) -> Iterator[tuple[int, list[CommunicatorRow]]]:  # type: ignore[override]
        raise RuntimeError("a defect in a collector")


class _TablesThatBreakNccl(Tables):
    """Readings of which only the communicators are unusable."""

    is_broken = True

    def read(self) -> Reading:
        """What Tables reads, with a trap in it."""
        return self._trapped(super().read())

    def read_of(self, processes: Mapping[int, ProcessRow]) -> Reading:
        """So is this."""
        return self._trapped(super().read_of(processes))

    def _trapped(self, reading: Reading) -> Reading:
        return replace(reading, communicators=_BrokenCommunicators()) if self.is_broken else reading


class _Onlooker:
    """Cuts windows whenever something is read. is_curious: whether it wants to see it."""

    def __init__(self) -> None:
        self.is_curious = True
        self.taken: list[ProcessTotals] = []
        self._cutter = WindowBuilder(at(0))

    def is_due(self, now: Moment) -> bool:
        return self.is_curious

    def on_totals(self, taken: ProcessTotals) -> None:
        self.taken.append(taken)

    def on_process_end(
        self, process: int, labels: ProcessLabels, totals: Mapping[Series, Total], switches: Switches
    ) -> None:
        self._cutter.end_process(process, labels, totals, switches)

    def windows(self) -> list[Window]:
        """Of the last reading."""
        return self._cutter.cut(self.taken[-1])


class Bench:
    """A publication and what it stands on. now: the clock's time."""

    def __init__(
        self,
        proc: Path,
        make_tables: type[Tables] = Tables,
        impaired: Collection[str] = (),
        make_ledger: type[SeriesStore] = SeriesStore,
        surroundings: Mapping[str, HostCollector] | None = None,
    ) -> None:
        self.kernel = FakeTables()
        self.tables = make_tables(self.kernel.maps, self.kernel.iterate)
        self.own = OwnMetrics()
        self.now = 100.0
        clock = Clock(lambda: at(self.now).monotonic_ns, lambda: at(self.now).unix_ns)
        self.processes = process(proc, 100, environ=b"RANK=3\0", cgroup=b"0::/\n")
        roster = WorkloadRegistry(self.processes, "gpu7", 256)
        self.ledger = make_ledger(900.0, clock.now())
        collectors = ("cuda", "nccl", "sched", "chains", "engine")
        self.said: list[tuple[Transition, Identity | None, int, tuple[int, ...], Moment]] = []
        self.onlooker = _Onlooker()
        self.scene = Scene(STUCK)
        self.evidence: list[tuple[Chain, ChainProcess, tuple[str, ...], Moment]] = []
        self.publication = Publication(
            onlooker=self.onlooker,
            tables=self.tables,
            roster=roster,
            ledger=self.ledger,
            own=self.own,
            collectors=collectors,
            clock=clock,
            governor=AdaptiveSampler(CallCost(timed_ns=2000.0, counted_ns=500.0), limit=0.01),
            impaired=impaired,
            tell=lambda *said: self.said.append(said),
            witness=self.scene.witness,
            tell_evidence=lambda *evidence: self.evidence.append(evidence),
            surroundings=surroundings or {},
        )

    def exported(self, metric: catalog.Metric) -> dict[tuple[str, ...], int | float | Histogram]:
        """The series of one metric in a fresh snapshot."""
        self.now += 1.0
        return series_of(self.publication.snapshot().families, metric)

    def own_value(self, name: str, **labels: str) -> float | None:
        """A sample of the exporter's own metrics."""
        for family in text_string_to_metric_families(self.own.render(Format.TEXT).decode()):
            for sample in family.samples:
                if sample.name == name and sample.labels == labels:
                    return sample.value
        return None


class _Disks:
    """A collector of the machine. asked: which processes it was told of."""

    resets = 3

    def __init__(self) -> None:
        self.is_broken = False
        self.asked: list[Sequence[TracedProcess]] = []

    def collect(self, _now_ns: int, traced: Sequence[TracedProcess]) -> TotalsByIdentity:
        """A container that the exporter does not trace."""
        self.asked.append(traced)
        if self.is_broken:
            raise RuntimeError("a defect in a collector")
        return {Identity("gpu7", container="db"): {Series(catalog.block.BYTES, ("sda", "read")): 512}}


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """Process 1, rank 3, has allocated twice."""
    made = Bench(tmp_path)
    made.kernel.process(1)
    made.kernel.call(1, "cudaMalloc", durations_ns=[1_000, 2_000])
    return made


class TestSnapshots:
    """What a scrape gets."""

    def test_process_is_exported_after_its_first_tick(self, bench: Bench) -> None:
        """With its rank, its operations and its info."""
        bench.publication.tick([])

        assert bench.exported(catalog.cuda.OPERATIONS) == {("3", "runtime", "cudaMalloc"): 2}
        assert list(bench.exported(catalog.workload.INFO)) == [("3", "100", "python", *[""] * 11)]

    def test_process_not_yet_met_is_not_exported(self, bench: Bench) -> None:
        """A scrape before the tick knows no name for it."""
        assert bench.publication.snapshot().families == ()

    def test_snapshots_within_200_ms_are_shared(self, bench: Bench) -> None:
        """Two Prometheus servers and a push cost one reading."""
        first = bench.publication.snapshot()
        bench.now += 0.19

        assert bench.publication.snapshot() is first

    def test_later_snapshot_is_taken_anew(self, bench: Bench) -> None:
        """What was counted meanwhile is in it."""
        bench.publication.tick([])
        before = bench.publication.snapshot()
        bench.kernel.call(1, "cudaMalloc", durations_ns=[500])
        bench.now += 0.21
        after = bench.publication.snapshot()

        values = [series_of(s.families, catalog.cuda.OPERATIONS)["3", "runtime", "cudaMalloc"] for s in (before, after)]
        assert values == [2, 3]

    def test_shared_snapshot_reads_no_table(self, bench: Bench) -> None:
        """The operations are the expensive part."""
        bench.publication.tick([])
        before = bench.kernel.maps["operations"].times_read
        bench.publication.snapshot()
        bench.publication.snapshot()
        read = bench.kernel.maps["operations"].times_read - before

        assert read == 1

    def test_tick_without_news_reads_small_rows_only(self, bench: Bench) -> None:
        """A tick comes four times a second."""
        bench.publication.tick([])
        bench.publication.tick([])

        assert bench.kernel.maps["operations"].times_read == 0


class TestEndedProcesses:
    """Folded, then deleted."""

    def test_totals_outlive_the_process(self, bench: Bench) -> None:
        """What it did since the last scrape is in its last totals."""
        bench.publication.tick([])
        bench.kernel.call(1, "cudaMalloc", durations_ns=[500])
        bench.publication.tick([1])

        assert bench.exported(catalog.cuda.OPERATIONS) == {("3", "runtime", "cudaMalloc"): 3}

    def test_info_ends_with_the_process(self, bench: Bench) -> None:
        """It is no longer alive."""
        bench.publication.tick([])
        bench.publication.tick([1])

        assert bench.exported(catalog.workload.INFO) == {}

    def test_rows_are_deleted_from_every_map(self, bench: Bench) -> None:
        """So that their room can be used again; another process keeps its rows."""
        bench.kernel.process(1, live_allocations=1)
        bench.kernel.process(2, tgid=200)
        bench.kernel.error(1, "cudaMalloc", code=2)
        bench.kernel.communicator(1)
        bench.kernel.allocation(1, address=4096, size_bytes=64)
        bench.publication.tick([])
        bench.publication.tick([1])

        left = {name: len(table.rows) for name, table in bench.kernel.maps.items() if table.rows}
        assert left == {"processes": 1}

    def test_process_that_came_and_went_between_two_ticks_is_counted(self, bench: Bench) -> None:
        """Met and dismissed in one tick."""
        bench.publication.tick([1])

        assert bench.exported(catalog.cuda.OPERATIONS) == {("3", "runtime", "cudaMalloc"): 2}

    def test_end_told_twice_counts_once(self, bench: Bench) -> None:
        """By the kernel's event and by the roll call."""
        bench.publication.tick([1, 1])
        bench.publication.tick([1])

        assert bench.exported(catalog.cuda.OPERATIONS) == {("3", "runtime", "cudaMalloc"): 2}

    def test_lost_exit_is_found_by_the_roll_call(self, bench: Bench) -> None:
        """/proc has no such process."""
        bench.kernel.process(2, tgid=200)
        bench.publication.tick([])
        bench.publication.call_roll()

        assert bench.publication.gone() == [2]


class TestRenaming:
    """NCCL tells the rank after the process was exported without one."""

    def test_totals_are_split_and_none_is_lost(self, bench: Bench, tmp_path: Path) -> None:
        """10 calls without a rank, 3 with it."""
        process(tmp_path, 200, environ=b"", cgroup=b"0::/\n")
        bench.kernel.process(2, tgid=200)
        bench.kernel.call(2, "cudaFree", durations_ns=[100] * 10)
        for _ in range(3):
            bench.publication.tick([])
        bench.kernel.communicator(2, rank=5, ranks=8)
        bench.publication.tick([])
        bench.kernel.call(2, "cudaFree", durations_ns=[100] * 3)

        found = bench.exported(catalog.cuda.OPERATIONS)
        assert (found["", "runtime", "cudaFree"], found["5", "runtime", "cudaFree"]) == (10, 3)


class TestEngines:
    """A process that serves, and its pace."""

    @pytest.fixture
    def serving(self, bench: Bench, tmp_path: Path) -> Bench:
        """Process 2 is vLLM's, and has had three outputs, 20 ms apart."""
        process(tmp_path, 200, environ=b"RANK=5\0", cgroup=b"0::/\n", cmdline=b"VLLM::Worker_TP0\0")
        bench.kernel.process(2, tgid=200)
        bench.kernel.outputs(2, [(at_ms * 1_000_000, 0) for at_ms in (99_900, 99_920, 99_940)])
        bench.publication.tick([])
        return bench

    def test_pace_is_told_of_the_engine_alone(self, serving: Bench) -> None:
        """Of two processes; the other one is nobody's."""
        (steps,) = serving.exported(catalog.engine.STEP_DURATION).values()

        assert isinstance(steps, Histogram)
        assert (steps.counts.total, steps.sum_seconds) == (2, 0.04)
        assert serving.exported(catalog.engine.INFO) == {("5", "vllm"): 1}

    def test_ticks_see_what_the_ring_forgets_before_a_scrape(self, serving: Bench) -> None:
        """300 outputs, of which each tick sees a hundred."""
        for seen in (100, 200, 300):
            outputs = [(99_940_000_000 + 1_000_000 * number, 0) for number in range(max(seen - 127, 1), seen + 1)]
            serving.kernel.outputs(2, outputs, before=3 + seen - len(outputs))
            serving.publication.tick([])
        (steps,) = serving.exported(catalog.engine.STEP_DURATION).values()

        assert isinstance(steps, Histogram)
        assert steps.counts.total == 302
        assert serving.exported(catalog.engine.MISSED_STEPS) == {("5", "vllm"): 0}

    def test_pace_outlives_the_process_and_its_name_does_not(self, serving: Bench) -> None:
        """What came since the last tick is in it: one more output."""
        serving.kernel.outputs(2, [(at_ms * 1_000_000, 0) for at_ms in (99_900, 99_920, 99_940, 99_970)])
        serving.publication.tick([2])
        (steps,) = serving.exported(catalog.engine.STEP_DURATION).values()

        assert isinstance(steps, Histogram)
        assert (steps.counts.total, steps.sum_seconds) == (3, 0.07)
        assert serving.exported(catalog.engine.INFO) == {}
        assert serving.kernel.maps["outputs"].rows == {}

    def test_idleness_goes_on_until_the_scrape(self, serving: Bench) -> None:
        """The last output was at 99.94 s, and it is 101 s."""
        assert serving.exported(catalog.engine.IDLE) == {("5", "vllm"): pytest.approx(1.06)}


class TestFailingCollector:
    """A defect costs the metrics of the collector it is in."""

    @pytest.fixture
    def broken(self, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> Bench:
        """The nccl collector fails on every reading."""
        caplog.set_level(logging.CRITICAL)
        made = Bench(tmp_path, _TablesThatBreakNccl)
        made.kernel.process(1, communicators=1)
        made.kernel.call(1, "cudaMalloc", durations_ns=[1_000])
        made.kernel.call(1, "ncclAllReduce", durations_ns=[1_000], communicator=1)
        made.publication.tick([])
        return made

    def test_other_collectors_metrics_are_there(self, broken: Bench) -> None:
        """CUDA as ever, nothing of NCCL."""
        assert broken.exported(catalog.cuda.OPERATIONS) == {("3", "runtime", "cudaMalloc"): 1}
        assert broken.exported(catalog.nccl.OPERATION_DURATION) == {}

    def test_totals_of_ended_processes_are_not_exported_alone(self, broken: Bench) -> None:
        """A counter that lacks the living would go back."""
        broken.tables.is_broken = False  # type: ignore[attr-defined]
        broken.publication.tick([1])
        broken.kernel.process(2)
        broken.kernel.call(2, "ncclAllReduce", durations_ns=[1_000], communicator=1)
        broken.publication.tick([])
        whole = broken.exported(catalog.nccl.OPERATION_DURATION)
        broken.tables.is_broken = True  # type: ignore[attr-defined]

        assert [sum(value.counts) for value in whole.values() if isinstance(value, Histogram)] == [2]
        assert broken.exported(catalog.nccl.OPERATION_DURATION) == {}

    def test_failure_is_counted_by_collector(self, broken: Bench) -> None:
        """One run, one error; success is 0 for it and 1 for the other."""
        broken.publication.snapshot()

        errors, success = "gpustall_exporter_collector_errors_total", "gpustall_exporter_collector_success"
        assert (broken.own_value(errors, collector="nccl"), broken.own_value(errors, collector="cuda")) == (1, 0)
        assert (broken.own_value(success, collector="nccl"), broken.own_value(success, collector="cuda")) == (0, 1)

    def test_collector_that_works_again_is_exported_again(self, broken: Bench) -> None:
        """Its totals are the kernel's: nothing was lost meanwhile."""
        broken.publication.snapshot()
        broken.tables.is_broken = False  # type: ignore[attr-defined]

        assert list(broken.exported(catalog.nccl.OPERATION_DURATION)) == [("3", "ncclAllReduce", "0")]
        assert broken.own_value("gpustall_exporter_collector_success", collector="nccl") == 1


class _HeldTables(Tables):
    """A reading waits until it is let go. is_reading: it waits."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.is_reading, self.may_go_on = threading.Event(), threading.Event()

    def read(self) -> Reading:
        """What Tables reads, a while later."""
        reading = super().read()
        self.is_reading.set()
        assert self.may_go_on.wait(PATIENCE_SECONDS)
        return reading


class _HeldAccounts(Tables):
    """Reads where the time of threads went, and returns a while later."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.is_reading, self.may_go_on = threading.Event(), threading.Event()

    def read_accounts(self, *arguments: Any, **named: Any) -> Accounts:
        """What Tables reads."""
        accounts = super().read_accounts(*arguments, **named)
        self.is_reading.set()
        assert self.may_go_on.wait(PATIENCE_SECONDS)
        return accounts


class _HeldLedger(SeriesStore):
    """A snapshot waits until it is let go."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.is_busy, self.may_go_on = threading.Event(), threading.Event()

    def snapshot(self, *arguments: Any) -> Snapshot:
        """What Ledger makes, a while later."""
        self.is_busy.set()
        assert self.may_go_on.wait(PATIENCE_SECONDS)
        return super().snapshot(*arguments)


class TestBesidePublications:
    """Ticks go on while a snapshot is taken."""

    @contextmanager
    def taking(self, bench: Bench) -> Iterator[None]:
        """A snapshot, in a thread of its own; over when the block is left."""
        thread = threading.Thread(target=bench.publication.snapshot, daemon=True)
        thread.start()
        yield
        thread.join(PATIENCE_SECONDS)

    def test_process_that_ends_while_tables_are_read_counts_once(self, tmp_path: Path) -> None:
        """Its two calls were read, and kept before they were exported."""
        bench = Bench(tmp_path, _HeldTables)
        bench.kernel.process(1)
        bench.kernel.call(1, "cudaMalloc", durations_ns=[1_000] * 2)
        bench.publication.tick([])
        held = bench.tables
        assert isinstance(held, _HeldTables)
        with self.taking(bench):
            assert held.is_reading.wait(PATIENCE_SECONDS)
            bench.publication.tick([1])
            held.may_go_on.set()

        assert series_of(bench.publication.snapshot().families, catalog.cuda.OPERATIONS) == {
            ("3", "runtime", "cudaMalloc"): 2
        }

    def test_tick_does_not_wait_while_the_books_are_kept(self, tmp_path: Path) -> None:
        """It meets a process; what was lost meanwhile is booked once, at the tick after."""
        bench = Bench(tmp_path, _HeldAccounts)
        bench.kernel.process(1)
        bench.kernel.feeding(1, dry_ns={ThreadState.IO: 250_000_000})
        bench.publication.tick([])
        held = bench.tables
        assert isinstance(held, _HeldAccounts)
        with self.taking(bench):
            assert held.is_reading.wait(PATIENCE_SECONDS)
            bench.kernel.process(2, tgid=200)
            bench.kernel.feeding(1, dry_ns={ThreadState.IO: 750_000_000})
            bench.publication.tick([])
            tracked = bench.own_value("gpustall_exporter_tracked_processes")
            held.may_go_on.set()
        bench.publication.tick([])

        assert (tracked, bench.exported(catalog.sched.LOST)) == (2, {("3", "block_io"): 0.75})

    def test_leave_is_taken_at_the_next_tick_while_the_books_are_kept(self, tmp_path: Path) -> None:
        """The tick returns at once; nothing is lost, nothing counts twice."""
        bench = Bench(tmp_path, make_ledger=_HeldLedger)
        bench.kernel.process(1)
        bench.kernel.call(1, "cudaMalloc", durations_ns=[1_000] * 2)
        bench.publication.tick([])
        held = bench.ledger
        assert isinstance(held, _HeldLedger)
        with self.taking(bench):
            assert held.is_busy.wait(PATIENCE_SECONDS)
            bench.publication.tick([1])
            still_there = bool(bench.kernel.maps["operations"].rows)
            held.may_go_on.set()
        bench.publication.tick([])

        assert (still_there, bench.kernel.maps["operations"].rows) == (True, {})
        assert bench.exported(catalog.cuda.OPERATIONS) == {("3", "runtime", "cudaMalloc"): 2}


class TestLosses:
    """Booked at every tick, exported with everything else."""

    @pytest.fixture
    def stalled(self, bench: Bench) -> Bench:
        """Process 1 has lost 1.5 s behind `stress`."""
        bench.kernel.feeding(1, dry_ns={ThreadState.RUNNABLE: 1_500_000_000})
        bench.kernel.blame(1, 2_000_000_000, comm=b"stress")
        bench.publication.tick([])
        return bench

    def test_loss_is_exported_in_seconds(self, stalled: Bench) -> None:
        """By cause, and by culprit."""
        assert stalled.exported(catalog.sched.LOST) == {("3", "cpu_contention"): 1.5}
        assert stalled.exported(catalog.sched.CULPRIT) == {("3", "cpu_contention", "stress"): 1.5}

    def test_loss_is_charged_tick_by_tick(self, stalled: Bench) -> None:
        """Without a publication in between: 1.5 s behind the first program, 0.5 s behind the second.

        Who held CPUs is read at every fourth tick.
        """
        for _ in range(4):
            stalled.publication.tick([])
        stalled.kernel.feeding(1, dry_ns={ThreadState.RUNNABLE: 2_000_000_000})
        stalled.kernel.blame(1, 9_000_000_000, comm=b"cc1", tgid=667)
        for _ in range(4):
            stalled.publication.tick([])

        assert stalled.exported(catalog.sched.CULPRIT) == {
            ("3", "cpu_contention", "stress"): 1.5,
            ("3", "cpu_contention", "cc1"): 0.5,
        }

    def test_loss_outlives_the_process(self, stalled: Bench) -> None:
        """With what came since the last tick, and with what nobody was charged with."""
        stalled.kernel.feeding(1, dry_ns={ThreadState.RUNNABLE: 1_500_000_000, ThreadState.IO: 250_000_000})
        stalled.publication.tick([1])

        assert stalled.exported(catalog.sched.LOST) == {("3", "cpu_contention"): 1.5, ("3", "block_io"): 0.25}
        assert not stalled.kernel.maps["blame"].rows

    def test_loss_without_a_culprit_is_unknown_when_the_process_ends(self, bench: Bench) -> None:
        """It waits for its charges no longer."""
        bench.kernel.feeding(1, dry_ns={ThreadState.RUNNABLE: 1_500_000_000})
        bench.publication.tick([])
        before = bench.exported(catalog.sched.LOST)
        bench.publication.tick([1])

        assert (before, bench.exported(catalog.sched.LOST)) == ({}, {("3", "unknown"): 1.5})

    def test_defect_costs_these_metrics_only(self, stalled: Bench, caplog: pytest.LogCaptureFixture) -> None:
        """A state that does not exist; calls are counted as ever."""
        caplog.set_level(logging.CRITICAL)
        key = abi.CHAIN_KEY.pack(1, 0, 99, 2, 0)
        stalled.kernel.maps["chains"].rows[key] = bytes(abi.CHAIN_ROW.size)
        stalled.publication.tick([])

        assert stalled.exported(catalog.sched.LOST) == {}
        assert stalled.exported(catalog.cuda.OPERATIONS) == {("3", "runtime", "cudaMalloc"): 2}
        assert stalled.own_value("gpustall_exporter_collector_success", collector="sched") == 0

    def test_collector_that_lacks_a_kernel_program_is_no_success(self, tmp_path: Path) -> None:
        """What it knows is exported all the same."""
        bench = Bench(tmp_path, impaired={"sched"})
        bench.kernel.process(1)
        bench.kernel.feeding(1, dry_ns={ThreadState.IO: 250_000_000})
        for _ in range(3):
            bench.publication.tick([])

        assert bench.exported(catalog.sched.LOST) == {("3", "block_io"): 0.25}
        assert bench.own_value("gpustall_exporter_collector_success", collector="sched") == 0

    def test_error_of_the_accounting_is_reported(self, stalled: Bench) -> None:
        """A thread of which a quarter of a second in one is missing."""
        stalled.kernel.thread(1, 11, read_ns=0)
        stalled.exported(catalog.sched.LOST)
        stalled.kernel.thread(1, 11, read_ns=1_000_000_000, booked_ns={ThreadState.ON_CPU: 750_000_000})
        stalled.exported(catalog.sched.LOST)

        assert stalled.own_value("gpustall_exporter_accounting_error_ratio", figure="wall") == 0.25


class TestChains:
    """Said at ticks, exported with everything else."""

    def told(self, bench: Bench) -> list[tuple[str, str, int]]:
        """(what happened, rank, tgid) of every transition."""
        return [(one.change, identity.rank if identity else "", tgid) for one, identity, tgid, _, _ in bench.said]

    def starve(self, bench: Bench, seconds: int) -> None:
        """Half of the time is lost to the disk from the beginning."""
        for tick in range(1, seconds * 4 + 1):
            bench.now += 0.25
            bench.kernel.feeding(1, dry_ns={ThreadState.IO: tick * 125_000_000}, hits=(12 * tick, 0, 0))
            bench.publication.tick([])

    def test_chain_is_told_and_exported(self, bench: Bench) -> None:
        """Chronic: half a minute of it."""
        self.starve(bench, 31)

        assert self.told(bench) == [("opened", "3", 100)]
        assert bench.exported(catalog.chains.SEVERITY) == {("3", "block_io", "gap"): 2}

    def test_lost_time_names_the_chain(self, bench: Bench) -> None:
        """Half of every second, since the chain began; also when the job has ended in it."""
        self.starve(bench, 31)
        open_, chain = self.exemplar(bench), bench.said[0][0].chain
        bench.publication.tick([1])
        over = self.exemplar(bench)

        assert open_.labels == over.labels == (("trace_id", chain.id), ("span_id", chain.id[:16]))
        assert open_.seconds == pytest.approx((chain.updated_ns - chain.began_ns) / 2e9, abs=0.5)
        assert over.at_unix_ns >= open_.at_unix_ns

    def exemplar(self, bench: Bench) -> Exemplar:
        """Of what was lost to the disk."""
        bench.now += 1.0
        families = bench.publication.snapshot().families
        found: Exemplar = only(one for family in families for one in family.exemplars.values())
        return found

    def test_chain_ends_with_its_process(self, bench: Bench) -> None:
        """What was opened stays counted."""
        self.starve(bench, 31)
        bench.publication.tick([1])

        assert self.told(bench) == [("opened", "3", 100), ("resolved", "3", 100)]
        assert bench.exported(catalog.chains.CHAINS) == {("3", "block_io", "gap", "medium"): 1}
        assert bench.exported(catalog.chains.ACTIVE) == {}

    def test_evidence_is_told_of_an_open_chain(self, bench: Bench) -> None:
        """Once, with whose it is; the chain is counted once."""
        self.starve(bench, 31)
        eventually(lambda: bench.scene.results, "the stack is taken")
        for _ in range(2):
            bench.now += 0.25
            bench.publication.tick([])
        ((chain, whose, lines, _),) = bench.evidence

        assert (chain.cause, whose.tgid, whose.identity and whose.identity.rank) == ("block_io", 100, "3")
        assert lines[:2] == (
            "thread 4711 (pt_main_thread) has been in cudaStreamSynchronize for 2.3 s, called by",
            "  f3005",
        )
        assert self.told(bench) == [("opened", "3", 100)]

    def test_defect_of_the_witness_costs_no_chain(self, bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
        """It is logged and counted."""
        caplog.set_level(logging.CRITICAL)
        bench.scene.is_unreadable = True
        self.starve(bench, 31)

        assert self.told(bench) == [("opened", "3", 100)]
        assert bench.own_value("gpustall_exporter_collector_errors_total", collector="chains")


class TestOwnMetrics:
    """What a publication says about itself."""

    def test_tracked_processes_are_counted(self, bench: Bench) -> None:
        """Those alive."""
        bench.publication.tick([])

        assert bench.own_value("gpustall_exporter_tracked_processes") == 1

    def test_map_entries_and_capacity_are_reported(self, bench: Bench) -> None:
        """Entries as last read; capacity of every table."""
        bench.publication.tick([])
        bench.publication.snapshot()

        assert bench.own_value("gpustall_exporter_map_entries", map="operations") == 1
        assert bench.own_value("gpustall_exporter_map_capacity", map="allocations") == 64

    def test_series_are_counted(self, bench: Bench) -> None:
        """One histogram, one counter, one info."""
        bench.publication.tick([])
        bench.publication.snapshot()

        assert bench.own_value("gpustall_exporter_series") == 3


class TestOnlooker:
    """Who sees what is read, by process."""

    def test_scrape_shows_what_it_has_read(self, bench: Bench) -> None:
        """With who each process is."""
        bench.publication.tick([])
        bench.publication.snapshot()
        (window,) = bench.onlooker.windows()

        assert (window.labels.identity.rank, window.labels.tgid, window.labels.comm) == ("3", 100, "python")
        assert [(one.name, one.calls) for one in window.operations] == [("cudaMalloc", 2)]

    def test_without_scrapes_it_is_shown_on_request(self, bench: Bench) -> None:
        """And no snapshot is made for it."""
        bench.publication.tick([])
        bench.publication.look()

        assert [one.calls for one in bench.onlooker.windows()[0].operations] == [2]
        assert bench.own_value("gpustall_exporter_series") is None

    def test_nothing_is_shown_that_nobody_wants_to_see(self, bench: Bench) -> None:
        """A scrape every second is more than it needs."""
        bench.onlooker.is_curious = False
        bench.publication.tick([])
        bench.publication.snapshot()

        assert bench.onlooker.taken == []

    def test_nothing_is_read_once_it_is_closed(self, bench: Bench) -> None:
        """The programs are gone."""
        bench.publication.close()
        bench.publication.look()

        assert bench.onlooker.taken == []

    def test_last_totals_of_a_process_are_shown(self, bench: Bench) -> None:
        """With the tick that takes leave of it."""
        bench.publication.tick([])
        bench.kernel.call(1, "cudaMalloc", durations_ns=[500])
        bench.publication.tick([1])
        bench.publication.look()
        (window,) = bench.onlooker.windows()

        assert (window.process, window.operations[0].calls) == (1, 3)


class TestSurroundings:
    """Collectors of the machine."""

    def test_what_they_say_is_exported_beside_the_processes(self, tmp_path: Path) -> None:
        """Under the names of containers that nobody traces."""
        disks = _Disks()
        bench = Bench(tmp_path, surroundings={"block": disks})
        bench.kernel.process(1)
        bench.publication.tick([])
        (family,) = [f for f in bench.publication.snapshot().families if f.metric is catalog.block.BYTES]

        assert [(point.identity, point.labels, point.value) for point in family.points] == [
            (Identity("gpu7", container="db"), ("sda", "read"), 512)
        ]
        assert disks.asked == [[TracedProcess(1, 100, Identity("gpu7", rank="3"))]]
        assert bench.own_value("gpustall_exporter_collector_resets_total", collector="block") == 3

    def test_failure_of_one_costs_its_metrics_alone(self, tmp_path: Path) -> None:
        """And is counted."""
        disks = _Disks()
        bench = Bench(tmp_path, surroundings={"block": disks})
        bench.kernel.process(1)
        bench.kernel.call(1, "cudaMalloc", durations_ns=[1_000])
        bench.publication.tick([])
        disks.is_broken = True

        assert bench.exported(catalog.block.BYTES) == {}
        assert bench.exported(catalog.cuda.OPERATIONS) == {("3", "runtime", "cudaMalloc"): 1}
        assert bench.own_value("gpustall_exporter_collector_success", collector="block") == 0
