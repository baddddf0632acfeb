"""launch: kernels are counted once, and by the size of grid and block."""

from __future__ import annotations

import pytest

from tests.support.traced import Run, Tracer, only

GRID_OF_48, BLOCK_OF_256 = 2, 3
"""Classes: up to 64 blocks, up to 256 threads."""


def geometry(run: Run) -> dict[tuple[int, int], int]:
    """(Class of the grid, class of the block) -> launches, without the kernel that every program captures first."""
    counts = list(only(run.reading.gpu.geometries.values()))
    counts[0] -= 1
    return {divmod(at, 6): count for at, count in enumerate(counts) if count}


class TestSizes:
    """Blocks and threads."""

    @pytest.mark.parametrize(
        "call",
        [
            "cudaLaunchKernel",
            "cudaLaunchKernel_ptsz",
            "cudaLaunchKernelExC",
            "cudaLaunchCooperativeKernel",
            "cuLaunchKernel",
            "cuLaunchKernelEx",
        ],
    )
    def test_all_three_dimensions_count(self, best_traced: Tracer, call: str) -> None:
        """6 x 4 x 2 blocks of 32 x 4 x 2 threads, as arguments, in pairs or in a struct."""
        run = best_traced.run(f"{call}:23:1000:6x4x2/32x4x2")

        assert geometry(run) == {(GRID_OF_48, BLOCK_OF_256): 23}

    @pytest.mark.parametrize(
        ("sizes", "classes"),
        [
            ("1x1x1/32x1x1", (0, 0)),
            ("8x1x1/33x1x1", (1, 1)),
            ("9x1x1/128x1x1", (2, 2)),
            ("65x1x1/129x1x1", (3, 3)),
            ("513x1x1/512x1x1", (4, 4)),
            ("4097x1x1/513x1x1", (5, 5)),
        ],
    )
    def test_class_ends_with_its_largest_size(self, best_traced: Tracer, sizes: str, classes: tuple[int, int]) -> None:
        """The limits of bpf/lib/geometry.bpf.h."""
        run = best_traced.run(f"cudaLaunchKernel:5:1000:{sizes}")

        assert geometry(run) == {classes: 5}


class TestKernels:
    """Number of launched kernels."""

    def test_launch_of_the_runtime_is_one_kernel(self, best_traced: Tracer) -> None:
        """23 by the runtime, which calls the driver, and 4 by the driver directly."""
        run = best_traced.run("cudaLaunchKernel:23:1000", "cuLaunchKernel:4:1000")

        assert only(run.reading.gpu.kernels.values()) == 27

    def test_copies_and_fills_are_no_kernels(self, best_traced: Tracer) -> None:
        run = best_traced.run("cudaMemcpyAsync:5:4096:h2d", "cudaMemsetAsync:5:4096")

        assert only(run.reading.gpu.kernels.values()) == 0
