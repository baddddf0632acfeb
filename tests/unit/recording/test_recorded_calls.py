"""Calls and states of threads from the frames of a recording."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from exporter.errors import BadInput, NotPossibleHere
from exporter.kernel.abi import Copy, HostMemory, RecordedKind, ThreadState
from exporter.kernel.operations import NUMBERS
from exporter.recording.call_stream import (
    FrameKind,
    RecordedThread,
    RecordingEnd,
    end_frame,
    failure_frame,
    head_frame,
    threads_frame,
)
from exporter.recording.recorded_calls import JoinedCollective, RecordedCalls, SingleCall, StateSpan
from tests.support.recorded_calls import BEGAN_NS, HEAD, JOB, OFFSET_NS, call, change, thread

_HEADER_BYTES = 5
LENGTH_NS = 1000


def frame(raw: bytes) -> tuple[FrameKind, bytes]:
    return FrameKind(raw[:1]), raw[_HEADER_BYTES:]


def read(
    pieces: bytes = b"",
    *,
    first: Sequence[RecordedThread] = (),
    last: Sequence[RecordedThread] = (),
) -> list[SingleCall | StateSpan]:
    """What a recording of LENGTH_NS holds."""
    stream = [
        frame(head_frame(HEAD)),
        frame(threads_frame(list(first))),
        (FrameKind.PIECE, pieces),
        frame(threads_frame(list(last))),
        frame(end_frame(RecordingEnd(BEGAN_NS + LENGTH_NS, "time", 0, {1: JOB}))),
    ]
    return list(RecordedCalls().read(stream))


def spans(found: Sequence[SingleCall | StateSpan]) -> list[tuple[str, int, int]]:
    """State, beginning and end in nanoseconds of the recording."""
    zero = BEGAN_NS + OFFSET_NS
    return [
        (one.state, one.began_unix_ns - zero, one.ended_unix_ns - zero) for one in found if isinstance(one, StateSpan)
    ]


class TestCalls:
    def test_call_has_the_times_of_day_and_what_is_known(self) -> None:
        detail = Copy.DEVICE_TO_HOST | HostMemory.PAGEABLE << 8
        (found,) = read(call("cudaMemcpy", 10, 30, code=2, amount=4096, detail=detail))

        assert found == SingleCall(
            process=1,
            tid=100,
            name="cudaMemcpy",
            depth=0,
            began_unix_ns=BEGAN_NS + OFFSET_NS + 10,
            ended_unix_ns=BEGAN_NS + OFFSET_NS + 30,
            arguments={"code": 2, "bytes": 4096, "direction": "GPU to host", "host_memory": "pageable"},
            collective=None,
        )

    def test_launch_has_its_size(self) -> None:
        (found,) = read(call("cudaLaunchKernel", 10, 30, amount=48, detail=256))

        assert found.arguments == {"blocks": 48, "threads_of_a_block": 256}

    def test_collective_has_its_communicator_and_number(self) -> None:
        (found,) = read(call("ncclAllReduce", 10, 30, communicator=1, amount=64, detail=0xABC, sequence=7))

        assert isinstance(found, SingleCall)
        assert found.collective == JoinedCollective(0xABC, 7)
        assert found.arguments == {"bytes": 64, "communicator": "0000000000000abc", "sequence": 7}

    def test_call_that_has_not_returned_lasts_to_the_end(self) -> None:
        hung = thread(ThreadState.GPU_WAIT, operation=NUMBERS["cudaStreamSynchronize"], opened_ns=400)
        (found,) = read(last=[hung])

        assert isinstance(found, SingleCall)
        assert (found.name, found.ended_unix_ns - found.began_unix_ns) == ("cudaStreamSynchronize", 600)
        assert found.arguments == {"is_open": True}


class TestStates:
    def test_thread_that_never_changes_has_one_state(self) -> None:
        assert spans(read(first=[thread(ThreadState.LOCK)])) == [("blocked: lock", 0, 1000)]

    def test_sleep_wake_up_and_wait_for_a_cpu(self) -> None:
        """It slept from 100, was woken at 300 by trainer 7, and ran from 350 on, after noise had left the CPU."""
        found = read(
            change(RecordedKind.LEFT, 100, state=ThreadState.PIPE, other=(9, "idle"))
            + change(RecordedKind.WOKEN, 300, other=(7, "trainer"))
            + change(RecordedKind.CAME, 350, other=(8, "noise"), throttled_ns=20),
            first=[thread(ThreadState.ON_CPU)],
        )
        _, asleep, waited, _ = (one for one in found if isinstance(one, StateSpan))

        assert spans(found) == [
            ("running", 0, 100),
            ("blocked: pipe", 100, 300),
            ("runnable", 300, 350),
            ("running", 350, 1000),
        ]
        assert asleep.arguments == {"woken_by": "trainer", "woken_by_pid": 7}
        assert (waited.wake, waited.waker_tid) == (1, 7)
        assert waited.arguments == {
            "woken_by": "trainer",
            "woken_by_pid": 7,
            "culprit": "noise",
            "culprit_pid": 8,
            "throttled_seconds": 2e-8,
        }

    def test_culprit_is_who_took_the_cpu(self) -> None:
        """Not who left it last."""
        found = read(
            change(RecordedKind.LEFT, 100, state=ThreadState.RUNNABLE, other=(8, "noise"))
            + change(RecordedKind.CAME, 350, other=(9, "other"))
        )

        assert found[0].arguments == {"culprit": "noise", "culprit_pid": 8}

    def test_wake_up_without_a_thread_is_that_of_an_interrupt(self) -> None:
        found = read(change(RecordedKind.LEFT, 100, state=ThreadState.SLEEP) + change(RecordedKind.WOKEN, 300))

        assert found[0].arguments == {"woken_by": "an interrupt"}

    def test_thread_that_ends_has_no_state_afterwards(self) -> None:
        found = read(change(RecordedKind.CAME, 100) + change(RecordedKind.ENDED, 200))

        assert spans(found) == [("running", 100, 200)]


class TestDamage:
    def test_refusal_of_the_other_side_is_raised(self) -> None:
        with pytest.raises(BadInput):
            list(RecordedCalls().read([frame(failure_frame(BadInput("no")))]))

    def test_recording_without_an_end_is_refused(self) -> None:
        with pytest.raises(NotPossibleHere) as refused:
            list(RecordedCalls().read([frame(head_frame(HEAD))]))

        assert "ended early" in refused.value.one_line()

    @pytest.mark.parametrize(
        "piece", [b"\0" * 5, b"\xff\xff\xff\x0f" + bytes(12), call("cudaMemcpy", 1, 2)[:-8], bytes(16)]
    )
    def test_piece_that_is_damaged_is_refused(self, piece: bytes) -> None:
        with pytest.raises(NotPossibleHere) as refused:
            read(piece)

        assert refused.value.one_line() == "the recording is damaged"

    def test_piece_before_the_head_is_refused(self) -> None:
        with pytest.raises(NotPossibleHere):
            list(RecordedCalls().read([(FrameKind.PIECE, b"")]))
