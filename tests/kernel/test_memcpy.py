"""memcpy: copies by direction, kind of host memory, and whether the call blocks."""

from __future__ import annotations

import pytest

from exporter.kernel.abi import Copy, HostMemory
from exporter.kernel.gpu_rows import CopyRow, read_copies
from tests.support.held_calls import held_calls
from tests.support.traced import Run, Tracer, only, tracer


def copies(run: Run) -> dict[tuple[Copy, HostMemory, bool], CopyRow]:
    """By all members of the key but the process."""
    return {(key.direction, key.memory, bool(key.is_blocking)): row for key, row in run.reading.gpu.copies.items()}


class TestMemory:
    """The host side of a copy."""

    @pytest.mark.parametrize(
        ("order", "expected"),
        [
            ("cudaMemcpy:23:65536:h2d", (Copy.HOST_TO_DEVICE, HostMemory.PINNED, True)),
            ("cudaMemcpy:23:65536:ph2d", (Copy.HOST_TO_DEVICE, HostMemory.PAGEABLE, True)),
            ("cudaMemcpy:23:65536:d2h", (Copy.DEVICE_TO_HOST, HostMemory.PINNED, True)),
            ("cudaMemcpy:23:65536:d2ph", (Copy.DEVICE_TO_HOST, HostMemory.PAGEABLE, True)),
            ("cudaMemcpyAsync:23:65536:h2d", (Copy.HOST_TO_DEVICE, HostMemory.PINNED, False)),
            ("cudaMemcpyAsync:23:65536:ph2d", (Copy.HOST_TO_DEVICE, HostMemory.PAGEABLE, True)),
            ("cudaMemcpy2D:23:65536:d2ph", (Copy.DEVICE_TO_HOST, HostMemory.PAGEABLE, True)),
            ("cuMemcpyHtoD_v2:23:65536", (Copy.HOST_TO_DEVICE, HostMemory.PINNED, True)),
            ("cuMemcpyDtoHAsync_v2:23:65536", (Copy.DEVICE_TO_HOST, HostMemory.PINNED, False)),
        ],
    )
    def test_copies_are_counted_by_host_memory(
        self, best_traced: Tracer, order: str, expected: tuple[Copy, HostMemory, bool]
    ) -> None:
        """23 copies of 64 KiB of this kind, none of others."""
        found = copies(best_traced.run(order))

        assert set(found) == {expected}
        assert (found[expected].copies, found[expected].bytes) == (23, 23 * 65536)

    def test_time_is_the_duration_of_the_calls(self, best_traced: Tracer) -> None:
        """To the nanosecond: both come from the same two clock readings."""
        run = best_traced.run("cudaMemcpy:23:65536:ph2d")

        assert only(copies(run).values()).total_ns == run.row("cudaMemcpy").total_ns

    def test_copies_within_the_gpu_have_no_row(self, best_traced: Tracer) -> None:
        """Nor copies between GPUs, or copies whose direction the addresses decide."""
        run = best_traced.run("cudaMemcpy:5:65536:d2d", "cudaMemcpyPeer:5:65536", "cuMemcpy:5:65536")

        assert copies(run) == {}


class TestPinned:
    """Pinned memory is a range of addresses."""

    @pytest.mark.parametrize("bytes_pinned", [65536, 3 * 4096, 999_424])
    @pytest.mark.parametrize("call", ["cudaHostAlloc", "cudaMallocHost", "cuMemHostAlloc", "cudaHostRegister"])
    def test_copy_from_the_middle_is_one_from_pinned_memory(
        self, best_traced: Tracer, call: str, bytes_pinned: int
    ) -> None:
        """4 KiB from an offset of 4 KiB, for each way to pin memory and each size."""
        found = copies(best_traced.run(f"{call}:1:{bytes_pinned}", "cudaMemcpy:23:4096:kh2d"))

        assert {kind: row.copies for kind, row in found.items()} == {(Copy.HOST_TO_DEVICE, HostMemory.PINNED, True): 23}

    def test_released_memory_is_not_pinned(self, best_traced: Tracer) -> None:
        """Only the blocks of the program's initial buffer are left."""
        run = best_traced.run("cudaHostAlloc:7:999424", "cudaFreeHost:7")

        row = only(run.reading.processes.values())
        assert row.pinned_bytes == 4_096
        assert row.pinned_blocks == len(list(best_traced.kernel.maps["pinned"].items()))

    def test_memory_of_an_older_process_is_unknown(self) -> None:
        """It may have been pinned before the programs were loaded."""
        with held_calls("cudaMemcpy:23:65536:h2d") as program, tracer() as late:
            late.attach_standin()
            program.make()
            found = read_copies(late.kernel.maps["copies"])

        assert {key[1:] for key in found} == {(Copy.HOST_TO_DEVICE, HostMemory.UNKNOWN, 1)}
