"""The stand-in's NCCL: when collectives end, and every way to make a communicator."""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Iterator

import pytest

from tests.support.patience import PATIENCE_SECONDS
from tests.support.standin_gpu import MS, NOT_READY, Gpu, UniqueId, counts, run

pytestmark = [pytest.mark.end_to_end, pytest.mark.usefixtures("build")]
BUSY = 2000 * MS  # a kernel that outlasts whatever keeps this test from enqueuing more behind it


class TestCollectives:
    """Ends of collectives and ways to make communicators."""

    @pytest.fixture(autouse=True)
    def one_millisecond(self, gpu: Gpu) -> Iterator[None]:
        """Every collective takes 1 ms."""
        gpu.nccl.standin_set_collective_ns(ctypes.c_uint64(MS))
        yield
        gpu.nccl.standin_set_collective_ns(ctypes.c_uint64(0))

    def test_a_collective_ends_after_the_last_rank_has_arrived(self, gpu: Gpu) -> None:
        """Both streams end 1 ms after the late rank's kernel; until it arrives the end is unknown."""
        comms, early, late = gpu.communicators(2), gpu.stream(), gpu.stream()
        gpu.all_reduce(comms[0], early)

        assert gpu.stream_end_ns(early) == -1
        gpu.launch(late, BUSY)
        kernel_end_ns = gpu.stream_end_ns(late)
        gpu.all_reduce(comms[1], late)
        assert [gpu.stream_end_ns(early), gpu.stream_end_ns(late)] == [kernel_end_ns + MS] * 2

    def test_an_unresolved_collective_is_never_ready(self, gpu: Gpu) -> None:
        """The event after it stays at 600, although its own work is over."""
        comms, stream, other = gpu.communicators(2), gpu.stream(), gpu.stream()
        gpu.all_reduce(comms[0], stream)
        event = gpu.recorded(stream)
        time.sleep(0.05)

        assert gpu.code("cudaEventQuery", event) == NOT_READY
        gpu.all_reduce(comms[1], other)
        gpu("cudaEventSynchronize", event)
        assert gpu.code("cudaEventQuery", event) == 0

    def test_ends_follow_from_ends_that_were_unknown_when_enqueued(self, gpu: Gpu) -> None:
        """Rank 0 enqueues work between two collectives before rank 1 has reached the first."""
        comms, first, second = gpu.communicators(2), gpu.stream(), gpu.stream()
        gpu.all_reduce(comms[0], first)
        gpu.launch(first, BUSY)
        gpu.all_reduce(comms[0], first)
        gpu.all_reduce(comms[1], second)
        between_ns = gpu.stream_end_ns(second)
        gpu.all_reduce(comms[1], second)

        assert gpu.stream_end_ns(first) == gpu.stream_end_ns(second) == between_ns + BUSY + MS

    def test_a_rank_ready_through_another_communicator_is_waited_for(self, gpu: Gpu) -> None:
        """A ready time that peers cannot compute in advance is published as soon as it is known."""
        one, other = gpu.communicators(2), gpu.communicators(2)
        first, second, third = gpu.stream(), gpu.stream(), gpu.stream()
        gpu.all_reduce(one[0], first)
        gpu.all_reduce(other[0], first)
        gpu.all_reduce(other[1], second)
        gpu.all_reduce(one[1], third)
        gpu("cudaStreamSynchronize", second)

        assert gpu.stream_end_ns(second) == gpu.stream_end_ns(first) == gpu.stream_end_ns(third) + MS

    def test_abort_ends_a_wait(self, gpu: Gpu) -> None:
        """A thread that waits for a missing rank returns; the communicator reports ncclSystemError."""
        comms, stream, error = gpu.communicators(2), gpu.stream(), ctypes.c_int()
        gpu.all_reduce(comms[0], stream)
        waiting = threading.Thread(target=gpu.code, args=("cudaStreamSynchronize", stream))
        waiting.start()
        time.sleep(0.05)

        assert waiting.is_alive()
        gpu("ncclCommAbort", ctypes.c_void_p(comms[0]))
        waiting.join(PATIENCE_SECONDS)
        assert not waiting.is_alive()
        gpu("ncclCommGetAsyncError", ctypes.c_void_p(comms[0]), ctypes.byref(error))
        assert error.value == 2

    def test_the_id_is_passed_by_value_and_the_rank_behind_it(self, gpu: Gpu) -> None:
        """A communicator of one rank through the real calling convention of ncclCommInitRank."""
        made, unique_id, count, rank = ctypes.c_void_p(), UniqueId(), ctypes.c_int(), ctypes.c_int(-1)
        gpu("ncclGetUniqueId", ctypes.byref(unique_id))
        gpu("ncclCommInitRank", ctypes.byref(made), 1, unique_id, 0)
        gpu("ncclCommCount", made, ctypes.byref(count))
        gpu("ncclCommUserRank", made, ctypes.byref(rank))

        assert (count.value, rank.value) == (1, 0)

    @pytest.mark.parametrize(
        ("way", "makers"),
        [
            ("init_rank", {"ncclCommInitRank"}),
            ("config", {"ncclCommInitRankConfig"}),
            ("scalable", {"ncclCommInitRankScalable"}),
            ("split", {"ncclCommInitRank", "ncclCommSplit"}),
            ("shrink", {"ncclCommInitRank", "ncclCommShrink"}),
        ],
    )
    def test_every_way_to_make_a_communicator_works_between_processes(self, way: str, makers: set[str]) -> None:
        """Two of three or all three ranks reduce 23 times and send in a ring."""
        finals = run(
            "calls", "--ranks=3", "--sync=block", f"--comm={way}", "ncclAllReduce:23:64", "ncclSend:5:64", "sync:1"
        )
        members = [final for final in finals if "ncclAllReduce" in final["calls"]["nccl"]]

        assert len(members) == (2 if way == "shrink" else 3)
        assert all(makers <= set(final["calls"]["nccl"]) for final in members)
        assert all(
            final["nccl_bytes"] == {"ncclAllReduce": 23 * 64, "ncclSend": 320, "ncclRecv": 320} for final in members
        )

    def test_ranks_can_be_threads(self) -> None:
        """ncclCommInitAll once, then 23 reductions by each of three threads."""
        (final,) = run(
            "calls", "--ranks=3", "--ranks-as=threads", "--comm=all", "--sync=block", "ncclAllReduce:23:64", "sync:1"
        )

        assert counts(final, "nccl")["ncclCommInitAll"] == 1
        assert counts(final, "nccl")["ncclAllReduce"] == 69
