"""allocator: live memory by kind, and its peak."""

from __future__ import annotations

from exporter.kernel.process_rows import ProcessRow
from tests.support.traced import Tracer, only

BUFFERS = 2 * 4096
"""GPU memory that every program of `calls` allocates first."""


def process_of(traced: Tracer, *orders: str) -> ProcessRow:
    """The row of a program that makes these calls."""
    return only(traced.run(*orders).reading.processes.values())


class TestPeak:
    """The peak of live memory."""

    def test_peak_stays_when_memory_is_freed(self, best_traced: Tracer) -> None:
        """Seven blocks, all freed, then two: the peak is seven."""
        row = process_of(best_traced, "cudaMalloc:7:4096", "cudaFree:7", "cudaMalloc:2:4096")

        assert row.peak_bytes == BUFFERS + 7 * 4096
        assert row.allocated_bytes - row.freed_bytes == BUFFERS + 2 * 4096


class TestKinds:
    """Managed and pinned memory."""

    def test_managed_memory_is_separate(self, best_traced: Tracer) -> None:
        """Three blocks by the runtime and two by the driver, one of them freed; three blocks of GPU memory."""
        row = process_of(
            best_traced, "cudaMalloc:3:4096", "cudaMallocManaged:3:4096", "cuMemAllocManaged:2:4096", "cudaFree:1"
        )

        assert row.managed_bytes == 4 * 4096
        assert row.allocated_bytes - row.freed_bytes == BUFFERS + 7 * 4096

    def test_pinned_memory_is_not_gpu_memory(self, best_traced: Tracer) -> None:
        """Five blocks beside the initial buffer."""
        row = process_of(best_traced, "cudaHostAlloc:5:4096")

        assert row.pinned_bytes == 4096 + 5 * 4096
        assert row.allocated_bytes == BUFFERS
        assert row.live_allocations == 2 + 1 + 5

    def test_size_of_a_failed_allocation_is_kept(self, best_traced: Tracer) -> None:
        """The second of three, of 12 KiB."""
        run = best_traced.run("cudaMalloc:1:4096", "cudaMalloc:1:12288", environment={"STANDIN_FAIL": "cudaMalloc:2:4"})

        assert only(run.reading.processes.values()).refused_bytes == 12288
