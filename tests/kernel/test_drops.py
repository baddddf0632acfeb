"""Dropped records are counted: each test fills a map."""

from __future__ import annotations

from tests.support.traced import only, tracer


class TestFullMaps:
    def test_allocations_beyond_the_map_are_dropped_and_not_booked(self) -> None:
        """Room for 8; 23 allocations, and two of the program's own."""
        with tracer(capacities={"allocations": 8}) as small:
            small.attach_standin(only=("cudaMalloc",))
            run = small.run("cudaMalloc:23:4096")

        assert run.drops == {"cuda allocations_full": 23 + 2 - 8}
        assert only(run.reading.processes.values()).allocated_bytes == 8 * 4096
        assert run.row("cudaMalloc").calls == 25

    def test_operations_beyond_the_map_are_dropped(self) -> None:
        """Room for one operation: calls of the second are dropped, those of the first counted."""
        with tracer(capacities={"operations": 1}) as small:
            small.attach_standin(only=("cudaEventRecord", "cudaStreamQuery"))
            run = small.run("cudaEventRecord:23", "cudaStreamQuery:5")

        assert run.counts() == {"cudaEventRecord": 23}
        assert run.drops == {"cuda operations_full": 5}

    def test_error_codes_beyond_the_map_are_dropped(self) -> None:
        """Room for one code: errors with the second code are dropped, the calls are counted."""
        with tracer(capacities={"errors": 1}) as small:
            small.attach_standin(only=("cudaEventRecord",))
            failing = {"STANDIN_FAIL": "cudaEventRecord:2:3,cudaEventRecord:1:4,cudaEventRecord:1:5"}
            run = small.run("cudaEventRecord:23", environment=failing)

        assert run.errors() == {("cudaEventRecord", 2): 1}
        assert run.drops == {"cuda errors_full": 2}
        assert run.row("cudaEventRecord").calls == 23

    def test_processes_beyond_the_map_are_dropped(self) -> None:
        """Room for one process: each call of the second is dropped."""
        with tracer(capacities={"processes": 1}) as small:
            small.attach_standin(only=("cudaEventRecord",))
            small.run("cudaEventRecord:5")
            run = small.run("cudaEventRecord:23")

        assert run.counts() == {"cudaEventRecord": 5}
        assert run.drops == {"cuda processes_full": 23}

    def test_communicators_beyond_the_map_are_dropped(self) -> None:
        """Room for one: two processes create one each."""
        with tracer(capacities={"communicators": 1}) as small:
            small.attach_standin(only=("ncclCommInitRank",))
            run = small.run("--ranks=2", "ncclAllReduce:1:1024")

        assert run.drops == {"nccl communicators_full": 1}
