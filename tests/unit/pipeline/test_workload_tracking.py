"""pipeline.workload_tracking: processes that come, get a name and end."""

from __future__ import annotations

from pathlib import Path

import pytest

from exporter import catalog
from exporter.model import Histogram
from exporter.pipeline.workload_tracking import RETIRED_AT_ONCE
from tests.unit.host.process_tree import process
from tests.unit.pipeline.bench import Bench


class TestEndedProcesses:
    """Their totals are kept, then their rows are deleted."""

    def test_totals_outlive_the_process(self, bench: Bench) -> None:
        """What it did since the last scrape is in its last totals."""
        bench.tracking.tick([])
        bench.kernel.call(1, "cudaMalloc", durations_ns=[500])
        bench.tracking.tick([1])

        assert bench.exported(catalog.cuda.OPERATIONS) == {("3", "runtime", "cudaMalloc"): 3}

    def test_info_ends_with_the_process(self, bench: Bench) -> None:
        """It is no longer alive."""
        bench.tracking.tick([])
        bench.tracking.tick([1])

        assert bench.exported(catalog.workload.INFO) == {}

    def test_rows_are_deleted_from_every_map(self, bench: Bench) -> None:
        """So that their room can be used again; another process keeps its rows."""
        bench.kernel.process(1, live_allocations=1)
        bench.kernel.process(2, tgid=200)
        bench.kernel.error(1, "cudaMalloc", code=2)
        bench.kernel.communicator(1)
        bench.kernel.allocation(1, address=4096, size_bytes=64)
        bench.tracking.tick([])
        bench.tracking.tick([1])

        left = {name: len(table.rows) for name, table in bench.kernel.maps.items() if table.rows}
        assert left == {"processes": 1}

    def test_process_that_came_and_went_between_two_ticks_is_counted(self, bench: Bench) -> None:
        """Admitted and retired in one tick."""
        bench.tracking.tick([1])

        assert bench.exported(catalog.cuda.OPERATIONS) == {("3", "runtime", "cudaMalloc"): 2}

    def test_end_reported_twice_counts_once(self, bench: Bench) -> None:
        """By the kernel's event and by the liveness check."""
        bench.tracking.tick([1, 1])
        bench.tracking.tick([1])

        assert bench.exported(catalog.cuda.OPERATIONS) == {("3", "runtime", "cudaMalloc"): 2}

    def test_thousands_that_end_at_once_take_several_ticks(self, bench: Bench) -> None:
        """What each has done is counted, once."""
        numbers = range(2, 2 * RETIRED_AT_ONCE + 2)
        for number in numbers:
            bench.kernel.process(number, tgid=0)
            bench.kernel.call(number, "cudaFree", durations_ns=[100])
        left = []
        for ended in (numbers, (), ()):
            bench.tracking.tick(ended)
            left.append(len(bench.kernel.maps["processes"].rows))

        assert left == [1 + RETIRED_AT_ONCE, 1, 1]
        assert sum(bench.exported(catalog.cuda.OPERATIONS).values()) == 2 + len(numbers)

    def test_lost_exit_event_is_found_by_the_liveness_check(self, bench: Bench) -> None:
        """/proc has no such process."""
        bench.kernel.process(2, tgid=200)
        bench.tracking.tick([])
        bench.tracking.begin_liveness_check()

        assert bench.tracking.missed_exits() == [2]


class TestRenaming:
    """NCCL gives the rank after the process was exported without one."""

    def test_totals_are_split_and_none_is_lost(self, bench: Bench, tmp_path: Path) -> None:
        """10 calls without a rank, 3 with it."""
        process(tmp_path, 200, environ=b"", cgroup=b"0::/\n")
        bench.kernel.process(2, tgid=200)
        bench.kernel.call(2, "cudaFree", durations_ns=[100] * 10)
        for _ in range(3):
            bench.tracking.tick([])
        bench.kernel.communicator(2, rank=5, ranks=8)
        bench.tracking.tick([])
        bench.kernel.call(2, "cudaFree", durations_ns=[100] * 3)

        found = bench.exported(catalog.cuda.OPERATIONS)
        assert (found["", "runtime", "cudaFree"], found["5", "runtime", "cudaFree"]) == (10, 3)


class TestEngines:
    """A process that serves, and its steps."""

    @pytest.fixture
    def serving(self, bench: Bench, tmp_path: Path) -> Bench:
        """Process 2 is vLLM's, and has had three outputs, 20 ms apart."""
        process(tmp_path, 200, environ=b"RANK=5\0", cgroup=b"0::/\n", cmdline=b"VLLM::Worker_TP0\0")
        bench.kernel.process(2, tgid=200)
        bench.kernel.outputs(2, [(at_ms * 1_000_000, 0) for at_ms in (99_900, 99_920, 99_940)])
        bench.tracking.tick([])
        return bench

    def test_step_duration_is_exported_for_the_engine_alone(self, serving: Bench) -> None:
        """There are two processes; the other one is no engine."""
        (steps,) = serving.exported(catalog.engine.STEP_DURATION).values()

        assert isinstance(steps, Histogram)
        assert (steps.counts.total, steps.sum_seconds) == (2, 0.04)
        assert serving.exported(catalog.engine.INFO) == {("5", "vllm"): 1}

    def test_ticks_read_outputs_that_the_ring_has_overwritten_by_the_next_scrape(self, serving: Bench) -> None:
        """300 outputs, of which each tick sees a hundred."""
        for seen in (100, 200, 300):
            outputs = [(99_940_000_000 + 1_000_000 * number, 0) for number in range(max(seen - 127, 1), seen + 1)]
            serving.kernel.outputs(2, outputs, before=3 + seen - len(outputs))
            serving.tracking.tick([])
        (steps,) = serving.exported(catalog.engine.STEP_DURATION).values()

        assert isinstance(steps, Histogram)
        assert steps.counts.total == 302
        assert serving.exported(catalog.engine.MISSED_STEPS) == {("5", "vllm"): 0}

    def test_step_duration_outlives_the_process_and_its_info_does_not(self, serving: Bench) -> None:
        """What came since the last tick is in it: one more output."""
        serving.kernel.outputs(2, [(at_ms * 1_000_000, 0) for at_ms in (99_900, 99_920, 99_940, 99_970)])
        serving.tracking.tick([2])
        (steps,) = serving.exported(catalog.engine.STEP_DURATION).values()

        assert isinstance(steps, Histogram)
        assert (steps.counts.total, steps.sum_seconds) == (3, 0.07)
        assert serving.exported(catalog.engine.INFO) == {}
        assert serving.kernel.maps["outputs"].rows == {}

    def test_idleness_goes_on_until_the_scrape(self, serving: Bench) -> None:
        """The last output was at 99.94 s, and it is 101 s."""
        assert serving.exported(catalog.engine.IDLE) == {("5", "vllm"): pytest.approx(1.06)}
