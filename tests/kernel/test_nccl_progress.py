"""How far NCCL has come, who waits for it and who comes late: collectives of known length in the running kernel."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from exporter import standin
from exporter.kernel.progress_rows import ProgressRow
from tests.support.traced import STANDIN_LIBRARIES, Tracer, only, tracer

MS = 1_000_000
ROOT = Path(__file__).parent.parent.parent
LENGTH = "40 * MS"
"""Of a collective: long beside what a computer with one busy CPU takes to make the next call."""

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

CHILD = """
import sys, time
from ctypes import byref, c_size_t, c_uint64, c_void_p
from pathlib import Path
from tests.support.standin_gpu import MS, Gpu, UniqueId

gpu = Gpu(Path(sys.argv[1]))
for line in sys.stdin:
    exec(line)
    print("done", flush=True)
"""
"""Carries out Python lines with a Gpu of its own, one at a time."""


class Child:
    """A process that makes the calls it is told to, while the tables are read."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def begin(self, *lines: str) -> None:
        """Do these, and do not wait."""
        assert self._process.stdin is not None
        for line in lines:
            self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def finish(self, count: int = 1) -> None:
        """Until so many lines are done."""
        assert self._process.stdout is not None
        for _ in range(count):
            assert self._process.stdout.readline() == "done\n", "the child has ended"

    def __call__(self, *lines: str) -> None:
        """Do these."""
        self.begin(*lines)
        self.finish(len(lines))


class Waits(NamedTuple):
    """Of one communicator."""

    count: int
    sum_ns: int


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The stand-in's libraries, as files that nobody else maps."""
    folder = tmp_path_factory.mktemp("standin")
    for name in STANDIN_LIBRARIES.values():
        subprocess.run(["cp", standin.build_dir() / name, folder], check=True)
    return folder


def attach(tracer: Tracer, libraries: Path) -> Tracer:
    """Probe them."""
    for api, name in STANDIN_LIBRARIES.items():
        tracer.attach(api, libraries / name)
    return tracer


