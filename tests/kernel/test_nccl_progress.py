"""Progress of NCCL operations, and waits for them: collectives of known duration in the running kernel."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from exporter.clock import Moment
from exporter.kernel.operations import OPERATIONS
from exporter.kernel.progress_rows import ProgressRow
from exporter.pipeline.collective_marks import collective_marks
from tests.support.scripted_process import ScriptedProcess, attach, scripted_process
from tests.support.traced import Tracer, only, tracer

MS = 1_000_000

COLLECTIVES = (
    "ncclAllReduce",
    "ncclAllGather",
    "ncclReduceScatter",
    "ncclBroadcast",
    "ncclBcast",
    "ncclReduce",
    "ncclAlltoAll",
    "ncclGather",
    "ncclScatter",
)


class Waits(NamedTuple):
    """The row of one communicator."""

    count: int
    sum_ns: int


@pytest.fixture
def child(own_traced: Tracer, own_standin: Path) -> Iterator[ScriptedProcess]:
    """One rank alone in its communicator, with one stream for NCCL and one for everything else."""
    with scripted_process(own_standin) as found:
        found("comm = gpu.communicators(1)[0]", "nccl, compute = gpu.stream(), gpu.stream()")
        yield found


def progress(tracer: Tracer, communicator: int = 1) -> ProgressRow:
    """The row of the only process with such a communicator."""
    row: ProgressRow = only(
        row for key, row in tracer.tables.read().progress.items() if key.communicator == communicator
    )
    return row


def counts(tracer: Tracer, communicator: int = 1) -> tuple[int, int]:
    """Enqueued, completed."""
    row = progress(tracer, communicator)
    return row.enqueued, row.completed


def waits(tracer: Tracer) -> dict[int, Waits]:
    """Communicator -> its waits."""
    rows = tracer.tables.read().nccl_waits
    return {key.communicator: Waits(row.calls, row.total_ns) for key, row in rows.items()}


def measured_ns(child: ScriptedProcess, call: str) -> int:
    """How long a call takes by the clock of its program."""
    child(f"began_ns = time.monotonic_ns(); {call}; ended_ns = time.monotonic_ns()")
    return child.value("ended_ns - began_ns")


def total_ns(tracer: Tracer, operation: str) -> int:
    """How long all calls of an operation took."""
    rows = tracer.tables.read().operations.items()
    return sum(row.total_ns for key, row in rows if OPERATIONS[key.operation].name == operation)


def frontiers(tracer: Tracer) -> int:
    """Streams and events with operations ahead of them."""
    return len(list(tracer.kernel.maps["frontiers"].items()))


class TestEnqueued:
    """Counting."""

    def test_collectives_are_counted_before_they_complete(self, own_traced: Tracer, child: ScriptedProcess) -> None:
        """23, without any query."""
        child("for _ in range(23): gpu.all_reduce(comm, nccl)")

        assert counts(own_traced) == (23, 0)
        assert progress(own_traced).collectives == 23
        assert own_traced.drops() == {}

    def test_last_collective_is_a_mark_of_the_history(self, own_traced: Tracer, child: ScriptedProcess) -> None:
        """The 23rd, at the time of its call, as if 15 other ranks of its communicator were on other nodes."""
        child("for _ in range(22): gpu.all_reduce(comm, nccl)")
        child("began_ns = time.monotonic_ns(); gpu.all_reduce(comm, nccl); ended_ns = time.monotonic_ns()")
        read = own_traced.tables.read()
        spread = {process: [row._replace(ranks=16) for row in rows] for process, rows in read.communicators.items()}
        mark = only(collective_marks(spread, read.progress, Moment(0, 0)))

        assert mark.number == 23
        assert child.value("began_ns") <= mark.at_unix_ns <= child.value("ended_ns")

    def test_failed_call_enqueues_nothing(self, best_traced: Tracer) -> None:
        """Two of 23 fail."""
        failing = {"STANDIN_FAIL": "ncclAllReduce:2:3,ncclAllReduce:2:4"}
        best_traced.run("ncclAllReduce:23:1024", environment=failing)

        assert progress(best_traced).enqueued == 21

    def test_call_inside_a_group_counts(self, own_traced: Tracer, child: ScriptedProcess) -> None:
        """The end of the group adds nothing."""
        child(
            'gpu("ncclGroupStart")', "gpu.all_reduce(comm, nccl)", "gpu.all_reduce(comm, nccl)", 'gpu("ncclGroupEnd")'
        )

        assert counts(own_traced) == (2, 0)

    def test_nested_nccl_call_is_not_counted_again(self, best_traced: Tracer) -> None:
        """ncclBcast calls ncclBroadcast."""
        best_traced.run("ncclBcast:23:65536")

        assert progress(best_traced).enqueued == 23

    def test_captured_operation_is_not_enqueued(self, own_traced: Tracer, child: ScriptedProcess) -> None:
        """Operations after the capture count again."""
        child(
            'gpu("cudaStreamBeginCapture", nccl, 2)',
            "gpu.all_reduce(comm, nccl)",
            'graph = c_void_p(); gpu("cudaStreamEndCapture", nccl, byref(graph))',
            "gpu.all_reduce(comm, nccl)",
        )

        assert counts(own_traced) == (1, 0)

    def test_sends_and_receives_are_no_collectives(self, best_traced: Tracer) -> None:
        """They are enqueued and completed alike, but not equally often on each rank."""
        best_traced.run("--ranks=2", "ncclSend:23:1024")
        rows = [row for row in best_traced.tables.read().progress.values() if row.enqueued]

        assert [(row.enqueued, row.completed, row.collectives, row.late_arrivals) for row in rows] == [
            (46, 46, 0, 0)
        ] * 2


class TestCompleted:
    """Completion, by calls that return 0."""

    @pytest.mark.parametrize(
        ("call", "operation"),
        [
            ('gpu("cudaStreamSynchronize", nccl)', "cudaStreamSynchronize"),
            ('gpu("cudaEventSynchronize", gpu.recorded(nccl))', "cudaEventSynchronize"),
            ('gpu("cudaDeviceSynchronize")', "cudaDeviceSynchronize"),
            ("gpu.cuda.cuStreamSynchronize(nccl)", "cuStreamSynchronize"),
            ("gpu.cuda.cuCtxSynchronize()", "cuCtxSynchronize"),
            (
                'gpu("cudaStreamWaitEvent", compute, gpu.recorded(nccl), 0); gpu("cudaStreamSynchronize", compute)',
                "cudaStreamSynchronize",
            ),
        ],
        ids=["stream", "event", "device", "driver_s_stream", "driver_s_context", "stream_behind"],
    )
    def test_all_are_complete_when_a_synchronising_call_returns(
        self, own_traced: Tracer, child: ScriptedProcess, call: str, operation: str
    ) -> None:
        """23 collectives; one wait for all of them, as long as the synchronising call, to the nanosecond."""
        child("for _ in range(23): gpu.all_reduce(comm, nccl)")
        most_ns = measured_ns(child, call)

        assert counts(own_traced) == (23, 23)
        assert waits(own_traced) == {1: Waits(1, total_ns(own_traced, operation))}
        assert 0 < waits(own_traced)[1].sum_ns <= most_ns

    @pytest.mark.parametrize("behind", ["nccl", "compute"], ids=["directly", "through_a_stream"])
    def test_event_completes_what_was_before_it(self, own_traced: Tracer, child: ScriptedProcess, behind: str) -> None:
        """Recorded after the tenth of 23; later ones may be done as well, but that is unknown."""
        child(
            "for _ in range(10): gpu.all_reduce(comm, nccl)",
            'gpu("cudaStreamWaitEvent", compute, gpu.recorded(nccl), 0)',
            f"event = gpu.recorded({behind})",
            "for _ in range(13): gpu.all_reduce(comm, nccl)",
            'while gpu.code("cudaEventQuery", event): time.sleep(0.01)',
        )

        assert counts(own_traced) == (23, 10)

    def test_query_that_is_not_ready_completes_nothing(self, own_traced: Tracer, child: ScriptedProcess) -> None:
        """A collective of a minute."""
        child(
            "gpu.nccl.standin_set_collective_ns(c_uint64(60_000 * MS))",
            "gpu.all_reduce(comm, nccl)",
            'assert gpu.code("cudaEventQuery", gpu.recorded(nccl)) == 600',
            'assert gpu.code("cudaStreamQuery", nccl) == 600',
        )

        assert counts(own_traced) == (1, 0)

    def test_event_recorded_again_replaces_what_was_ahead(self, own_traced: Tracer, child: ScriptedProcess) -> None:
        """First after a minute of NCCL, then on an empty stream: it completes at once, NCCL does not."""
        child(
            "gpu.nccl.standin_set_collective_ns(c_uint64(60_000 * MS))",
            "gpu.all_reduce(comm, nccl)",
            "event = gpu.recorded(nccl)",
            'gpu("cudaEventRecord", event, compute)',
            'gpu("cudaEventSynchronize", event)',
        )

        assert counts(own_traced) == (1, 0)
        assert waits(own_traced) == {}

    def test_recreated_event_has_nothing_ahead(self, own_traced: Tracer, child: ScriptedProcess) -> None:
        """It has the address of the destroyed one and was never recorded, so it is complete."""
        child(
            "gpu.nccl.standin_set_collective_ns(c_uint64(60_000 * MS))",
            "gpu.all_reduce(comm, nccl)",
            "event = gpu.recorded(nccl)",
            'gpu("cudaEventDestroy", event)',
            "again = gpu.event()",
            "assert again.value == event.value",
            'assert gpu.code("cudaEventQuery", again) == 0',
        )

        assert counts(own_traced) == (1, 0)

    def test_destroyed_stream_has_no_row(self, own_traced: Tracer, child: ScriptedProcess) -> None:
        """Another stream may get its address."""
        child("gpu.all_reduce(comm, nccl)", "gpu.all_reduce(comm, compute)")

        assert frontiers(own_traced) == 2
        child('gpu("cudaStreamDestroy", nccl)')
        assert frontiers(own_traced) == 1

    def test_destroyed_communicator_is_complete(self, best_traced: Tracer) -> None:
        """Without any synchronising call."""
        best_traced.run("ncclAllReduce:23:1024")

        assert counts(best_traced) == (23, 23)

    def test_communicators_are_separate(self, own_traced: Tracer, child: ScriptedProcess) -> None:
        """Five operations on one, three on another; the program waits only for the first one's stream."""
        child(
            "second = gpu.communicators(1)[0]",
            "for _ in range(5): gpu.all_reduce(comm, nccl)",
            "for _ in range(3): gpu.all_reduce(second, compute)",
            'gpu("cudaStreamSynchronize", nccl)',
        )

        assert (counts(own_traced, 1), counts(own_traced, 2)) == ((5, 5), (3, 0))
        assert list(waits(own_traced)) == [1]

    def test_device_synchronisation_completes_nothing_with_several_ranks(
        self, own_traced: Tracer, child: ScriptedProcess
    ) -> None:
        """Two ranks in one process: after the first collective only streams count."""
        child(
            "two = gpu.communicators(2)",
            "gpu.all_reduce(two[0], nccl); gpu.all_reduce(two[1], compute)",
            'gpu("cudaDeviceSynchronize")',
        )
        before = counts(own_traced, 2), counts(own_traced, 3), waits(own_traced)
        child("gpu.all_reduce(two[0], nccl); gpu.all_reduce(two[1], compute)", 'gpu("cudaStreamSynchronize", nccl)')

        assert before == ((1, 0), (1, 0), {})
        assert (counts(own_traced, 2), counts(own_traced, 3)) == ((2, 2), (2, 0))


