"""Only entries are probed: calls are counted exactly, and none stays open."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from exporter.config.probes import AttachKind
from exporter.errors import KernelRefused
from exporter.kernel.abi import EventKind
from exporter.kernel.events import event_of
from exporter.kernel.operations import NUMBERS
from tests.kernel.conftest import FEW
from tests.support.traced import Tracer, eventually, tracer


@pytest.fixture(params=[AttachKind.MULTI, AttachKind.SINGLE])
def traced(request: pytest.FixtureRequest) -> Iterator[Tracer]:
    """Entry probes on the stand-in's libraries, by links and by perf events."""
    try:
        with tracer(request.param, with_returns=False) as found:
            found.attach_standin(FEW if request.param is AttachKind.SINGLE else None)
            yield found
    except KernelRefused as error:
        if request.param is AttachKind.SINGLE:  # every kernel has it
            raise
        pytest.skip(str(error))


class TestCounting:
    def test_twenty_three_calls_are_counted_and_not_timed(self, traced: Tracer) -> None:
        """No duration, no histogram, no drops."""
        run = traced.run("cudaEventRecord:23")

        row = run.row("cudaEventRecord")

        assert (row.calls, row.timed, row.total_ns, sum(row.slots)) == (23, 0, 0, 0)
        assert run.drops == {}

    def test_driver_calls_of_the_runtime_are_counted_too(self, traced: Tracer) -> None:
        """23 launches of the program are 23 of the runtime and 23 of the driver."""
        run = traced.run("cudaLaunchKernel:23")

        launches = run.prepared("cudaLaunchKernel") + 23

        assert (run.row("cudaLaunchKernel").calls, run.row("cuLaunchKernel").calls) == (launches, launches)

    def test_every_probe_hit_counts_as_overhead(self, traced: Tracer) -> None:
        """Adaptive sampling gets as many counted hits as there are calls."""
        run = traced.run("cudaEventRecord:23")
        (feeding,) = traced.tables.read_feeding(run.reading.processes).values()

        assert (feeding.timed_calls, feeding.counted_calls) == (0, sum(run.counts().values()))

    def test_failed_call_is_counted(self, traced: Tracer) -> None:
        """Its error is unknown."""
        run = traced.run("cudaEventRecord:23", environment={"STANDIN_FAIL": "cudaEventRecord:2:3"})

        assert run.row("cudaEventRecord").calls == 23
        assert run.errors() == {}

    def test_each_process_has_its_own_rows(self, traced: Tracer) -> None:
        """Two ranks with 23 collectives each; communicators are unknown."""
        run = traced.run("--ranks=2", "ncclAllReduce:23:4096")

        counts = [row.calls for key, row in run.reading.operations.items() if key.operation == NUMBERS["ncclAllReduce"]]

        assert counts == [23, 23]
        assert run.reading.communicators == {}


class TestNothingStaysOpen:
    def test_no_thread_is_tracked(self, traced: Tracer) -> None:
        """While the program sleeps after its calls: an open call or gap would grow forever."""
        with traced.asleep("cudaEventRecord:23", "sleep:1:60s"):
            eventually(traced.tables.read_processes, "the calls are seen")
            accounts = traced.tables.read_accounts(traced.tables.read_processes())

        assert accounts.threads == []
        assert accounts.intervals == {}

    def test_end_of_a_process_is_an_event(self, traced: Tracer) -> None:
        """Its rows can be deleted."""
        records: list[bytes] = []
        ring = traced.kernel.open_events(records)
        traced.run("cudaEventRecord:23")
        ring.consume()
        ring.close()

        assert [event_of(record).kind for record in records] == [EventKind.PROCESS_TRACKED, EventKind.PROCESS_ENDED]
