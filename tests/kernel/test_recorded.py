"""Single calls and states of threads in the running kernel: each call once, with the duration that is counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import pytest

from exporter.kernel.abi import Copy, HostMemory, RecordedKind, ThreadState
from exporter.kernel.call_recording import CallRecording, RecordedCounts
from exporter.kernel.operations import OPERATIONS
from exporter.kernel.recorded_events import RecordedCall, RecordedChange, events_in
from tests.support import accounts
from tests.support.traced import Run, Tracer, only

MOST_BYTES = 1 << 24
NO_LIMIT = 100.0
ORDERS = (
    "ncclAllReduce:23:65536",
    "cudaMemcpy:23:65536:d2ph",
    "cudaLaunchKernel:23:1000:6x4x2/32x4x2",
    "cudaMalloc:23:4096",
)


@contextmanager
def recording(traced: Tracer, **options: object) -> Iterator[CallRecording]:
    """All calls that the tracer traces. options: of CallRecording."""
    found = CallRecording(traced.kernel, **{"only": None, "overhead_limit": NO_LIMIT, **options})  # type: ignore[arg-type]
    try:
        found.follow(traced.attachments)
        yield found
    finally:
        found.close()


def taken(of: CallRecording) -> list[RecordedCall | RecordedChange]:
    return list(events_in(of.take(MOST_BYTES)))


def calls_in(events: list[RecordedCall | RecordedChange], operation: str) -> list[RecordedCall]:
    return [event for event in events if isinstance(event, RecordedCall) and event.of.name == operation]


def changes_in(events: list[RecordedCall | RecordedChange]) -> list[RecordedChange]:
    return [event for event in events if isinstance(event, RecordedChange)]


def sums(events: list[RecordedCall | RecordedChange]) -> dict[str, tuple[int, int]]:
    """Operation -> calls, and their nanoseconds."""
    calls = [event for event in events if isinstance(event, RecordedCall)]
    counts = Counter(call.of.name for call in calls)
    return {
        name: (count, sum(call.duration_ns for call in calls if call.of.name == name)) for name, count in counts.items()
    }


def total(of: CallRecording) -> RecordedCounts:
    """The sums of all processes: some may be of earlier tests, and end only now."""
    return (
        RecordedCounts(*map(sum, zip(*of.counts().values(), strict=True)))
        if of.counts()
        else RecordedCounts(0, 0, 0, 0)
    )


def counted(run: Run) -> dict[str, tuple[int, int]]:
    """The same from the tables, for calls with a duration."""
    names = {OPERATIONS[key.operation].name for key in run.reading.operations}
    rows = {name: run.row(name) for name in names}
    return {name: (row.timed, row.total_ns) for name, row in rows.items() if row.timed}


class TestCalls:
    """For every attachment kind."""

    def test_each_call_is_recorded_once_with_the_duration_that_is_counted(self, traced: Tracer) -> None:
        """Calls inside others included; to the nanosecond."""
        with recording(traced) as found:
            run = traced.run(*ORDERS)
            found.stop()

            assert sums(taken(found)) == counted(run)
        assert counted(run)["cudaMalloc"][0] == run.prepared("cudaMalloc") + 23

    def test_training_job_is_recorded_in_full(self, best_traced: Tracer) -> None:
        """Two ranks of many threads, 60 steps: every operation has the calls and the nanoseconds that are counted."""
        with recording(best_traced) as found:
            run = best_traced.run("--ranks=2", "--steps=60", "--quiet", program="trainer")
            found.stop()
            events, lost = taken(found), total(found)

        assert (lost.full, lost.left_out) == (0, 0)
        assert sums(events) == counted(run)

    def test_arguments_of_a_copy_are_recorded(self, best_traced: Tracer) -> None:
        with recording(best_traced) as found:
            best_traced.run("cudaMemcpy:23:65536:d2ph")
            found.stop()
            copies = calls_in(taken(found), "cudaMemcpy")

        assert {(call.bytes, call.copy, call.memory) for call in copies} == {
            (65536, Copy.DEVICE_TO_HOST, HostMemory.PAGEABLE)
        }
        assert len(copies) == 23

    @pytest.mark.parametrize(
        "launch", ["cudaLaunchKernel", "cudaLaunchKernelExC", "cuLaunchKernel", "cuLaunchKernelEx"]
    )
    def test_size_of_a_launch_is_recorded(self, best_traced: Tracer, launch: str) -> None:
        """From registers, from the stack, or from a struct. The thread has made a call before."""
        with recording(best_traced) as found:
            best_traced.run("cudaMalloc:1:4096", f"{launch}:23:1000:6x4x2/32x4x2")
            found.stop()
            launches = calls_in(taken(found), launch)

        assert [call.grid for call in launches][-23:] == [(48, 256)] * 23

    def test_collectives_are_numbered_alike_on_every_rank(self, best_traced: Tracer) -> None:
        """Two ranks, one communicator, 23 collectives."""
        with recording(best_traced) as found:
            best_traced.run("--ranks=2", "ncclAllReduce:23:65536")
            found.stop()
            collectives = calls_in(taken(found), "ncclAllReduce")

        ranks = {call.process for call in collectives}
        numbers = {rank: [call.sequence for call in collectives if call.process == rank] for rank in ranks}
        assert list(numbers.values()) == [list(range(1, 24))] * 2
        assert only({call.communicator_hash for call in collectives}) != 0
        assert {call.bytes for call in collectives} == {65536}

    def test_code_of_a_failed_call_is_recorded(self, best_traced: Tracer) -> None:
        """Only that of the call that failed."""
        with recording(best_traced) as found:
            best_traced.run("cudaMalloc:23:4096", environment={"STANDIN_FAIL": "cudaMalloc:2:5"})
            found.stop()
            codes = Counter(call.code for call in calls_in(taken(found), "cudaMalloc"))

        assert codes[2] == 1
        assert set(codes) == {0, 2}

    def test_nothing_is_recorded_after_the_end(self, best_traced: Tracer) -> None:
        with recording(best_traced) as found:
            found.stop()
            best_traced.run("cudaMalloc:23:4096")

            assert [event for event in taken(found) if isinstance(event, RecordedCall)] == []
            assert total(found).calls == 0

    def test_probes_of_a_recording_go_with_the_attachment(self, best_traced: Tracer) -> None:
        """A library that is about to be overwritten has no probe left."""
        with recording(best_traced) as found:
            best_traced.detach()
            best_traced.run("cudaMalloc:23:4096")

            assert total(found).calls == 0


class TestBounds:
    """What is not recorded is counted."""

    def test_only_wanted_processes_are_recorded(self, best_traced: Tracer) -> None:
        """The numbers of processes that will be are known: the tables are empty."""
        with recording(best_traced, only=[1]) as found:
            best_traced.run("--ranks=2", "ncclAllReduce:23:65536")
            found.stop()

            assert {event.process for event in taken(found)} == {1}
            assert set(found.counts()) == {1}

    def test_events_over_the_bound_are_left_out_and_counted(self, best_traced: Tracer) -> None:
        """Ten calls a second."""
        with recording(best_traced, overhead_limit=0.000005) as found:
            run = best_traced.run("cudaMalloc:1009:4096")
            found.stop()
            counts = total(found)

        assert counts.left_out > 0
        assert counts.calls + counts.changes + counts.left_out >= run.row("cudaMalloc").timed

    def test_events_without_room_are_counted(self, best_traced: Tracer) -> None:
        """A ring of 4,096 bytes has room for 56 calls of 72 bytes, or for 64 changes of 64 bytes."""
        with recording(best_traced, ring_bytes=4096) as found:
            run = best_traced.run("cudaMalloc:1009:4096")
            found.stop()
            counts = total(found)
            piece = found.take(MOST_BYTES)

        assert len(piece) <= 4096
        assert counts.calls + counts.changes == len(list(events_in(piece)))
        assert 0 < counts.calls + counts.changes <= 64
        assert counts.calls + counts.full >= run.row("cudaMalloc").timed


class TestThreads:
    """States between calls."""

    def test_sleep_and_its_waker_are_recorded(self, best_traced: Tracer) -> None:
        """A thread that sleeps 50 ms between two calls: left the CPU, was woken by the clock, came back."""
        with recording(best_traced) as found:
            best_traced.run("cudaMalloc:1:4096", "sleep:1:50000000", "cudaMalloc:1:4096")
            found.stop()
            events = taken(found)
        if best_traced.tables.healed():
            pytest.skip("needs every switch of the thread: the kernel has not shown one to the programs")
        calls = calls_in(events, "cudaMalloc")[-2:]
        between = [
            change
            for change in changes_in(events)
            if change.tid == calls[0].tid and calls[0].ended_ns < change.at_ns < calls[1].began_ns
        ]
        sleeps = [
            pair
            for pair in pairwise(between)
            if (pair[0].kind, pair[0].state) == (RecordedKind.LEFT, ThreadState.SLEEP)
        ]
        asleep = only(sleeps)

        assert [change.kind for change in asleep] == [RecordedKind.LEFT, RecordedKind.WOKEN]
        assert asleep[1].at_ns - asleep[0].at_ns >= 49_000_000
        assert asleep[1].other_tid == 0

    def test_waker_and_who_had_the_cpu_are_recorded(
        self, account_tracer: Tracer, wakeups_program: Path, cpu: int
    ) -> None:
        """A worker process of the job computes while the step thread sleeps, and then wakes it, both on one CPU."""
        accounts.probe(account_tracer, wakeups_program)
        with recording(account_tracer) as found:
            accounts.run(account_tracer, "taskset", "-c", str(cpu), wakeups_program, "burn", "23", "2000")
            found.stop()
            events = taken(found)
        step = only({call.tid for call in events if isinstance(call, RecordedCall)})
        changes = [change for change in changes_in(events) if change.tid == step]
        wakers = Counter(change.other_tgid for change in changes if change.kind == RecordedKind.WOKEN)
        before = Counter(change.other_tgid for change in changes if change.kind == RecordedKind.CAME)
        (worker,) = wakers.keys() - {0, step}

        assert wakers[worker] > 0
        assert before[worker] > 0