class TestWaits:
    """Synchronising calls with a collective ahead of them."""

    def test_wait_through_events_counts(self, own_traced: Tracer, child: ScriptedProcess) -> None:
        """As PyTorch does it, without synchronising NCCL's own stream."""
        child(
            "gpu.all_reduce(comm, nccl)",
            'gpu("cudaStreamWaitEvent", compute, gpu.recorded(nccl), 0)',
            "gpu.launch(compute, MS)",
        )
        most_ns = measured_ns(child, 'gpu("cudaStreamSynchronize", compute)')

        assert waits(own_traced) == {1: Waits(1, total_ns(own_traced, "cudaStreamSynchronize"))}
        assert 0 < waits(own_traced)[1].sum_ns <= most_ns

    def test_wait_for_an_unrelated_stream_does_not_count(self, own_traced: Tracer, child: ScriptedProcess) -> None:
        """Although a collective is running."""
        child("gpu.all_reduce(comm, nccl)", "gpu.launch(compute, MS)", 'gpu("cudaStreamSynchronize", compute)')

        assert (waits(own_traced), counts(own_traced)) == ({}, (1, 0))

    def test_queries_are_no_waits(self, own_traced: Tracer, child: ScriptedProcess) -> None:
        """A watchdog polls until it is done."""
        child(
            "gpu.all_reduce(comm, nccl)",
            "event = gpu.recorded(nccl)",
            'while gpu.code("cudaEventQuery", event): time.sleep(0.001)',
            'assert gpu.code("cudaStreamQuery", nccl) == 0',
        )

        assert (waits(own_traced), counts(own_traced)) == ({}, (1, 1))

    def test_complete_operation_is_not_waited_for(self, own_traced: Tracer, child: ScriptedProcess) -> None:
        """The second call has nothing ahead of it."""
        child("gpu.all_reduce(comm, nccl)", 'gpu("cudaStreamSynchronize", nccl)', 'gpu("cudaStreamSynchronize", nccl)')

        assert waits(own_traced)[1].count == 1

    @pytest.mark.parametrize("handle", ["None", "c_void_p(1)"], ids=["0", "1"])
    @pytest.mark.parametrize(
        "call",
        ['gpu("cudaStreamSynchronize", None)', 'gpu("cudaMemcpy", host, device, c_size_t(4), 2)'],
        ids=["synchronize", "copy_to_the_host"],
    )
    def test_default_stream_has_two_handles(
        self, own_traced: Tracer, child: ScriptedProcess, handle: str, call: str
    ) -> None:
        """A copy to the host waits for it as well."""
        child("host, device = gpu.memory(4, 'cudaHostAlloc'), gpu.memory(4)", f"gpu.all_reduce(comm, {handle})", call)

        assert (counts(own_traced), waits(own_traced)[1].count) == ((1, 1), 1)

    def test_wait_for_two_communicators_counts_for_both(self, own_traced: Tracer, child: ScriptedProcess) -> None:
        child(
            "second = gpu.communicators(1)[0]",
            "gpu.all_reduce(comm, nccl); gpu.all_reduce(second, nccl)",
            'gpu("cudaStreamSynchronize", nccl)',
        )

        assert {communicator: one.count for communicator, one in waits(own_traced).items()} == {1: 1, 2: 1}

    @pytest.mark.parametrize(
        "operation",
        COLLECTIVES,
    )
    def test_stream_of_each_operation_is_read(self, best_traced: Tracer, operation: str) -> None:
        """For ncclReduce it is the eighth argument."""
        run = best_traced.run("--collective-us=1000", f"{operation}:23:65536", "sync:1")

        assert (counts(best_traced), waits(best_traced)[1].count) == ((23, 23), 1)
        assert run.drops == {}

    def test_stream_of_send_and_receive_is_read(self, best_traced: Tracer) -> None:
        """Two ranks, which wait once each."""
        best_traced.run("--ranks=2", "--collective-us=1000", "ncclSend:23:1024", "sync:1")

        assert [row.calls for row in best_traced.tables.read().nccl_waits.values()] == [1, 1]

    def test_waits_are_found_by_every_attachment_kind(self, traced: Tracer) -> None:
        """As long as the one synchronising call, to the nanosecond: both come from the same two clock readings."""
        run = traced.run("--collective-us=1000", "ncclAllReduce:23:1024", "sync:1")

        assert waits(traced)[1].count == 1
        assert run.row("cudaStreamSynchronize").calls == 1
        assert waits(traced)[1].sum_ns == run.row("cudaStreamSynchronize").total_ns


