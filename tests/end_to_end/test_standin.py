"""The stand-in GPU: symbols, computed times, memory, capture."""

from __future__ import annotations

import ctypes
import os
import re
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.standin_gpu import MS, NOT_READY, Gpu, output

pytestmark = [pytest.mark.end_to_end, pytest.mark.usefixtures("build")]
BUSY = 2000 * MS  # a kernel that outlasts whatever keeps this test from enqueuing more behind it
SLOW = """
import os, sys
from pathlib import Path
from tests.support.standin_gpu import MS, Gpu

gpu = Gpu(Path(sys.argv[1]))
stream = gpu.stream()
gpu.launch(stream, 2000 * MS)
start = gpu.recorded(stream)
gpu.launch(stream, 10 * MS)
print(gpu.between_ns(start, gpu.recorded(stream)), flush=True)
os._exit(0)  # without a wait for the kernels
"""


class TestSymbols:
    """Names, versions and linkage that tools rely on."""

    def test_runtime_symbols_carry_the_real_version_node(self, build: Path) -> None:
        """Every exported function of the runtime is NAME@@libcudart.so.12, as in NVIDIA's."""
        names = re.findall(r" T (\S+)", output("nm", "-D", "--defined-only", str(build / "libcudart.so.12")))

        assert len(names) > 60
        assert [name for name in names if not name.endswith("@@libcudart.so.12")] == []

    @pytest.mark.parametrize(
        "name", ["libcuda.so.1", "libcudart.so.12", "libnccl.so.2", "libtorch_cuda.so", "libnvidia-ml.so.1"]
    )
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

    def test_kernels_take_exactly_their_set_time(self, gpu: Gpu) -> None:
        """3 ms and 4 ms behind a kernel that keeps the stream busy: 7 ms, whatever load the machine has."""
        stream = gpu.stream()
        gpu.launch(stream, BUSY)
        start = gpu.recorded(stream)
        gpu.launch(stream, 3 * MS)
        gpu.launch(stream, 4 * MS)

        assert gpu.elapsed_ns(start, gpu.recorded(stream)) == 7 * MS

    def test_a_pinned_copy_takes_a_microsecond_and_its_bytes(self, gpu: Gpu) -> None:
        """25 MB at 25,000 bytes per microsecond: 1,001 microseconds."""
        stream, device = gpu.stream(), gpu.memory(25_000_000)
        host = gpu.memory(25_000_000, "cudaHostAlloc")
        gpu.launch(stream, BUSY)
        start = gpu.recorded(stream)
        gpu.copy(device, host, 25_000_000, 1, stream)

        assert gpu.between_ns(start, gpu.recorded(stream)) == 1_001_000

    def test_small_copies_move_their_bytes(self, gpu: Gpu) -> None:
        """The bytes copied to the device come back."""
        stream, device = gpu.stream(), gpu.memory(16)
        back = ctypes.create_string_buffer(5)
        gpu.copy(device, ctypes.create_string_buffer(b"loss"), 5, 1, stream)
        gpu.copy(back, device, 5, 2, stream)

        assert back.value == b"loss"

    def test_a_stream_waits_for_the_event_of_another(self, gpu: Gpu) -> None:
        """Work behind the wait starts when the event's work has ended."""
        first, second = gpu.stream(), gpu.stream()
        gpu.launch(first, BUSY)
        event = gpu.recorded(first)
        gpu("cudaStreamWaitEvent", second, event, 0)
        gpu.launch(second, 5 * MS)

        assert gpu.stream_end_ns(second) == gpu.stream_end_ns(first) + 5 * MS

    def test_the_legacy_stream_waits_for_blocking_streams_only(self, gpu: Gpu) -> None:
        """Stream 0 starts after a blocking stream's work, and beside a non-blocking one's."""
        gpu("cudaDeviceSynchronize")
        blocking, non_blocking = gpu.stream(0), gpu.stream(1)
        gpu.launch(blocking, BUSY)
        gpu.launch(non_blocking, 2 * BUSY)
        gpu.launch(None, 5 * MS)

        assert gpu.stream_end_ns(None) == gpu.stream_end_ns(blocking) + 5 * MS

    def test_a_blocking_wait_sleeps_until_the_end(self, gpu: Gpu) -> None:
        """A kernel of 500 ms takes 500 ms of wall time, in which the thread gives up its CPU."""
        stream = gpu.stream()
        switches, start_ns = resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw, time.monotonic_ns()
        gpu.launch(stream, 500 * MS)
        gpu("cudaStreamSynchronize", stream)

        assert time.monotonic_ns() - start_ns >= 500 * MS
        assert resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw > switches

    def test_an_event_is_not_ready_before_its_work_has_ended(self, gpu: Gpu) -> None:
        """600 at first, 0 after waiting for it."""
        stream = gpu.stream()
        gpu.launch(stream, BUSY)
        early = gpu.recorded(stream)

        assert gpu.code("cudaEventQuery", early) == NOT_READY
        gpu("cudaEventSynchronize", early)
        assert gpu.code("cudaEventQuery", early) == 0

    def test_a_pinned_copy_returns_at_once_and_a_pageable_one_when_it_has_arrived(self, gpu: Gpu) -> None:
        """Behind a long kernel, a copy to pageable memory returns with nothing left to do."""
        stream, device = gpu.stream(), gpu.memory(4096)
        gpu.launch(stream, BUSY)
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

    def test_memory_is_limited(self, gpu: Gpu) -> None:
        """50 GiB of 80 fit once; the second allocation fails with code 2, and fits when the first is freed."""
        size_bytes = ctypes.c_size_t(50 << 30)
        first, second = ctypes.c_void_p(), ctypes.c_void_p()
        gpu("cudaMalloc", ctypes.byref(first), size_bytes)

        assert gpu.code("cudaMalloc", ctypes.byref(second), size_bytes) == 2
        gpu("cudaFree", first)
        assert gpu.code("cudaMalloc", ctypes.byref(second), size_bytes) == 0
        gpu("cudaFree", second)

    def test_a_slower_gpu_takes_longer_by_the_factor(self, build: Path) -> None:
        """STANDIN_GPU_SLOWDOWN=4 makes 10 ms of kernels 40, behind a kernel that keeps the stream busy."""
        environment = {**os.environ, "STANDIN_GPU_SLOWDOWN": "4"}
        done = subprocess.run(
            [sys.executable, "-c", SLOW, build], env=environment, capture_output=True, text=True, check=True
        )

        assert int(done.stdout) == 40 * MS