@contextmanager
def child_of(libraries: Path) -> Iterator[Child]:
    """A process with the libraries loaded, and 40 ms to each collective."""
    process = subprocess.Popen(
        [sys.executable, "-c", CHILD, libraries],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    try:
        child = Child(process)
        child(f"gpu.nccl.standin_set_collective_ns(c_uint64({LENGTH}))")
        yield child
    finally:
        process.kill()
        process.communicate()


@pytest.fixture
def probed(account_tracer: Tracer, libraries: Path) -> Tracer:
    """All programs, on these libraries."""
    return attach(account_tracer, libraries)


@pytest.fixture
def child(probed: Tracer, libraries: Path) -> Iterator[Child]:
    """One rank that is alone in its communicator, with a stream for NCCL and one for everything else."""
    with child_of(libraries) as found:
        found("comm = gpu.communicators(1)[0]", "nccl, compute = gpu.stream(), gpu.stream()")
        yield found


def progress(tracer: Tracer, communicator: int = 1) -> ProgressRow:
    """Of the one process that has such a communicator."""
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


def frontiers(tracer: Tracer) -> int:
    """Streams and events that something is ahead of."""
    return len(list(tracer.kernel.maps["frontiers"].items()))


class TestEnqueued:
    """Counted when the call returns."""

    def test_collectives_are_counted_before_they_are_done(self, probed: Tracer, child: Child) -> None:
        """23, of which nobody has asked yet."""
        child("for _ in range(23): gpu.all_reduce(comm, nccl)")

        assert counts(probed) == (23, 0)
        assert progress(probed).collectives == 23
        assert probed.losses() == {}

    def test_a_call_that_failed_enqueued_nothing(self, best_traced: Tracer) -> None:
        """Two of 23 fail."""
        failing = {"STANDIN_FAIL": "ncclAllReduce:2:3,ncclAllReduce:2:4"}
        best_traced.run("ncclAllReduce:23:1024", environment=failing)

        assert progress(best_traced).enqueued == 21

    def test_inside_a_group_the_call_counts(self, probed: Tracer, child: Child) -> None:
        """The group's end adds nothing."""
        child(
            'gpu("ncclGroupStart")', "gpu.all_reduce(comm, nccl)", "gpu.all_reduce(comm, nccl)", 'gpu("ncclGroupEnd")'
        )

        assert counts(probed) == (2, 0)

    def test_a_call_made_by_another_nccl_call_is_that_one(self, best_traced: Tracer) -> None:
        """ncclBcast calls ncclBroadcast."""
        best_traced.run("ncclBcast:23:65536")

        assert progress(best_traced).enqueued == 23

    def test_what_is_captured_into_a_graph_is_not(self, probed: Tracer, child: Child) -> None:
        """The GPU does not get it; what comes behind the capture counts again."""
        child(
            'gpu("cudaStreamBeginCapture", nccl, 2)',
            "gpu.all_reduce(comm, nccl)",
            'graph = c_void_p(); gpu("cudaStreamEndCapture", nccl, byref(graph))',
            "gpu.all_reduce(comm, nccl)",
        )

        assert counts(probed) == (1, 0)

    def test_sends_and_receives_are_no_collectives(self, best_traced: Tracer) -> None:
        """They are enqueued and completed like them; but ranks do not make equally many."""
        best_traced.run("--ranks=2", "ncclSend:23:1024")
        rows = [row for row in best_traced.tables.read().progress.values() if row.enqueued]

        assert [(row.enqueued, row.completed, row.collectives, row.late_arrivals) for row in rows] == [
            (46, 46, 0, 0)
        ] * 2


class TestCompleted:
    """Seen done by a call that returned 0."""

    @pytest.mark.parametrize(
        "call",
        [
            'gpu("cudaStreamSynchronize", nccl)',
            'gpu("cudaEventSynchronize", gpu.recorded(nccl))',
            'gpu("cudaDeviceSynchronize")',
            "gpu.cuda.cuStreamSynchronize(nccl)",
            "gpu.cuda.cuCtxSynchronize()",
            'gpu("cudaStreamWaitEvent", compute, gpu.recorded(nccl), 0); gpu("cudaStreamSynchronize", compute)',
        ],
        ids=["stream", "event", "device", "driver_s_stream", "driver_s_context", "stream_behind"],
    )
    def test_all_is_done_when_a_synchronising_call_returns(self, probed: Tracer, child: Child, call: str) -> None:
        """23 collectives, and one wait for as long as they took; made by 5 ms a call at the most, in 40 ms each."""
        child("for _ in range(23): gpu.all_reduce(comm, nccl)", call)

        assert counts(probed) == (23, 23)
        assert waits(probed)[1].count == 1
        assert 10 * 40 * MS <= waits(probed)[1].sum_ns <= 23 * 40 * MS + 1_000 * MS

    @pytest.mark.parametrize("behind", ["nccl", "compute"], ids=["directly", "through_a_stream"])
    def test_an_event_tells_of_what_was_before_it(self, probed: Tracer, child: Child, behind: str) -> None:
        """Recorded behind the tenth of 23; others may be done by then, but nobody has seen it."""
        child(
            "for _ in range(10): gpu.all_reduce(comm, nccl)",
            'gpu("cudaStreamWaitEvent", compute, gpu.recorded(nccl), 0)',
            f"event = gpu.recorded({behind})",
            "for _ in range(13): gpu.all_reduce(comm, nccl)",
            'while gpu.code("cudaEventQuery", event): time.sleep(0.01)',
        )

        assert counts(probed) == (23, 10)

    def test_a_query_that_says_not_ready_completes_nothing(self, probed: Tracer, child: Child) -> None:
        """A collective of a minute."""
        child(
            "gpu.nccl.standin_set_collective_ns(c_uint64(60_000 * MS))",
            "gpu.all_reduce(comm, nccl)",
            'assert gpu.code("cudaEventQuery", gpu.recorded(nccl)) == 600',
            'assert gpu.code("cudaStreamQuery", nccl) == 600',
        )

        assert counts(probed) == (1, 0)

    def test_an_event_recorded_anew_forgets_what_was_before(self, probed: Tracer, child: Child) -> None:
        """First behind a minute of NCCL, then on a stream that has nothing to do with it: done at once, and NCCL is not."""
        child(
            "gpu.nccl.standin_set_collective_ns(c_uint64(60_000 * MS))",
            "gpu.all_reduce(comm, nccl)",
            "event = gpu.recorded(nccl)",
            'gpu("cudaEventRecord", event, compute)',
            'gpu("cudaEventSynchronize", event)',
        )

        assert counts(probed) == (1, 0)
        assert waits(probed) == {}

    def test_an_event_destroyed_and_made_anew_knows_nothing(self, probed: Tracer, child: Child) -> None:
        """The new one has the address of the old one; it was never recorded, and so it is done."""
        child(
            "gpu.nccl.standin_set_collective_ns(c_uint64(60_000 * MS))",
            "gpu.all_reduce(comm, nccl)",
            "event = gpu.recorded(nccl)",
            'gpu("cudaEventDestroy", event)',
            "again = gpu.event()",
            "assert again.value == event.value",
            'assert gpu.code("cudaEventQuery", again) == 0',
        )

        assert counts(probed) == (1, 0)

    def test_a_destroyed_stream_is_forgotten(self, probed: Tracer, child: Child) -> None:
        """Another one may be given its address."""
        child("gpu.all_reduce(comm, nccl)", "gpu.all_reduce(comm, compute)")

        assert frontiers(probed) == 2
        child('gpu("cudaStreamDestroy", nccl)')
        assert frontiers(probed) == 1

    def test_a_destroyed_communicator_has_nothing_left_to_do(self, best_traced: Tracer) -> None:
        """Nobody has synchronised."""
        best_traced.run("ncclAllReduce:23:1024")

        assert counts(best_traced) == (23, 23)

    def test_communicators_are_kept_apart(self, probed: Tracer, child: Child) -> None:
        """Five on one, three on another; only the first one's stream is waited for."""
        child(
            "second = gpu.communicators(1)[0]",
            "for _ in range(5): gpu.all_reduce(comm, nccl)",
            "for _ in range(3): gpu.all_reduce(second, compute)",
            'gpu("cudaStreamSynchronize", nccl)',
        )

        assert (counts(probed, 1), counts(probed, 2)) == ((5, 5), (3, 0))
        assert list(waits(probed)) == [1]

    def test_a_device_says_nothing_of_the_others(self, probed: Tracer, child: Child) -> None:
        """Two ranks in one process: as soon as one collective has shown it, streams are asked and the device is not."""
        child(
            "two = gpu.communicators(2)",
            "gpu.all_reduce(two[0], nccl); gpu.all_reduce(two[1], compute)",
            'gpu("cudaDeviceSynchronize")',
        )
        before = counts(probed, 2), counts(probed, 3), waits(probed)
        child("gpu.all_reduce(two[0], nccl); gpu.all_reduce(two[1], compute)", 'gpu("cudaStreamSynchronize", nccl)')

        assert before == ((1, 0), (1, 0), {})
        assert (counts(probed, 2), counts(probed, 3)) == ((2, 2), (2, 0))


class TestWaits:
    """Synchronising calls with a collective ahead of them."""

    def test_wait_through_events_is_one(self, probed: Tracer, child: Child) -> None:
        """As PyTorch does it: nobody synchronises NCCL's own stream. As long as the collective, less what came between."""
        child(
            "gpu.all_reduce(comm, nccl)",
            'gpu("cudaStreamWaitEvent", compute, gpu.recorded(nccl), 0)',
            "gpu.launch(compute, MS)",
            'gpu("cudaStreamSynchronize", compute)',
        )

        assert waits(probed)[1].count == 1
        assert 10 * MS <= waits(probed)[1].sum_ns <= 1_000 * MS

    def test_stream_that_has_nothing_to_do_with_nccl_is_none(self, probed: Tracer, child: Child) -> None:
        """Although a collective is on its way."""
        child("gpu.all_reduce(comm, nccl)", "gpu.launch(compute, MS)", 'gpu("cudaStreamSynchronize", compute)')

        assert (waits(probed), counts(probed)) == ({}, (1, 0))

    def test_queries_are_none(self, probed: Tracer, child: Child) -> None:
        """A watchdog asks until it is done."""
        child(
            "gpu.all_reduce(comm, nccl)",
            "event = gpu.recorded(nccl)",
            'while gpu.code("cudaEventQuery", event): time.sleep(0.001)',
            'assert gpu.code("cudaStreamQuery", nccl) == 0',
        )

        assert (waits(probed), counts(probed)) == ({}, (1, 1))

    def test_what_has_been_seen_done_is_not_waited_for(self, probed: Tracer, child: Child) -> None:
        """The second call finds nothing ahead of it any more."""
        child("gpu.all_reduce(comm, nccl)", 'gpu("cudaStreamSynchronize", nccl)', 'gpu("cudaStreamSynchronize", nccl)')

        assert waits(probed)[1].count == 1

    @pytest.mark.parametrize("handle", ["None", "c_void_p(1)"], ids=["0", "1"])
    @pytest.mark.parametrize(
        "call",
        ['gpu("cudaStreamSynchronize", None)', 'gpu("cudaMemcpy", host, device, c_size_t(4), 2)'],
        ids=["synchronize", "copy_to_the_host"],
    )
    def test_default_stream_has_two_handles(self, probed: Tracer, child: Child, handle: str, call: str) -> None:
        """And a copy to the host waits for it."""
        child("host, device = gpu.memory(4, 'cudaHostAlloc'), gpu.memory(4)", f"gpu.all_reduce(comm, {handle})", call)

        assert (counts(probed), waits(probed)[1].count) == ((1, 1), 1)

    def test_wait_for_two_communicators_counts_for_both(self, probed: Tracer, child: Child) -> None:
        """One call."""
        child(
            "second = gpu.communicators(1)[0]",
            "gpu.all_reduce(comm, nccl); gpu.all_reduce(second, nccl)",
            'gpu("cudaStreamSynchronize", nccl)',
        )

        assert {communicator: one.count for communicator, one in waits(probed).items()} == {1: 1, 2: 1}

    @pytest.mark.parametrize(
        "operation",
        COLLECTIVES,
    )
    def test_each_operation_has_its_stream_in_its_own_place(self, best_traced: Tracer, operation: str) -> None:
        """ncclReduce's is the eighth argument; waiting for the stream is a wait for it."""
        run = best_traced.run("--collective-us=1000", f"{operation}:23:65536", "sync:1")

        assert (counts(best_traced), waits(best_traced)[1].count) == ((23, 23), 1)
        assert run.losses == {}

    def test_send_and_receive_have_their_stream_in_place(self, best_traced: Tracer) -> None:
        """Two ranks, which wait once each."""
        best_traced.run("--ranks=2", "--collective-us=1000", "ncclSend:23:1024", "sync:1")

        assert [row.calls for row in best_traced.tables.read().nccl_waits.values()] == [1, 1]

    def test_they_are_found_by_every_means_of_attachment(self, traced: Tracer) -> None:
        """Session, two links, two perf events."""
        run = traced.run("--collective-us=1000", "ncclAllReduce:23:1024", "sync:1")

        assert waits(traced)[1].count == 1
        assert waits(traced)[1].sum_ns == pytest.approx(
            run.truth("runtime", "cudaStreamSynchronize")["sum_ns"], rel=0.5
        )


class TestArrival:
    """Which rank of the node is the last to come."""

    def test_rank_that_comes_50_ms_late_has_that_lag(self, probed: Tracer, libraries: Path, tmp_path: Path) -> None:
        """Once; the other one has none. In the second collective they come in the other order, 20 ms apart."""
        with ExitStack() as stack:
            early, late = self._joined(libraries, stack, tmp_path)
            early("gpu.all_reduce(comm, nccl)")
            late("time.sleep(0.05); gpu.all_reduce(comm, nccl)")
            before = self._lags(probed)
            late("gpu.all_reduce(comm, nccl)")
            early("time.sleep(0.02); gpu.all_reduce(comm, nccl)")
            after = self._lags(probed)

        assert [arrivals for _, arrivals in before] == [0, 1]
        assert before[0][0] == 0
        assert 50 * MS <= before[1][0] <= 550 * MS
        assert [arrivals for _, arrivals in after] == [1, 1]
        assert 20 * MS <= after[0][0] <= 520 * MS
        assert after[1] == before[1]

    def test_places_are_used_again(self, probed: Tracer, libraries: Path, tmp_path: Path) -> None:
        """1,100 collectives, more than there are places: to each, one of the two comes second, however close they are."""
        with ExitStack() as stack:
            ranks = self._joined(libraries, stack, tmp_path)
            for one in ranks:
                one("gpu.nccl.standin_set_collective_ns(c_uint64(1000))")
            for one in ranks:
                one.begin("for _ in range(1100): gpu.all_reduce(comm, nccl); gpu('cudaStreamSynchronize', nccl)")
            for one in ranks:
                one.finish()
            lags = self._lags(probed)

        assert sum(arrivals for _, arrivals in lags) == 1_100

    def test_sends_are_not_compared(self, best_traced: Tracer) -> None:
        """Two ranks; a collective of each is."""
        best_traced.run("--ranks=2", "ncclSend:5:1024", "ncclAllReduce:1:1024")
        rows = [row for row in best_traced.tables.read().progress.values() if row.enqueued]

        assert sum(row.late_arrivals for row in rows) == 1

    def test_communicator_whose_making_was_not_seen_is_not_compared(self, libraries: Path, tmp_path: Path) -> None:
        """Its ranks cannot be told to be of one."""
        with tracer() as blind, ExitStack() as stack:
            for api, name in STANDIN_LIBRARIES.items():
                blind.attach(api, libraries / name, only=("ncclAllReduce",))
            for one in self._joined(libraries, stack, tmp_path):
                one("gpu.all_reduce(comm, nccl)")
            rows = blind.tables.read().progress.values()

            assert [(row.enqueued, row.late_arrivals) for row in rows] == [(1, 0), (1, 0)]

    @staticmethod
    def _joined(libraries: Path, stack: ExitStack, folder: Path) -> tuple[Child, Child]:
        """Two processes in one communicator, rank 0 first."""
        ranks = tuple(stack.enter_context(child_of(libraries)) for _ in range(2))
        unique = folder / "unique"
        ranks[0](
            f"unique = UniqueId(); gpu('ncclGetUniqueId', byref(unique)); Path({str(unique)!r}).write_bytes(bytes(unique))"
        )
        for rank, one in enumerate(ranks):
            one(
                f"unique = UniqueId.from_buffer_copy(Path({str(unique)!r}).read_bytes())",
                "nccl, made = gpu.stream(), c_void_p()",
            )
            one.begin(f"gpu('ncclCommInitRank', byref(made), 2, unique, {rank}); comm = made.value")
        for one in ranks:
            one.finish()
        return ranks[0], ranks[1]

    @staticmethod
    def _lags(probed: Tracer) -> list[tuple[int, int]]:
        """Lag and late arrivals of each rank."""
        reading = probed.tables.read()
        ranks = {process: only(rows).rank for process, rows in reading.communicators.items()}
        rows = sorted(reading.progress.items(), key=lambda item: ranks[item[0].process])
        return [(row.lag_ns, row.late_arrivals) for _, row in rows]


class TestRoom:
    """What is kept, and what happens when it is full."""

    def test_a_process_without_nccl_keeps_nothing(self, best_traced: Tracer) -> None:
        """Whatever it records and waits for."""
        orders = (
            "cudaEventRecord:23",
            "cudaStreamWaitEvent:23",
            "cudaEventQuery:23",
            "cudaDeviceSynchronize:23",
            "sync:1",
        )
        best_traced.run(*orders)

        assert (frontiers(best_traced), best_traced.tables.read().progress) == (0, {})

    def test_streams_beyond_the_table_are_a_loss(self, libraries: Path) -> None:
        """Room for one: the collective of the second stream is counted, and never seen done."""
        with tracer(capacities={"frontiers": 1}) as small, child_of(libraries) as child:
            attach(small, libraries)
            child("comm = gpu.communicators(1)[0]", "nccl, compute = gpu.stream(), gpu.stream()")
            child(
                "gpu.all_reduce(comm, nccl)", "gpu.all_reduce(comm, compute)", 'gpu("cudaStreamSynchronize", compute)'
            )

            assert small.losses() == {"nccl frontiers_full": 1}
            assert counts(small) == (2, 0)

    def test_communicators_beyond_the_table_are_a_loss(self, libraries: Path) -> None:
        """Room for one."""
        with tracer(capacities={"progress": 1}) as small, child_of(libraries) as child:
            attach(small, libraries)
            child("one, two, nccl = *gpu.communicators(1), *gpu.communicators(1), gpu.stream()")
            child("gpu.all_reduce(one, nccl)", "gpu.all_reduce(two, nccl)")

            assert small.losses() == {"nccl progress_full": 1}
            assert counts(small) == (1, 0)

    def test_a_fourth_communicator_ahead_of_a_stream_is_a_loss(self, probed: Tracer, child: Child) -> None:
        """Until one of the three has been seen done: then there is room."""
        child(
            "comms = [comm] + [gpu.communicators(1)[0] for _ in range(3)]",
            "for one in comms: gpu.all_reduce(one, nccl)",
        )

        assert probed.losses() == {"nccl frontier_pairs": 1}
        child(
            'gpu("cudaStreamSynchronize", nccl)', "gpu.all_reduce(comms[3], nccl)", 'gpu("cudaStreamSynchronize", nccl)'
        )
        assert probed.losses() == {"nccl frontier_pairs": 1}
        assert counts(probed, 4) == (2, 2)

    def test_an_ended_process_leaves_nothing(self, probed: Tracer, child: Child) -> None:
        """Once user space has read it for the last time."""
        child("gpu.all_reduce(comm, nccl)", "event = gpu.recorded(nccl)", 'gpu("cudaEventSynchronize", event)')
        reading = probed.tables.read()
        probed.tables.forget(set(reading.processes), reading)
        after = probed.tables.read()

        assert (frontiers(probed), after.progress, after.nccl_waits, after.operations) == (0, {}, {}, {})
