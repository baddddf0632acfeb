"""CUDA calls in the running kernel: a program makes 23 calls of known length, and 23 are counted."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from exporter.kernel.abi import Copy
from exporter.kernel.process_rows import ProcessRow
from exporter.units import slot_of
from tests.support.priority import before_others
from tests.support.traced import Tracer, only, tracer

# The traps are between the clock readings of the program and of the probe.
TRAP_NS = 200_000


def _process_of(traced: Tracer, *orders: str, environment: Mapping[str, str] | None = None) -> ProcessRow:
    """The row of the process that was run; its preparations are the same whatever the orders."""
    run = traced.run(*orders, environment=environment)
    return max(run.reading.processes.values(), key=lambda row: row.start_ns)


class TestCounting:
    """For every attachment kind."""

    def test_twenty_three_calls_are_counted_as_twenty_three(self, traced: Tracer) -> None:
        """One row, exact count, and every call in the histogram."""
        run = traced.run("cudaEventRecord:23")

        row = run.row("cudaEventRecord")

        assert (row.calls, sum(row.slots)) == (23, 23)
        assert run.drops == {}

    @pytest.mark.hardware_speed
    def test_time_is_what_the_program_measures_less_the_traps(self, traced: Tracer) -> None:
        """23 synchronisations, each waiting 2 ms for a kernel: the sum differs from the program's own by at most the traps."""
        with before_others():
            run = traced.run("--sync=block", "cudaStreamSynchronize:23:2ms")

        row, truth = run.row("cudaStreamSynchronize"), run.truth("runtime", "cudaStreamSynchronize")

        assert 23 * 1_900_000 < row.total_ns <= truth["sum_ns"]
        assert truth["sum_ns"] - row.total_ns < 23 * TRAP_NS
        assert sum(row.slots[: slot_of(1_800_000)]) == 0

    def test_driver_calls_of_the_runtime_are_counted_but_not_timed(self, traced: Tracer) -> None:
        """The runtime launches through the driver: 23 calls on both, the time once."""
        run = traced.run("cudaLaunchKernel:23")

        driver = run.row("cuLaunchKernel")

        assert driver.calls == run.row("cudaLaunchKernel").calls == run.prepared("cudaLaunchKernel") + 23
        assert (driver.total_ns, driver.timed) == (0, 0)

    def test_driver_calls_of_the_program_are_timed(self, traced: Tracer) -> None:
        """Called directly."""
        run = traced.run("cuStreamQuery:23")

        row = run.row("cuStreamQuery")

        assert (row.calls, sum(row.slots)) == (23, 23)

    @pytest.mark.parametrize("symbol", ["cudaLaunchKernel_ptsz", "cudaMemcpyAsync_ptsz"])
    def test_per_thread_stream_variants_count_as_the_operation(self, best_traced: Tracer, symbol: str) -> None:
        """The suffix is no separate operation."""
        operation = symbol.removesuffix("_ptsz")
        run = best_traced.run(f"{symbol}:23")

        assert run.row(operation).calls == run.prepared(operation) + 23


class TestErrors:
    def test_errors_are_counted_by_code(self, traced: Tracer) -> None:
        """Calls 3 and 5 of 23 fail with out of memory, call 7 with invalid value."""
        run = traced.run(
            "cudaEventRecord:23",
            environment={"STANDIN_FAIL": "cudaEventRecord:2:3,cudaEventRecord:2:5,cudaEventRecord:1:7"},
        )

        assert run.errors() == {("cudaEventRecord", 2): 2, ("cudaEventRecord", 1): 1}
        assert run.row("cudaEventRecord").calls == 23

    def test_not_ready_is_no_error(self, best_traced: Tracer) -> None:
        """Polling a busy stream returns 600."""
        run = best_traced.run("cudaLaunchKernel:1:50ms", "cudaStreamQuery:23")

        assert run.row("cudaStreamQuery").calls == 23
        assert run.errors() == {}