class TestModules:
    """Code that a compiler's runtime loads."""

    def test_the_timed_kernel_of_a_module_takes_its_set_time(self, gpu: Gpu) -> None:
        """5 ms behind a kernel that keeps the stream busy."""
        module, kernel, stream = ctypes.c_void_p(), ctypes.c_void_p(), gpu.stream()
        duration = ctypes.c_uint64(5 * MS)
        arguments = (ctypes.c_void_p * 1)(ctypes.addressof(duration))

        assert gpu.cuda.cuModuleLoadData(ctypes.byref(module), b"code") == 0
        assert gpu.cuda.cuModuleGetFunction(ctypes.byref(kernel), module, b"standin_timed_kernel") == 0
        gpu.launch(stream, BUSY)
        start = gpu.recorded(stream)
        assert gpu.cuda.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, arguments, None) == 0
        assert gpu.between_ns(start, gpu.recorded(stream)) == 5 * MS

    def test_another_kernel_has_a_handle_of_its_own(self, gpu: Gpu) -> None:
        """It can be launched, and the module is unloaded afterwards."""
        module, kernel, timed = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()

        assert gpu.cuda.cuModuleLoadDataEx(ctypes.byref(module), b"code", 0, None, None) == 0
        assert gpu.cuda.cuModuleGetFunction(ctypes.byref(kernel), module, b"softmax") == 0
        assert gpu.cuda.cuModuleGetFunction(ctypes.byref(timed), module, b"standin_timed_kernel") == 0
        assert kernel.value not in (None, timed.value)
        assert gpu.cuda.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, gpu.stream(), None, None) == 0
        assert gpu.cuda.cuModuleUnload(module) == 0


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

    def test_captured_work_does_not_run(self, gpu: Gpu) -> None:
        """A second of kernel is captured and the stream is idle; launched, the graph takes its second."""
        stream, other = gpu.stream(), gpu.stream()
        graph = self.capture(gpu, stream, lambda: gpu.launch(stream, 1000 * MS))

        assert gpu.code("cudaStreamQuery", stream) == 0
        gpu.launch(other, BUSY)
        before_ns = gpu.stream_end_ns(other)
        gpu("cudaGraphLaunch", graph, other)
        assert gpu.stream_end_ns(other) == before_ns + 1000 * MS

    def test_a_graph_is_as_slow_as_the_gpu_when_it_is_launched(self, gpu: Gpu) -> None:
        """3 ms at full speed when they are captured; launched on a GPU of half the speed: 6 ms."""
        stream = gpu.stream()
        graph = self.capture(gpu, stream, lambda: gpu.launch(stream, 3 * MS))
        gpu.launch(stream, BUSY)
        start = gpu.recorded(stream)
        gpu.cuda.standin_set_slowdown(ctypes.c_double(2.0))
        gpu("cudaGraphLaunch", graph, stream)
        gpu.cuda.standin_set_slowdown(ctypes.c_double(1.0))

        assert gpu.between_ns(start, gpu.recorded(stream)) == 6 * MS

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
        gpu.launch(stream, BUSY)
        start = gpu.recorded(stream)
        gpu("cudaGraphLaunch", graph, stream)

        assert gpu.between_ns(start, gpu.recorded(stream)) == 35 * MS

    def test_synchronising_a_capturing_stream_is_an_error(self, gpu: Gpu) -> None:
        """Code 900, and the capture can be ended."""
        stream, graph = gpu.stream(), ctypes.c_void_p()
        gpu("cudaStreamBeginCapture", stream, 1)

        assert gpu.code("cudaStreamSynchronize", stream) == 900
        gpu("cudaStreamEndCapture", stream, ctypes.byref(graph))
