"""Entries without returns: calls are counted exactly, and nothing is left open or guessed."""

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
    """Entries of the stand-in's libraries, by links and by perf events."""
    try:
        with tracer(request.param, with_returns=False) as found:
            found.attach_standin(FEW if request.param is AttachKind.SINGLE else None)
            yield found
    except KernelRefused as error:
        if request.param is AttachKind.SINGLE:  # every kernel has it
            raise
        pytest.skip(str(error))


class TestCounting:
    """What is known without returns."""

    def test_twenty_three_calls_are_counted_and_not_timed(self, traced: Tracer) -> None:
        """No duration, no slot of a histogram, no loss."""
        run = traced.run("cudaEventRecord:23")

        row = run.row("cudaEventRecord")

        assert (row.calls, row.timed, row.total_ns, sum(row.slots)) == (23, 0, 0, 0)
        assert run.losses == {}

    def test_driver_calls_of_the_runtime_are_counted_too(self, traced: Tracer) -> None:
        """As with returns: 23 launches of the program are 23 of the runtime and 23 of the driver."""
        run = traced.run("cudaLaunchKernel:23")

        launches = run.prepared("cudaLaunchKernel") + 23

        assert (run.row("cudaLaunchKernel").calls, run.row("cuLaunchKernel").calls) == (launches, launches)

    def test_every_hit_of_a_probe_is_on_the_bill(self, traced: Tracer) -> None:
        """The governor is told of as many as there are calls, all of them only counted."""
        run = traced.run("cudaEventRecord:23")
        (feeding,) = traced.tables.read_feeding(run.reading.processes).values()

        assert (feeding.timed_calls, feeding.counted_calls) == (0, sum(run.counts().values()))

    def test_a_call_that_fails_is_a_call(self, traced: Tracer) -> None:
        """Its error is not seen."""
        run = traced.run("cudaEventRecord:23", environment={"STANDIN_FAIL": "cudaEventRecord:2:3"})

        assert run.row("cudaEventRecord").calls == 23
        assert run.errors() == {}

    def test_each_process_has_its_own_count(self, traced: Tracer) -> None:
        """Two ranks, 23 collectives each, in rows of their own; of communicators nothing is known."""
        run = traced.run("--ranks=2", "ncclAllReduce:23:4096")

        counts = [row.calls for key, row in run.reading.operations.items() if key.operation == NUMBERS["ncclAllReduce"]]

        assert counts == [23, 23]
        assert run.reading.communicators == {}


class TestNothingStaysOpen:
    """No call, no gap, no thread."""

    def test_no_thread_is_accounted_for(self, traced: Tracer) -> None:
        """While the program sleeps after its calls: an open call or gap would grow for as long as it lives."""
        with traced.asleep("cudaEventRecord:23", "sleep:1:60s"):
            eventually(traced.tables.read_processes, "the calls are seen")
            accounts = traced.tables.read_accounts(traced.tables.read_processes())

        assert accounts.threads == []
        assert accounts.intervals == {}

    def test_the_end_of_a_process_is_told(self, traced: Tracer) -> None:
        """Its number is free again, and its totals can be folded."""
        records: list[bytes] = []
        ring = traced.kernel.open_events(records)
        traced.run("cudaEventRecord:23")
        ring.consume()
        ring.close()

        assert [event_of(record).kind for record in records] == [EventKind.PROCESS_TRACKED, EventKind.PROCESS_ENDED]