class TestCopies:
    """Bytes of successful copies by direction."""

    @pytest.mark.parametrize(
        ("order", "direction"),
        [
            ("cudaMemcpyAsync:23:65536:h2d", Copy.HOST_TO_DEVICE),
            ("cudaMemcpyAsync:23:65536:d2h", Copy.DEVICE_TO_HOST),
            ("cudaMemcpyAsync:23:65536:d2d", Copy.DEVICE_TO_DEVICE),
            ("cudaMemcpy:23:65536:h2d", Copy.HOST_TO_DEVICE),
            ("cudaMemcpyPeerAsync:23:65536", Copy.PEER),
            ("cuMemcpyHtoD_v2:23:65536", Copy.HOST_TO_DEVICE),
            ("cuMemcpyDtoH_v2:23:65536", Copy.DEVICE_TO_HOST),
            ("cuMemcpyDtoDAsync_v2:23:65536", Copy.DEVICE_TO_DEVICE),
            ("cuMemcpy:23:65536", Copy.DEFAULT),
        ],
    )
    def test_bytes_are_booked_under_the_direction(self, best_traced: Tracer, order: str, direction: Copy) -> None:
        """23 copies of 64 KiB in this direction, none in others."""
        run = best_traced.run(order)

        copied = only(run.reading.processes.values()).copied_bytes

        assert copied == tuple(23 * 65536 if d is direction else 0 for d in Copy)

    def test_two_dimensional_copies_multiply_width_and_height(self, best_traced: Tracer) -> None:
        """The height is the sixth argument; the direction is the seventh, on the stack on x86-64."""
        run = best_traced.run("cudaMemcpy2D:23:65536:h2d")

        process = only(run.reading.processes.values())

        assert process.copied_bytes[Copy.HOST_TO_DEVICE] == run.truths[0]["bytes"]["h2d"] == 23 * 65536

    def test_failed_copies_count_no_bytes(self, best_traced: Tracer) -> None:
        """One of 23 fails: 22 count."""
        run = best_traced.run("cudaMemcpyAsync:23:65536:h2d", environment={"STANDIN_FAIL": "cudaMemcpyAsync:1:9"})

        assert only(run.reading.processes.values()).copied_bytes[Copy.HOST_TO_DEVICE] == 22 * 65536


class TestMemory:
    """Allocated minus freed bytes."""

    def test_frees_subtract_the_allocated_size(self, traced: Tracer) -> None:
        """23 blocks of 4 KiB, 20 of them freed."""
        idle, process = (
            _process_of(traced, "cudaEventRecord:1"),
            _process_of(traced, "cudaMalloc:23:4096", "cudaFree:20"),
        )

        assert process.allocated_bytes - idle.allocated_bytes == 23 * 4096
        assert process.freed_bytes - idle.freed_bytes == 20 * 4096
        assert process.unknown_frees == 0

    def test_frees_of_unknown_addresses_are_counted_separately(self) -> None:
        """Only cudaFree is probed: the sizes are unknown."""
        with tracer() as half_blind:
            half_blind.attach_standin(only=("cudaFree",))
            process = _process_of(half_blind, "cudaMalloc:5:4096", "cudaFree:5")

        assert (process.unknown_frees, process.freed_bytes) == (5, 0)

    def test_failed_free_frees_nothing(self, best_traced: Tracer) -> None:
        """The second of three frees fails: one block stays live."""
        run = best_traced.run("cudaMalloc:3:4096", "cudaFree:3", environment={"STANDIN_FAIL": "cudaFree:1:2"})

        process = only(run.reading.processes.values())

        assert process.freed_bytes == 2 * 4096
        assert run.errors() == {("cudaFree", 1): 1}

    def test_out_of_memory_allocates_nothing(self, best_traced: Tracer) -> None:
        """Two of 23 allocations fail with code 2."""
        failing = {"STANDIN_FAIL": "cudaMallocAsync:2:4,cudaMallocAsync:2:9"}
        process = _process_of(best_traced, "cudaMallocAsync:23:4096", environment=failing)
        idle = _process_of(best_traced, "cudaEventRecord:1")

        assert process.allocated_bytes - idle.allocated_bytes == 21 * 4096

    def test_handles_and_addresses_are_separate(self, best_traced: Tracer) -> None:
        """cuMemCreate returns handles: releasing them frees its allocations."""
        idle = _process_of(best_traced, "cudaEventRecord:1")
        process = _process_of(best_traced, "cuMemCreate:5:2097152", "cuMemRelease:5")

        assert process.allocated_bytes - idle.allocated_bytes == 5 * 2097152
        assert process.freed_bytes - idle.freed_bytes == 5 * 2097152
