"""Items of a recording of single calls: tracks, flows, and what was dropped."""

from __future__ import annotations

from exporter.model import Identity
from exporter.recording.call_stream import RecordedJob, RecordingEnd
from exporter.recording.recorded_calls import JoinedCollective, RecordedCalls, SingleCall, StateSpan
from exporter.timeline.item import Instant, Item, Slice
from exporter.timeline.single_calls import Collectives, SingleCallTimeline
from tests.support.recorded_calls import BEGAN_NS, HEAD

JOB = RecordedJob(Identity(node="gpu7", rank="0"), 100, "trainer", 2, 2, 0, 0)


def a_call(
    process: int = 1, tid: int = 100, began_ns: int = 10, collective: JoinedCollective | None = None
) -> SingleCall:
    return SingleCall(process, tid, "ncclAllReduce", 0, began_ns, began_ns + 5, {"bytes": 64}, collective)


def items(*found: SingleCall | StateSpan, job: RecordedJob = JOB, skipped: int = 0) -> list[Item]:
    read, collectives = RecordedCalls(), Collectives()
    read.head, read.end = HEAD, RecordingEnd(BEGAN_NS + 1000, "time", skipped, {1: job})
    for one in found:
        if isinstance(one, SingleCall):
            collectives.note(one)
    return list(SingleCallTimeline(read, collectives).items(found))


class TestTracks:
    def test_thread_is_below_its_process_and_that_below_its_node(self) -> None:
        (found,) = items(a_call())
        process = found.track.parent
        assert process is not None
        assert process.parent is not None

        assert (found.track.name, process.name, process.parent.name) == ("thread 100", "rank 0 (pid 100)", "node gpu7")

    def test_states_have_a_track_below_that_of_the_calls(self) -> None:
        call, state = items(a_call(), StateSpan(1, 100, "running", 10, 20, {}))

        assert (state.track.name, state.track.parent) == ("state", call.track)


class TestFlows:
    def test_wake_up_leads_from_the_waker_to_the_thread(self) -> None:
        """An instant on the track of the waker, and the wait for a CPU that begins."""
        _, wake, waited = items(a_call(tid=7), StateSpan(1, 100, "runnable", 20, 30, {}, wake=3, waker_tid=7))

        assert isinstance(wake, Instant)
        assert isinstance(waited, Slice)
        assert (wake.track.name, wake.name, wake.flows) == ("thread 7", "wakes thread 100", (3,))
        assert waited.flows == (3,)

    def test_waker_that_is_not_recorded_has_no_flow(self) -> None:
        (waited,) = items(StateSpan(1, 100, "runnable", 20, 30, {}, wake=3, waker_tid=7))

        assert isinstance(waited, Slice)
        assert waited.flows == ()

    def test_collective_is_joined_over_ranks(self) -> None:
        """The second rank entered 30 ns after the first."""
        one = JoinedCollective(0xABC, 7)
        first, second = items(a_call(collective=one), a_call(process=2, tid=200, began_ns=40, collective=one))

        assert isinstance(first, Slice)
        assert isinstance(second, Slice)
        assert first.flows == second.flows != ()
        assert first.arguments == {"bytes": 64, "ranks_here": 2, "entered_after_first_seconds": 0.0}
        assert second.arguments == {"bytes": 64, "ranks_here": 2, "entered_after_first_seconds": 3e-8}

    def test_collective_of_one_rank_is_joined_with_nothing(self) -> None:
        (found,) = items(a_call(collective=JoinedCollective(0xABC, 7)))

        assert isinstance(found, Slice)
        assert (found.flows, dict(found.arguments)) == ((), {"bytes": 64})


class TestDropped:
    def test_what_was_dropped_is_on_the_track_of_its_process(self) -> None:
        *_, found = items(a_call(), job=JOB._replace(full=5, left_out=6))

        assert isinstance(found, Instant)
        assert (found.track.name, found.name) == ("rank 0 (pid 100)", "events dropped")
        assert found.arguments == {"ring_full": 5, "over_overhead_limit": 6}

    def test_what_the_kernel_skipped_is_on_the_track_of_the_node(self) -> None:
        *_, found = items(a_call(), skipped=4)

        assert isinstance(found, Instant)
        assert (found.track.name, dict(found.arguments)) == ("node gpu7", {"skipped": 4})
