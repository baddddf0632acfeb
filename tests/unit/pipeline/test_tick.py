"""pipeline.tick: lost time and chains, tick by tick."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from exporter import catalog
from exporter.chains.chain import Change
from exporter.kernel import abi
from exporter.kernel.abi import ThreadState
from exporter.model import Exemplar
from tests.support.traced import eventually, only
from tests.unit.pipeline.bench import Bench


class TestLostTime:
    """Lost time is charged at every tick and exported with everything else."""

    @pytest.fixture
    def stalled(self, bench: Bench) -> Bench:
        """Process 1 has lost 1.5 s behind `stress`."""
        bench.kernel.feeding(1, dry_ns={ThreadState.RUNNABLE: 1_500_000_000})
        bench.kernel.blame(1, 2_000_000_000, comm=b"stress")
        bench.tracking.tick([])
        return bench

    def test_loss_is_exported_in_seconds(self, stalled: Bench) -> None:
        """By cause, and by culprit."""
        assert stalled.exported(catalog.sched.LOST) == {("3", "cpu_contention"): 1.5}
        assert stalled.exported(catalog.sched.CULPRIT) == {("3", "cpu_contention", "stress"): 1.5}

    def test_loss_is_charged_tick_by_tick(self, stalled: Bench) -> None:
        """Without a snapshot in between: 1.5 s behind the first program, 0.5 s behind the second.

        Who held CPUs is read at every fourth tick.
        """
        for _ in range(4):
            stalled.tracking.tick([])
        stalled.kernel.feeding(1, dry_ns={ThreadState.RUNNABLE: 2_000_000_000})
        stalled.kernel.blame(1, 9_000_000_000, comm=b"cc1", tgid=667)
        for _ in range(4):
            stalled.tracking.tick([])

        assert stalled.exported(catalog.sched.CULPRIT) == {
            ("3", "cpu_contention", "stress"): 1.5,
            ("3", "cpu_contention", "cc1"): 0.5,
        }

    def test_loss_outlives_the_process(self, stalled: Bench) -> None:
        """With what came since the last tick, and with what was charged to no culprit."""
        stalled.kernel.feeding(1, dry_ns={ThreadState.RUNNABLE: 1_500_000_000, ThreadState.IO: 250_000_000})
        stalled.tracking.tick([1])

        assert stalled.exported(catalog.sched.LOST) == {("3", "cpu_contention"): 1.5, ("3", "block_io"): 0.25}
        assert not stalled.kernel.maps["blame"].rows

    def test_loss_without_a_culprit_is_unknown_when_the_process_ends(self, bench: Bench) -> None:
        """It no longer waits for a culprit."""
        bench.kernel.feeding(1, dry_ns={ThreadState.RUNNABLE: 1_500_000_000})
        bench.tracking.tick([])
        before = bench.exported(catalog.sched.LOST)
        bench.tracking.tick([1])

        assert (before, bench.exported(catalog.sched.LOST)) == ({}, {("3", "unknown"): 1.5})

    def test_defect_costs_these_metrics_only(self, stalled: Bench, caplog: pytest.LogCaptureFixture) -> None:
        """A state that does not exist; calls are still counted."""
        caplog.set_level(logging.CRITICAL)
        key = abi.WAKEUP_KEY.pack(1, 0, 99, 2, 0)
        stalled.kernel.maps["wakeups"].rows[key] = bytes(abi.WAKEUP_ROW.size)
        stalled.tracking.tick([])

        assert stalled.exported(catalog.sched.LOST) == {}
        assert stalled.exported(catalog.cuda.OPERATIONS) == {("3", "runtime", "cudaMalloc"): 2}
        assert stalled.own_value("gpustall_exporter_collector_success", collector="sched") == 0

    def test_collector_without_a_kernel_program_is_not_a_success(self, tmp_path: Path) -> None:
        """What it has is exported."""
        bench = Bench(tmp_path, impaired={"sched"})
        bench.kernel.process(1)
        bench.kernel.feeding(1, dry_ns={ThreadState.IO: 250_000_000})
        for _ in range(3):
            bench.tracking.tick([])

        assert bench.exported(catalog.sched.LOST) == {("3", "block_io"): 0.25}
        assert bench.own_value("gpustall_exporter_collector_success", collector="sched") == 0

    def test_error_of_the_accounting_is_reported(self, stalled: Bench) -> None:
        """A quarter of a thread's second is missing."""
        stalled.kernel.thread(1, 11, read_ns=0)
        stalled.exported(catalog.sched.LOST)
        stalled.kernel.thread(1, 11, read_ns=1_000_000_000, booked_ns={ThreadState.ON_CPU: 750_000_000})
        stalled.exported(catalog.sched.LOST)

        assert stalled.own_value("gpustall_exporter_accounting_error_ratio", figure="wall") == 0.25


