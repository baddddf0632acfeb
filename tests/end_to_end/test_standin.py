"""The stand-in GPU: symbols, computed times, errors, collectives, and the two programs."""

from __future__ import annotations

import ctypes
import json
import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from exporter import standin

pytestmark = pytest.mark.end_to_end

SOURCES = standin.build_dir().parent
NOT_READY = 600
MS = 1_000_000
TIMEOUT_SECONDS = 60


@pytest.fixture(scope="module", autouse=True)
def build() -> Path:
    """The build folder, built when something is missing."""
    if not standin.is_built():
        subprocess.run(["make", "-s", "-C", str(SOURCES)], check=True, capture_output=True)
    return standin.build_dir()


def output(*command: str) -> str:
    """What a tool prints."""
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def run(program: str, *arguments: str, **variables: str) -> list[dict[str, Any]]:
    """The JSON lines a program of the stand-in prints."""
    done = subprocess.run(
        [str(standin.build_dir() / program), *arguments],
        env={**os.environ, **variables},
        check=True,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def counts(final: dict[str, Any], api: str) -> dict[str, int]:
    """Calls by symbol."""
    return {symbol: numbers["count"] for symbol, numbers in final["calls"][api].items()}


class Dim3(ctypes.Structure):
    """Sizes of a grid or block."""

    _fields_ = (("x", ctypes.c_uint), ("y", ctypes.c_uint), ("z", ctypes.c_uint))


class UniqueId(ctypes.Structure):
    """NCCL's 128 bytes, passed by value."""

    _fields_ = (("internal", ctypes.c_char * 128),)


class Gpu:
    """The libraries in this process. Calls that do not return 0 raise, unless made through `code`."""

    def __init__(self, folder: Path) -> None:
        self.cuda = ctypes.CDLL(str(folder / "libcuda.so.1"))
        self.runtime = ctypes.CDLL(str(folder / "libcudart.so.12"))
        self.nccl = ctypes.CDLL(str(folder / "libnccl.so.2"))
        self.cuda.standin_stream_end_ns.restype = ctypes.c_int64
        self.cuda.standin_event_end_ns.restype = ctypes.c_int64
        self._kernel = ctypes.addressof(ctypes.c_char.in_dll(self.cuda, "standin_timed_kernel_mark"))
        self("cudaSetDeviceFlags", 4)

    def code(self, name: str, *arguments: Any) -> int:
        """What the call returns."""
        library = self.nccl if name.startswith("nccl") else self.runtime
        return int(getattr(library, name)(*arguments))

    def __call__(self, name: str, *arguments: Any) -> None:
        """A call that must succeed."""
        assert self.code(name, *arguments) == 0, name

    def stream(self, flags: int = 1) -> ctypes.c_void_p:
        """A new stream, non-blocking unless flags are 0."""
        made = ctypes.c_void_p()
        self("cudaStreamCreateWithFlags", ctypes.byref(made), flags)
        return made

    def event(self) -> ctypes.c_void_p:
        """A new event."""
        made = ctypes.c_void_p()
        self("cudaEventCreate", ctypes.byref(made))
        return made

    def recorded(self, stream: ctypes.c_void_p | None) -> ctypes.c_void_p:
        """A new event behind the stream's work."""
        made = self.event()
        self("cudaEventRecord", made, stream)
        return made

    def memory(self, size_bytes: int, function: str = "cudaMalloc") -> ctypes.c_void_p:
        """Device memory, or pinned with cudaHostAlloc."""
        made = ctypes.c_void_p()
        extra = (0,) if function == "cudaHostAlloc" else ()
        self(function, ctypes.byref(made), ctypes.c_size_t(size_bytes), *extra)
        return made

    def launch(self, stream: ctypes.c_void_p | None, duration_ns: int) -> None:
        """A kernel of this length."""
        duration = ctypes.c_uint64(duration_ns)
        arguments = (ctypes.c_void_p * 1)(ctypes.addressof(duration))
        one = Dim3(1, 1, 1)
        self("cudaLaunchKernel", ctypes.c_void_p(self._kernel), one, one, arguments, ctypes.c_size_t(0), stream)

    def copy(self, to: Any, source: Any, size_bytes: int, kind: int, stream: ctypes.c_void_p) -> None:
        """An asynchronous copy."""
        self("cudaMemcpyAsync", to, source, ctypes.c_size_t(size_bytes), kind, stream)

    def all_reduce(self, comm: Any, stream: ctypes.c_void_p) -> None:
        """A reduction of one float32."""
        self("ncclAllReduce", None, None, ctypes.c_size_t(1), 7, 0, ctypes.c_void_p(comm), stream)

    def communicators(self, count: int) -> Any:
        """All ranks of a communicator, in this process."""
        made = (ctypes.c_void_p * count)()
        self("ncclCommInitAll", made, count, None)
        return made

    def stream_end_ns(self, stream: ctypes.c_void_p | None) -> int:
        """When the stream's work ends, -1 while unknown."""
        return int(self.cuda.standin_stream_end_ns(stream))

    def elapsed_ns(self, start: ctypes.c_void_p, end: ctypes.c_void_p) -> int:
        """Rounded to microseconds: the API's float of milliseconds has no more."""
        self("cudaEventSynchronize", end)
        milliseconds = ctypes.c_float()
        self("cudaEventElapsedTime", ctypes.byref(milliseconds), start, end)
        return round(milliseconds.value * 1000) * 1000


@pytest.fixture(scope="module")
def gpu(build: Path) -> Gpu:
    return Gpu(build)


class TestSymbols:
    """Names, versions and linkage that tools rely on."""

    def test_runtime_symbols_carry_the_real_version_node(self, build: Path) -> None:
        """Every exported function of the runtime is NAME@@libcudart.so.12, as in NVIDIA's."""
        names = re.findall(r" T (\S+)", output("nm", "-D", "--defined-only", str(build / "libcudart.so.12")))

        assert len(names) > 60
        assert [name for name in names if not name.endswith("@@libcudart.so.12")] == []

    @pytest.mark.parametrize("name", ["libcuda.so.1", "libcudart.so.12", "libnccl.so.2", "libtorch_cuda.so"])
    def test_a_library_names_itself_and_has_a_build_id(self, build: Path, name: str) -> None:
        """SONAME is the file's name, and a build-id is there."""
        assert f"soname: [{name}]" in output("readelf", "-d", str(build / name))
        assert "Build ID: " in output("readelf", "-n", str(build / name))

    @pytest.mark.parametrize("name", ["libnccl.so.2", "libtorch_cuda.so"])
    def test_nccl_names_are_weak_aliases_at_the_same_address(self, build: Path, name: str) -> None:
        """ncclX is weak, pncclX is strong, both are one function."""
        found = {
            symbol: (address, kind)
            for address, kind, symbol in re.findall(r"(\S+) ([WT]) (\S+)", output("nm", "-D", str(build / name)))
        }

        assert found["ncclAllReduce"] == (found["pncclAllReduce"][0], "W")
        assert found["ncclCommInitRankScalable"] == (found["pncclCommInitRankScalable"][0], "W")
        assert found["pncclAllReduce"][1] == "T"

    def test_bcast_calls_broadcast_through_the_plt(self, build: Path) -> None:
        """A probe on ncclBroadcast sees ncclBcast as well, as with the real library."""
        assert re.search(r"JUMP_SLO.* ncclBroadcast", output("readelf", "-rW", str(build / "libnccl.so.2")))

    def test_the_static_trainer_has_the_runtime_inside(self, build: Path) -> None:
        """It needs no libcudart.so, and its cudaLaunchKernel is found only in the full symbol table."""
        assert "libcudart" not in output("readelf", "-d", str(build / "trainer-static"))
        assert " cudaLaunchKernel\n" in output("nm", str(build / "trainer-static"))
        assert "cudaLaunchKernel" not in output("nm", "-D", str(build / "trainer-static"))

    @pytest.mark.parametrize(
        ("library", "name"),
        [
            ("libcudart.so.12", "cudaMemcpyAsync_ptsz"),
            ("libcudart.so.12", "cudaMemcpy_ptds"),
            ("libcudart.so.12", "cudaGraphLaunch_ptsz"),
            ("libcuda.so.1", "cuLaunchKernelEx_ptsz"),
            ("libcuda.so.1", "cuMemcpyHtoD_v2_ptds"),
            ("libcuda.so.1", "cuMemcpyDtoHAsync_v2"),
        ],
    )
    def test_variants_for_the_default_stream_per_thread_exist(self, build: Path, library: str, name: str) -> None:
        """Programs compiled with a default stream per thread call these."""
        assert hasattr(ctypes.CDLL(str(build / library)), name)


class TestModel:
    """Computed times, who waits, and memory."""

    def test_kernels_take_exactly_the_time_they_are_told(self, gpu: Gpu) -> None:
        """3 ms and 4 ms behind a kernel that keeps the stream busy: 7 ms, whatever the machine does meanwhile."""
        stream = gpu.stream()
        gpu.launch(stream, 100 * MS)
        start = gpu.recorded(stream)
        gpu.launch(stream, 3 * MS)
        gpu.launch(stream, 4 * MS)

        assert gpu.elapsed_ns(start, gpu.recorded(stream)) == 7 * MS

    def test_a_pinned_copy_takes_a_microsecond_and_its_bytes(self, gpu: Gpu) -> None:
        """25 MB at 25,000 bytes per microsecond: 1,001 microseconds."""
        stream, device = gpu.stream(), gpu.memory(25_000_000)
        host = gpu.memory(25_000_000, "cudaHostAlloc")
        gpu.launch(stream, 100 * MS)
        start = gpu.recorded(stream)
        gpu.copy(device, host, 25_000_000, 1, stream)

        assert gpu.elapsed_ns(start, gpu.recorded(stream)) == 1_001_000

    def test_small_copies_move_their_bytes(self, gpu: Gpu) -> None:
        """What goes to the device comes back."""
        stream, device = gpu.stream(), gpu.memory(16)
        back = ctypes.create_string_buffer(5)
        gpu.copy(device, ctypes.create_string_buffer(b"loss"), 5, 1, stream)
        gpu.copy(back, device, 5, 2, stream)

        assert back.value == b"loss"

    def test_a_stream_waits_for_the_event_of_another(self, gpu: Gpu) -> None:
        """Work behind the wait starts when the event's work has ended."""
        first, second = gpu.stream(), gpu.stream()
        gpu.launch(first, 100 * MS)
        event = gpu.recorded(first)
        gpu("cudaStreamWaitEvent", second, event, 0)
        gpu.launch(second, 5 * MS)

        assert gpu.stream_end_ns(second) == gpu.stream_end_ns(first) + 5 * MS

    def test_the_legacy_stream_waits_for_blocking_streams_only(self, gpu: Gpu) -> None:
        """Stream 0 starts after a blocking stream's work, and beside a non-blocking one's."""
        gpu("cudaDeviceSynchronize")
        blocking, non_blocking = gpu.stream(0), gpu.stream(1)
        gpu.launch(blocking, 100 * MS)
        gpu.launch(non_blocking, 1000 * MS)
        gpu.launch(None, 5 * MS)

        assert gpu.stream_end_ns(None) == gpu.stream_end_ns(blocking) + 5 * MS

    def test_a_blocking_wait_sleeps_until_the_end(self, gpu: Gpu) -> None:
        """50 ms of kernel take 50 ms of clock and next to no CPU."""
        stream = gpu.stream()
        cpu_start_ns, start_ns = time.thread_time_ns(), time.monotonic_ns()
        gpu.launch(stream, 50 * MS)
        gpu("cudaStreamSynchronize", stream)

        assert time.monotonic_ns() - start_ns >= 50 * MS
        assert time.thread_time_ns() - cpu_start_ns < 25 * MS

    def test_an_event_is_not_ready_before_its_work_has_ended(self, gpu: Gpu) -> None:
        """600 at first, 0 after waiting for it."""
        stream = gpu.stream()
        gpu.launch(stream, 1000 * MS)
        early = gpu.recorded(stream)

        assert gpu.code("cudaEventQuery", early) == NOT_READY
        gpu("cudaEventSynchronize", early)
        assert gpu.code("cudaEventQuery", early) == 0

    def test_a_pinned_copy_returns_at_once_and_a_pageable_one_when_it_has_arrived(self, gpu: Gpu) -> None:
        """Behind a kernel of 100 ms, a copy to pageable memory returns with nothing left to do."""
        stream, device = gpu.stream(), gpu.memory(4096)
        gpu.launch(stream, 1000 * MS)
        gpu.copy(gpu.memory(4096, "cudaHostAlloc"), device, 4096, 2, stream)

        assert gpu.code("cudaStreamQuery", stream) == NOT_READY
        gpu.copy(ctypes.create_string_buffer(4096), device, 4096, 2, stream)
        assert gpu.code("cudaStreamQuery", stream) == 0

    def test_destroyed_handles_are_errors(self, gpu: Gpu) -> None:
        """Using a stream or event after its end is code 400, not a crash."""
        stream, event = gpu.stream(), gpu.event()
        gpu("cudaStreamDestroy", stream)
        gpu("cudaEventDestroy", event)

        assert gpu.code("cudaStreamSynchronize", stream) == 400
        assert gpu.code("cudaEventQuery", event) == 400

    def test_memory_has_an_end(self, gpu: Gpu) -> None:
        """50 GiB of 80 fit once; the second allocation fails with code 2, and fits when the first is freed."""
        size_bytes = ctypes.c_size_t(50 << 30)
        first, second = ctypes.c_void_p(), ctypes.c_void_p()
        gpu("cudaMalloc", ctypes.byref(first), size_bytes)

        assert gpu.code("cudaMalloc", ctypes.byref(second), size_bytes) == 2
        gpu("cudaFree", first)
        assert gpu.code("cudaMalloc", ctypes.byref(second), size_bytes) == 0
        gpu("cudaFree", second)

    def test_a_slower_gpu_takes_longer_by_the_factor(self) -> None:
        """STANDIN_GPU_SLOWDOWN=4 makes 10 ms of kernels 40."""
        (final,) = run("calls", "sync:1:10ms", STANDIN_GPU_SLOWDOWN="4")

        assert final["calls"]["runtime"]["cudaStreamSynchronize"]["sum_ns"] >= 39 * MS


class TestCapture:
    """Capture and graphs."""

    def capture(self, gpu: Gpu, stream: ctypes.c_void_p, work: Callable[[], None]) -> ctypes.c_void_p:
        """An executable graph of the work."""
        graph, made = ctypes.c_void_p(), ctypes.c_void_p()
        gpu("cudaStreamBeginCapture", stream, 1)
        work()
        gpu("cudaStreamEndCapture", stream, ctypes.byref(graph))
        gpu("cudaGraphInstantiate", ctypes.byref(made), graph, ctypes.c_ulonglong(0))
        return made

    def test_captured_work_is_not_carried_out(self, gpu: Gpu) -> None:
        """An hour of kernel is captured and the stream is idle; launched, the graph takes its hour."""
        stream, other = gpu.stream(), gpu.stream()
        graph = self.capture(gpu, stream, lambda: gpu.launch(stream, 3_600_000 * MS))

        assert gpu.code("cudaStreamQuery", stream) == 0
        gpu("cudaGraphLaunch", graph, other)
        assert gpu.stream_end_ns(other) - time.monotonic_ns() > 3_500_000 * MS

    def test_branches_of_a_graph_run_beside_each_other(self, gpu: Gpu) -> None:
        """30 ms beside 20 ms, joined, then 5 ms: 35 ms."""
        stream, branch = gpu.stream(), gpu.stream()

        def work() -> None:
            fork, join = gpu.event(), gpu.event()
            gpu("cudaEventRecord", fork, stream)
            gpu("cudaStreamWaitEvent", branch, fork, 0)
            gpu.launch(branch, 20 * MS)
            gpu("cudaEventRecord", join, branch)
            gpu.launch(stream, 30 * MS)
            gpu("cudaStreamWaitEvent", stream, join, 0)
            gpu.launch(stream, 5 * MS)

        graph = self.capture(gpu, stream, work)
        gpu.launch(stream, 100 * MS)
        start = gpu.recorded(stream)
        gpu("cudaGraphLaunch", graph, stream)

        assert gpu.elapsed_ns(start, gpu.recorded(stream)) == 35 * MS

    def test_synchronising_a_capturing_stream_is_an_error(self, gpu: Gpu) -> None:
        """Code 900, and the capture can be ended."""
        stream, graph = gpu.stream(), ctypes.c_void_p()
        gpu("cudaStreamBeginCapture", stream, 1)

        assert gpu.code("cudaStreamSynchronize", stream) == 900
        gpu("cudaStreamEndCapture", stream, ctypes.byref(graph))


class TestCollectives:
    """Ends of collectives and ways to make communicators."""

    @pytest.fixture(autouse=True)
    def one_millisecond(self, gpu: Gpu) -> Iterator[None]:
        """Every collective takes 1 ms."""
        gpu.nccl.standin_set_collective_ns(ctypes.c_uint64(MS))
        yield
        gpu.nccl.standin_set_collective_ns(ctypes.c_uint64(0))

    def test_a_collective_ends_when_the_last_rank_has_come(self, gpu: Gpu) -> None:
        """Both streams end 1 ms after the late rank's kernel; until it comes the end is unknown."""
        comms, early, late = gpu.communicators(2), gpu.stream(), gpu.stream()
        gpu.all_reduce(comms[0], early)

        assert gpu.stream_end_ns(early) == -1
        gpu.launch(late, 100 * MS)
        kernel_end_ns = gpu.stream_end_ns(late)
        gpu.all_reduce(comms[1], late)
        assert [gpu.stream_end_ns(early), gpu.stream_end_ns(late)] == [kernel_end_ns + MS] * 2

    def test_an_unresolved_collective_is_never_ready(self, gpu: Gpu) -> None:
        """The event behind it stays at 600 although no time is left to pass."""
        comms, stream, other = gpu.communicators(2), gpu.stream(), gpu.stream()
        gpu.all_reduce(comms[0], stream)
        event = gpu.recorded(stream)
        time.sleep(0.05)

        assert gpu.code("cudaEventQuery", event) == NOT_READY
        gpu.all_reduce(comms[1], other)
        gpu("cudaEventSynchronize", event)
        assert gpu.code("cudaEventQuery", event) == 0

    def test_ends_follow_from_ends_that_were_unknown_when_enqueued(self, gpu: Gpu) -> None:
        """Rank 0 enqueues 10 ms of work between two collectives before rank 1 has come to the first."""
        comms, first, second = gpu.communicators(2), gpu.stream(), gpu.stream()
        gpu.all_reduce(comms[0], first)
        gpu.launch(first, 10 * MS)
        gpu.all_reduce(comms[0], first)
        gpu.all_reduce(comms[1], second)
        between_ns = gpu.stream_end_ns(second)
        gpu.all_reduce(comms[1], second)

        assert gpu.stream_end_ns(first) == gpu.stream_end_ns(second) == between_ns + 11 * MS

    def test_a_rank_ready_through_another_communicator_is_waited_for(self, gpu: Gpu) -> None:
        """What cannot be said to peers in advance is resolved when it is known."""
        one, other = gpu.communicators(2), gpu.communicators(2)
        first, second, third = gpu.stream(), gpu.stream(), gpu.stream()
        gpu.all_reduce(one[0], first)
        gpu.all_reduce(other[0], first)
        gpu.all_reduce(other[1], second)
        gpu.all_reduce(one[1], third)
        gpu("cudaStreamSynchronize", second)

        assert gpu.stream_end_ns(second) == gpu.stream_end_ns(first) == gpu.stream_end_ns(third) + MS

    def test_abort_ends_a_wait(self, gpu: Gpu) -> None:
        """A thread that waits for a rank that never comes is let go; the communicator reports ncclSystemError."""
        comms, stream, error = gpu.communicators(2), gpu.stream(), ctypes.c_int()
        gpu.all_reduce(comms[0], stream)
        waiting = threading.Thread(target=gpu.code, args=("cudaStreamSynchronize", stream))
        waiting.start()
        time.sleep(0.05)

        assert waiting.is_alive()
        gpu("ncclCommAbort", ctypes.c_void_p(comms[0]))
        waiting.join(TIMEOUT_SECONDS)
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


class TestCalls:
    """The program that makes exactly the calls it is told to."""

    def test_the_calls_asked_for_are_made_and_reported(self) -> None:
        """23 copies of 65,536 bytes, 5 allocations, and nothing else after the preparation."""
        (final,) = run("calls", "memcpy_h2d:23:65536", "cudaMalloc:5:4096")

        assert counts(final, "runtime") == {"cudaMalloc": 5, "cudaMemcpyAsync": 23}
        assert final["bytes"] == {"h2h": 0, "h2d": 23 * 65536, "d2h": 0, "d2d": 0}

    def test_times_are_at_least_the_kernels_waited_for(self) -> None:
        """23 waits for 2 ms each."""
        (final,) = run("calls", "--sync=block", "sync:23:2ms")

        assert counts(final, "runtime") == {"cudaLaunchKernel": 23, "cudaStreamSynchronize": 23}
        # A launch ends before its kernel begins to be waited for: a tenth is left for slow machines.
        assert final["calls"]["runtime"]["cudaStreamSynchronize"]["sum_ns"] >= 23 * 2 * MS * 9 // 10

    def test_errors_come_on_demand_and_are_counted(self) -> None:
        """The fourth cudaMalloc of the process (two are preparation) and every second reduction's code."""
        (final,) = run("calls", "cudaMalloc:5:4096", STANDIN_FAIL="cudaMalloc:2:4")

        assert final["calls"]["runtime"]["cudaMalloc"]["errors"] == 1

    def test_a_failed_copy_moves_no_bytes(self) -> None:
        """Every driver copy fails: the runtime's calls fail with it and nothing is counted as moved."""
        (final,) = run("calls", "memcpy_h2d:23:64", STANDIN_FAIL="cuMemcpyHtoDAsync:719:*")

        assert final["calls"]["runtime"]["cudaMemcpyAsync"]["errors"] == 23
        assert final["bytes"]["h2d"] == 0

    def test_it_holds_before_and_after(self) -> None:
        """ "ready" names the process; the calls come after the first line, the end after the second."""
        with subprocess.Popen(
            [str(standin.build_dir() / "calls"), "--hold", "launch:3:1us"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as held:
            assert held.stdin is not None
            assert held.stdout is not None
            assert held.stdout.readline() == f"ready {held.pid}\n"
            held.stdin.write("\n")
            held.stdin.flush()
            assert counts(json.loads(held.stdout.readline()), "runtime") == {"cudaLaunchKernel": 3}
            assert held.poll() is None
            held.stdin.write("\n")
        assert held.returncode == 0

    @pytest.mark.parametrize("argument", ["--bogus", "no_such_call:1", "launch", "launch:x"])
    def test_nonsense_is_one_line_and_exit_2(self, build: Path, argument: str) -> None:
        """What cannot be done is said before anything is."""
        done = subprocess.run([str(build / "calls"), argument], capture_output=True, text=True, check=False)

        assert done.returncode == 2
        assert len(done.stderr.splitlines()) == 1


def children(tgid: int) -> list[int]:
    """Processes started by a process, directly."""
    return [int(text) for text in Path(f"/proc/{tgid}/task/{tgid}/children").read_text().split()]


def descendants(tgid: int) -> list[int]:
    """Ranks and their loader workers."""
    return [found for child in children(tgid) for found in [child, *descendants(child)]]


def is_running(tgid: int) -> bool:
    """Neither gone nor a zombie."""
    try:
        return Path(f"/proc/{tgid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_until(condition: Callable[[], bool]) -> bool:
    """The condition's last answer, at most a minute later."""
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.01)
    return condition()


def shared_memory_files() -> list[str]:
    """What communicators left behind."""
    return [path.name for path in Path("/dev/shm").glob("standin-nccl-*")]


class Training:
    """A trainer that has made its first step."""

    def __init__(self, *flags: str) -> None:
        self.process = subprocess.Popen(
            [str(standin.build_dir() / "trainer"), "--sync=block", "--kernel-us=20", "--backward-kernel-us=20", *flags],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        self.first = json.loads(self.process.stdout.readline())
        self.everyone = descendants(self.process.pid)

    def rest(self) -> list[dict[str, Any]]:
        """All lines after the first, once it has ended."""
        assert self.process.stdout is not None
        with self.process:
            return [json.loads(line) for line in self.process.stdout]


class TestTrainer:
    """The stand-in training job."""

    SHORT = ("--sync=block", "--kernel-us=5", "--backward-kernel-us=5", "--loader-compute-us=50")

    @pytest.mark.parametrize("program", ["trainer", "trainer-static", "trainer-torch"])
    def test_the_same_seed_makes_the_same_calls(self, program: str) -> None:
        """Every count is repeatable except those of the watchdog, which follow the clock."""
        by_clock = {"cudaEventQuery", "ncclCommGetAsyncError", "cudaEventRecord"}
        flags = (*self.SHORT, "--steps=20", "--evaluate-every=5", "--jitter-percent=30", "--quiet")

        def made() -> list[dict[str, int]]:
            finals = sorted(run(program, *flags), key=lambda final: int(final["rank"]))
            return [
                {
                    symbol: count
                    for api in ("runtime", "nccl")
                    for symbol, count in counts(final, api).items()
                    if symbol not in by_clock
                }
                for final in finals
            ]

        first = made()
        assert len(first) == 2
        assert first[0]["cudaMemcpyAsync"] == 20 + 20 + 4
        assert first[0]["ncclAllReduce"] == 80
        assert made() == first

    def test_it_uses_most_of_what_is_hooked(self) -> None:
        """At least 25 different runtime operations and 8 of NCCL."""
        final = run("trainer", *self.SHORT, "--steps=20", "--evaluate-every=10", "--quiet", "--watchdog-ms=1")[0]

        assert len(final["calls"]["runtime"]) >= 25
        assert len(final["calls"]["nccl"]) >= 8

    def test_every_step_tells_the_truth_about_its_end(self) -> None:
        """The GPU ends between the start of the wait and its return, and the delay is what lies behind the end."""
        lines = run("trainer", *self.SHORT, "--steps=5", "--ranks=2")
        steps = [line for line in lines if line["type"] == "step"]

        assert sorted((line["rank"], line["step"]) for line in steps) == [(r, s) for r in (0, 1) for s in range(1, 6)]
        for line in steps:
            assert line["start_ns"] <= line["sync_start_ns"] <= line["sync_return_ns"] <= line["end_ns"]
            assert line["gpu_end_ns"] <= line["sync_return_ns"]
            assert line["delay_ns"] == line["sync_return_ns"] - max(line["gpu_end_ns"], line["sync_start_ns"])

    def test_a_straggler_delays_the_others(self) -> None:
        """Rank 1 sleeps 30 ms in each step; rank 0 waits as long for its GPU."""
        lines = run("trainer", *self.SHORT, "--steps=5", "--straggler-rank=1", "--straggler-us=30000")
        steps = [line for line in lines if line["type"] == "step" and line["rank"] == 0 and line["step"] > 1]

        assert all(line["end_ns"] - line["start_ns"] >= 25 * MS for line in steps)

    def test_threads_and_processes_are_named_as_pytorch_names_them(self) -> None:
        """Step thread and autograd, watchdog, pin-memory threads; two loader workers."""
        training = Training("--ranks=1")
        (rank,) = children(training.process.pid)
        names = sorted(path.read_text().strip() for path in Path(f"/proc/{rank}/task").glob("*/comm"))
        workers = [Path(f"/proc/{child}/comm").read_text().strip() for child in children(rank)]
        training.process.terminate()
        training.rest()

        assert names == ["pin_memory", "pt_autograd_0", "pt_nccl_watchdg", "trainer"]
        assert workers == ["pt_data_worker", "pt_data_worker"]

    @pytest.mark.parametrize(("where", "seen"), [("env", ["RANK=0", "WORLD_SIZE=1"]), ("nccl", [])])
    def test_the_rank_is_in_the_environment_only_when_asked(self, where: str, seen: list[str]) -> None:
        """--rank-from=nccl leaves the communicator as the only source."""
        training = Training("--ranks=1", f"--rank-from={where}")
        (rank,) = children(training.process.pid)
        variables = Path(f"/proc/{rank}/environ").read_text().split("\0")
        training.process.terminate()
        training.rest()

        assert sorted(text for text in variables if text.startswith(("RANK=", "WORLD_SIZE="))) == seen

    def test_sigterm_ends_everyone_and_each_rank_reports(self) -> None:
        """Exit code 0, a final line for each rank, no process and no file in shared memory left."""
        training = Training("--ranks=3")
        assert len(training.everyone) == 9
        training.process.terminate()
        finals = [line for line in training.rest() if line["type"] == "final"]

        assert training.process.returncode == 0
        assert sorted(final["rank"] for final in finals) == [0, 1, 2]
        assert wait_until(lambda: not any(map(is_running, training.everyone)))
        assert shared_memory_files() == []

    def test_sigkill_of_the_parent_ends_everyone(self) -> None:
        """Neither ranks nor workers outlive it, and no file is left."""
        training = Training("--ranks=2")
        training.process.kill()
        training.rest()

        assert wait_until(lambda: not any(map(is_running, training.everyone)))
        assert shared_memory_files() == []

    def test_a_rank_that_never_comes_hangs_the_others(self) -> None:
        """Rank 1 stops before the backward pass of step 5: nobody finishes it."""
        training = Training("--ranks=2", "--hang-rank=1", "--hang-step=5")
        time.sleep(1)
        training.process.send_signal(signal.SIGINT)
        lines = training.rest()

        assert [line["steps"] for line in lines if line["type"] == "final"] == [4, 4]
        assert max(line["step"] for line in lines if line["type"] == "step") == 4

    def test_ranks_started_apart_find_each_other(self, tmp_path: Path) -> None:
        """With --id-file each rank is a process of its own, wherever it was started."""
        flags = (*self.SHORT, "--quiet", "--steps=3", "--world-size=2", f"--id-file={tmp_path / 'id'}")
        with subprocess.Popen(
            [str(standin.build_dir() / "trainer"), *flags, "--rank=1"], stdout=subprocess.PIPE
        ) as peer:
            (final,) = run("trainer", *flags, "--rank=0")
            peer.communicate(timeout=TIMEOUT_SECONDS)

        assert (final["rank"], final["steps"], peer.returncode) == (0, 3, 0)

    def test_an_unknown_flag_is_one_line_and_exit_2(self, build: Path) -> None:
        """The line names the flag."""
        done = subprocess.run([str(build / "trainer"), "--bogus=1"], capture_output=True, text=True, check=False)

        assert done.returncode == 2
        assert "--bogus=1: unknown flag" in done.stderr
        assert len(done.stderr.splitlines()) == 1