class TestRoom:
    """Maps."""

    def test_process_without_nccl_has_no_rows(self, best_traced: Tracer) -> None:
        """Whatever events it records."""
        orders = (
            "cudaEventRecord:23",
            "cudaStreamWaitEvent:23",
            "cudaEventQuery:23",
            "cudaDeviceSynchronize:23",
            "sync:1",
        )
        best_traced.run(*orders)

        assert (frontiers(best_traced), best_traced.tables.read().progress) == (0, {})

    def test_streams_beyond_the_map_are_dropped(self, own_standin: Path) -> None:
        """Room for one: the collective of the second stream is counted, but never complete."""
        with tracer(capacities={"frontiers": 1}) as small, scripted_process(own_standin) as child:
            attach(small, own_standin)
            child("comm = gpu.communicators(1)[0]", "nccl, compute = gpu.stream(), gpu.stream()")
            child(
                "gpu.all_reduce(comm, nccl)", "gpu.all_reduce(comm, compute)", 'gpu("cudaStreamSynchronize", compute)'
            )

            assert small.drops() == {"nccl frontiers_full": 1}
            assert counts(small) == (2, 0)

    def test_communicators_beyond_the_map_are_dropped(self, own_standin: Path) -> None:
        """Room for one."""
        with tracer(capacities={"progress": 1}) as small, scripted_process(own_standin) as child:
            attach(small, own_standin)
            child("one, two, nccl = *gpu.communicators(1), *gpu.communicators(1), gpu.stream()")
            child("gpu.all_reduce(one, nccl)", "gpu.all_reduce(two, nccl)")

            assert small.drops() == {"nccl progress_full": 1}
            assert counts(small) == (1, 0)

    def test_fourth_communicator_ahead_of_a_stream_is_dropped(self, own_traced: Tracer, child: ScriptedProcess) -> None:
        """Until one of the three is complete."""
        child(
            "comms = [comm] + [gpu.communicators(1)[0] for _ in range(3)]",
            "for one in comms: gpu.all_reduce(one, nccl)",
        )

        assert own_traced.drops() == {"nccl frontier_pairs": 1}
        child(
            'gpu("cudaStreamSynchronize", nccl)', "gpu.all_reduce(comms[3], nccl)", 'gpu("cudaStreamSynchronize", nccl)'
        )
        assert own_traced.drops() == {"nccl frontier_pairs": 1}
        assert counts(own_traced, 4) == (2, 2)

    def test_ended_process_leaves_no_rows(self, own_traced: Tracer, child: ScriptedProcess) -> None:
        """After its last reading."""
        child("gpu.all_reduce(comm, nccl)", "event = gpu.recorded(nccl)", 'gpu("cudaEventSynchronize", event)')
        reading = own_traced.tables.read()
        own_traced.tables.forget(set(reading.processes), reading)
        after = own_traced.tables.read()

        assert (frontiers(own_traced), after.progress, after.nccl_waits, after.operations) == (0, {}, {}, {})