class TestChains:
    """Detected at ticks, exported with everything else."""

    def events(self, bench: Bench) -> list[tuple[str, str, int]]:
        """(change, rank, tgid) of every event but evidence."""
        return [
            (one.change, one.identity.rank if one.identity else "", one.tgid)
            for one in bench.events.received
            if one.change is not Change.EVIDENCE
        ]

    def starve(self, bench: Bench, seconds: int) -> None:
        """Half of the time is lost to the disk from the beginning."""
        for tick in range(1, seconds * 4 + 1):
            bench.now += 0.25
            bench.kernel.feeding(1, dry_ns={ThreadState.IO: tick * 125_000_000}, hits=(12 * tick, 0, 0))
            bench.tracking.tick([])

    def test_chain_is_reported_and_exported(self, bench: Bench) -> None:
        """Chronic: half a minute of it."""
        self.starve(bench, 31)

        assert self.events(bench) == [("opened", "3", 100)]
        assert bench.exported(catalog.chains.SEVERITY) == {("3", "block_io", "gap"): 2}

    def test_process_that_serves_others_and_launches_nothing_has_no_chain(self, bench: Bench) -> None:
        """The server of NVIDIA's MPS maps the driver, and waits for an hour at a time."""
        bench.kernel.process(1, comm=b"nvidia-cuda-mps")
        bench.kernel.call(1, "cuMemAlloc", durations_ns=[1_000_000])
        for tick in range(1, 60 * 4):
            bench.now += 0.25
            bench.kernel.thread(1, 11, read_ns=tick * 250_000_000, booked_ns={ThreadState.SOCKET: tick * 250_000_000})
            bench.tracking.tick([])

        assert self.events(bench) == []

    def test_lost_time_names_the_chain(self, bench: Bench) -> None:
        """Half of every second, since the chain began; also when the job has ended in it."""
        self.starve(bench, 31)
        open_, opened = self.exemplar(bench), bench.events.received[0]
        bench.tracking.tick([1])
        over = self.exemplar(bench)

        assert open_.labels == over.labels == (("trace_id", opened.chain_id), ("span_id", opened.chain_id[:16]))
        assert open_.seconds == pytest.approx(opened.duration_ns / 2e9, abs=0.5)
        assert over.at_unix_ns >= open_.at_unix_ns

    def exemplar(self, bench: Bench) -> Exemplar:
        """The exemplar of time lost to the disk."""
        bench.now += 1.0
        families = bench.snapshots.snapshot().families
        found: Exemplar = only(one for family in families for one in family.exemplars.values())
        return found

    def test_chain_ends_with_its_process(self, bench: Bench) -> None:
        """What was opened stays counted."""
        self.starve(bench, 31)
        bench.tracking.tick([1])

        opened = {kind: times for kind, times in bench.exported(catalog.chains.CHAINS).items() if times}

        assert self.events(bench) == [("opened", "3", 100), ("resolved", "3", 100)]
        assert opened == {("3", "block_io", "gap", "medium"): 1}
        assert bench.exported(catalog.chains.ACTIVE) == {}

    def test_evidence_is_reported_for_an_open_chain(self, bench: Bench) -> None:
        """Once, with its process; the chain is counted once."""
        self.starve(bench, 31)
        eventually(lambda: bench.scene.results, "the stack is taken")
        for _ in range(2):
            bench.now += 0.25
            bench.tracking.tick([])
        (found,) = (one for one in bench.events.received if one.change is Change.EVIDENCE)

        assert (found.cause, found.tgid, found.identity and found.identity.rank) == ("block_io", 100, "3")
        assert found.evidence[:2] == (
            "thread 4711 (pt_main_thread) has been in cudaStreamSynchronize for 2.3 s, called by",
            "  f3005",
        )
        assert self.events(bench) == [("opened", "3", 100)]

    def test_defect_in_stack_sampling_costs_no_chain(self, bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
        """It is logged and counted."""
        caplog.set_level(logging.CRITICAL)
        bench.scene.is_unreadable = True
        self.starve(bench, 31)

        assert self.events(bench) == [("opened", "3", 100)]
        assert bench.own_value("gpustall_exporter_collector_errors_total", collector="chains")
