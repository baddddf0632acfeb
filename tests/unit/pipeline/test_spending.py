"""spending: from rows to what a process has spent beside the host's resources."""

from __future__ import annotations

import pytest

from exporter.chains.chain import Effect
from exporter.chains.spending import Spending
from exporter.kernel.abi import Copy, HostMemory
from exporter.kernel.gpu_rows import GraphRow
from exporter.kernel.operations import NUMBERS, OPERATIONS
from exporter.kernel.tables import Tables
from exporter.pipeline.spending import effect_of, spending
from tests.support.tables import FakeTables


@pytest.fixture
def kernel() -> FakeTables:
    """Process 1."""
    tables = FakeTables()
    tables.process(1)
    return tables


class TestSpending:
    """Spending of one process."""

    def test_calls_are_added_up_by_what_they_do(self, kernel: FakeTables) -> None:
        """Two ways of launching, a copy, a wait."""
        kernel.call(1, "cudaLaunchKernel", durations_ns=[10, 20])
        kernel.call(1, "cuLaunchKernel", durations_ns=[5])
        kernel.call(1, "cudaMemcpy", durations_ns=[7])
        kernel.call(1, "cudaStreamSynchronize", durations_ns=[9])

        assert spending(Tables(kernel.maps), 1).calls_ns == {Effect.LAUNCH: 35, Effect.MEMCPY: 7, Effect.SYNC: 9}

    def test_copies_of_pageable_memory_cost_no_more_than_their_bytes_explain(self, kernel: FakeTables) -> None:
        """1,000 bytes in 300 ns; 4 bytes in 9 ms, which is a wait; pinned memory is none of it."""
        kernel.copied(1, Copy.HOST_TO_DEVICE, HostMemory.PAGEABLE, copies=1, copied_bytes=1_000, total_ns=300)
        kernel.copied(1, Copy.DEVICE_TO_HOST, HostMemory.PAGEABLE, copies=1, copied_bytes=4, total_ns=9_000_000)
        kernel.copied(1, Copy.DEVICE_TO_HOST, HostMemory.PINNED, copies=1, copied_bytes=1_000, total_ns=1_000)

        assert spending(Tables(kernel.maps), 1).pageable_ns == 304

    def test_link_is_busy_for_what_its_speed_makes_of_all_bytes(self, kernel: FakeTables) -> None:
        """3,000 bytes at 2 GB/s."""
        kernel.copied(1, Copy.HOST_TO_DEVICE, HostMemory.PINNED, copies=1, copied_bytes=1_000, total_ns=1)
        kernel.copied(1, Copy.DEVICE_TO_HOST, HostMemory.PAGEABLE, copies=1, copied_bytes=2_000, total_ns=1)

        assert spending(Tables(kernel.maps), 1, 2e9).link_ns == 1_500
        assert spending(Tables(kernel.maps), 1).link_ns == 0

    def test_captures_and_what_is_made_of_them_are_one_time(self, kernel: FakeTables) -> None:
        """300 and 40 ns."""
        kernel.graphs(1, GraphRow(capture_ns=300, instantiate_ns=40))

        assert spending(Tables(kernel.maps), 1).capture_ns == 340

    def test_kernels_are_those_launched_one_by_one_and_those_in_launched_graphs(self, kernel: FakeTables) -> None:
        """20 and 300; what is launched into a graph is neither."""
        kernel.feeding(1, kernels=20)
        kernel.graphs(1, GraphRow(captures=1, kernels=300))

        assert spending(Tables(kernel.maps), 1).kernels == 320

    def test_bytes_are_those_copied_to_the_gpu(self, kernel: FakeTables) -> None:
        """From any memory; what comes back is the job's output."""
        kernel.copied(1, Copy.HOST_TO_DEVICE, HostMemory.PINNED, copies=1, copied_bytes=1_000, total_ns=1)
        kernel.copied(1, Copy.HOST_TO_DEVICE, HostMemory.PAGEABLE, copies=1, copied_bytes=30, total_ns=1)
        kernel.copied(1, Copy.DEVICE_TO_HOST, HostMemory.PINNED, copies=1, copied_bytes=2_000, total_ns=1)

        assert spending(Tables(kernel.maps), 1).copied_bytes == 1_030

    def test_process_that_is_gone_has_spent_nothing(self, kernel: FakeTables) -> None:
        """It ended in between."""
        assert spending(Tables(kernel.maps), 2) == Spending()


class TestEffects:
    """Every operation, by what takes longer when it does."""

    @pytest.mark.parametrize(
        ("operation", "effect"),
        [
            ("cudaMalloc", Effect.ALLOC),
            ("cudaHostAlloc", Effect.ALLOC),
            ("cudaFreeHost", Effect.ALLOC),
            ("cudaGraphInstantiate", Effect.GRAPH),
            ("cudaStreamBeginCapture", Effect.GRAPH),
            ("cudaGraphLaunch", Effect.LAUNCH),
            ("cudaMemcpyAsync", Effect.MEMCPY),
            ("cudaEventSynchronize", Effect.SYNC),
            ("cudaEventQuery", Effect.SYNC),
            ("cudaMemset", Effect.MEMCPY),
            ("ncclAllReduce", Effect.COLLECTIVE),
            ("cudaEventRecord", None),
        ],
    )
    def test_operation_belongs_to_its_effect(self, operation: str, effect: Effect | None) -> None:
        """By its shape, else by its role."""
        assert effect_of(OPERATIONS[NUMBERS[operation]]) is effect
