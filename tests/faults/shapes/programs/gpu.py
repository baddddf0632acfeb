"""The GPU as a Python program uses it: the entry points of libcudart.so.12, called through ctypes.

The library is found by LD_LIBRARY_PATH. Times of kernels are microseconds of the stand-in's `timed kernel`.
"""

import ctypes
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache

SPIN, YIELD, BLOCK = 1, 2, 4  # cudaDeviceScheduleSpin, cudaDeviceScheduleYield, cudaDeviceScheduleBlockingSync
TO_DEVICE, TO_HOST = 1, 2
_CAPTURE_THREAD_LOCAL = 1
NOT_READY = 600

LARGEST_BATCH = 4  # for how many times the usual batch there is memory


class Dim3(ctypes.Structure):
    """Sizes of a grid or block."""

    _fields_ = (("x", ctypes.c_uint), ("y", ctypes.c_uint), ("z", ctypes.c_uint))


GRID, BLOCK_SIZE = Dim3(256, 1, 1), Dim3(256, 1, 1)


class CudaError(Exception):
    """A call that did not return 0."""


@lru_cache(maxsize=4096)
def kernel_arguments(duration_ns: int) -> "ctypes.Array[ctypes.c_void_p]":
    """The arguments of a timed kernel. They keep their memory alive."""
    duration = ctypes.c_uint64(duration_ns)
    arguments = (ctypes.c_void_p * 1)(ctypes.addressof(duration))
    arguments.duration = duration
    return arguments


class Gpu:
    """Device 0, or the one of this rank.

    scale, stretch: factors on the length of every kernel launched from now on; a fault from inside sets the scale, the program
    the other. batch: factor on the bytes of a batch. busy_ns: the sum of all kernels launched so far.
    """

    def __init__(self, wait: int = SPIN, device: int = 0) -> None:
        """wait: how a thread waits for the GPU; PyTorch's default is to spin."""
        self.driver = ctypes.CDLL("libcuda.so.1", ctypes.RTLD_GLOBAL)
        self.runtime = ctypes.CDLL("libcudart.so.12", ctypes.RTLD_GLOBAL)
        self.scale = self.stretch = self.batch = 1.0
        self.busy_ns = 0
        self._lock = threading.Lock()
        self._kernel = ctypes.c_void_p(ctypes.addressof(ctypes.c_char.in_dll(self.driver, "standin_timed_kernel_mark")))
        self.driver.standin_set_slowdown.argtypes = (ctypes.c_double,)
        self.driver.standin_set_delay.argtypes = (ctypes.c_char_p, ctypes.c_int64)
        self._launch = self.runtime.cudaLaunchKernel
        self._launch.argtypes = (ctypes.c_void_p, Dim3, Dim3, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)
        for name in ("cudaMemcpyAsync", "cudaMemcpy"):
            function = getattr(self.runtime, name)
            function.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p)[
                : 5 if name.endswith("Async") else 4
            ]
        self.call("cudaSetDevice", device)
        self.call("cudaSetDeviceFlags", wait)

    def call(self, name: str, *arguments: object) -> None:
        """A call of the runtime that must succeed."""
        code = getattr(self.runtime, name)(*arguments)
        if code:
            raise CudaError(f"{name}: {code}")

    def launch(self, microseconds: float, stream: ctypes.c_void_p | None = None, count: int = 1) -> None:
        """So many kernels of this length."""
        duration_ns = int(microseconds * self.scale * self.stretch * 10) * 100
        arguments = kernel_arguments(duration_ns)
        for _ in range(count):
            code = self._launch(self._kernel, GRID, BLOCK_SIZE, arguments, 0, stream)
            if code:
                raise CudaError(f"cudaLaunchKernel: {code}")
        with self._lock:
            self.busy_ns += duration_ns * count

    def memory(self, size_bytes: int) -> ctypes.c_void_p:
        """Memory of the GPU."""
        return self._made("cudaMalloc", ctypes.c_size_t(size_bytes))

    def free(self, memory: ctypes.c_void_p) -> None:
        """Free memory of the GPU."""
        self.call("cudaFree", memory)

    def pinned(self, size_bytes: int) -> ctypes.c_void_p:
        """Pinned memory of the host."""
        return self._made("cudaHostAlloc", ctypes.c_size_t(size_bytes), 0)

    def stream(self) -> ctypes.c_void_p:
        """A new non-blocking stream."""
        return self._made("cudaStreamCreateWithFlags", 1)

    def destroy_stream(self, stream: ctypes.c_void_p) -> None:
        """Close a stream."""
        self.call("cudaStreamDestroy", stream)

    def event(self) -> ctypes.c_void_p:
        """A new event."""
        return self._made("cudaEventCreateWithFlags", 2)

    def timing_event(self) -> ctypes.c_void_p:
        """A new event that has a time."""
        return self._made("cudaEventCreate")

    def elapsed_seconds(self, start: ctypes.c_void_p, end: ctypes.c_void_p) -> float:
        """Between two timing events, which both have passed."""
        milliseconds = ctypes.c_float()
        self.call("cudaEventElapsedTime", ctypes.byref(milliseconds), start, end)
        return milliseconds.value / 1000

    def _made(self, function: str, *arguments: object) -> ctypes.c_void_p:
        made = ctypes.c_void_p()
        self.call(function, ctypes.byref(made), *arguments)
        return made

    def record(self, event: ctypes.c_void_p, stream: ctypes.c_void_p | None = None) -> None:
        """The event stands for the work enqueued so far."""
        self.call("cudaEventRecord", event, stream)

    def wait_event(self, event: ctypes.c_void_p, stream: ctypes.c_void_p | None = None) -> None:
        """Later work of the stream begins after the event."""
        self.call("cudaStreamWaitEvent", stream, event, 0)

    def is_done(self, event: ctypes.c_void_p) -> bool:
        """Whether the work that the event stands for is over."""
        code = self.runtime.cudaEventQuery(event)
        if code not in (0, NOT_READY):
            raise CudaError(f"cudaEventQuery: {code}")
        return code == 0

    def synchronize(self, stream: ctypes.c_void_p | None = None) -> None:
        """Wait for the work of a stream."""
        self.call("cudaStreamSynchronize", stream)

    def copy(
        self, to: int | None, source: int | None, size_bytes: int, kind: int, stream: ctypes.c_void_p | None = None
    ) -> None:
        """An asynchronous copy. to, source: addresses."""
        self.call("cudaMemcpyAsync", to, source, size_bytes, kind, stream)

    def copy_in_and_wait(self, to: ctypes.c_void_p, source: int, size_bytes: int) -> None:
        """A synchronous copy to the GPU. source: an address."""
        self.call("cudaMemcpy", to.value, source, size_bytes, TO_DEVICE)

    @contextmanager
    def captured(self, stream: ctypes.c_void_p, graph: ctypes.c_void_p) -> Iterator[None]:
        """Work that the block enqueues on the stream becomes the executable graph."""
        self.call("cudaStreamBeginCapture", stream, _CAPTURE_THREAD_LOCAL)
        yield
        plan = ctypes.c_void_p()
        self.call("cudaStreamEndCapture", stream, ctypes.byref(plan))
        self.call("cudaGraphInstantiate", ctypes.byref(graph), plan, ctypes.c_ulonglong(0))
        self.call("cudaGraphDestroy", plan)

    def launch_graph(self, graph: ctypes.c_void_p, stream: ctypes.c_void_p | None = None) -> None:
        """Run a captured graph."""
        self.call("cudaGraphLaunch", graph, stream)

    def destroy_graph(self, graph: ctypes.c_void_p) -> None:
        """Free an executable graph."""
        self.call("cudaGraphExecDestroy", graph)

    def slow_down(self, factor: float) -> None:
        """All work that is enqueued from now on takes this much longer."""
        self.driver.standin_set_slowdown(factor)

    def delay(self, function: str, seconds: float) -> None:
        """Each later call of a driver function, named without _v2, computes for this long."""
        self.driver.standin_set_delay(function.encode(), round(seconds * 1e9))


class Buffers:
    """A batch's place on the host and on the GPU, and that of a loss."""

    def __init__(self, gpu: Gpu, batch_bytes: int) -> None:
        self._gpu = gpu
        self._batch_bytes, self._most_bytes = batch_bytes, LARGEST_BATCH * batch_bytes
        self._pinned, self._batch = gpu.pinned(self._most_bytes), gpu.memory(self._most_bytes)
        self._result, self._loss = gpu.pinned(4096), gpu.memory(4096)

    def copy_in(self, size_bytes: int | None = None, stream: ctypes.c_void_p | None = None) -> None:
        """Copy a batch to the GPU from pinned memory. size_bytes: of a smaller one."""
        usual_bytes = min(size_bytes or self._batch_bytes, self._batch_bytes)
        size_bytes = min(round(usual_bytes * self._gpu.batch), self._most_bytes)
        self._gpu.copy(self._batch.value, self._pinned.value, size_bytes, TO_DEVICE, stream)

    def read_back(self, size_bytes: int = 4, stream: ctypes.c_void_p | None = None) -> None:
        """What `loss.item()` does: a copy, and a wait for the stream."""
        self._gpu.copy(self._result.value, self._loss.value, size_bytes, TO_HOST, stream)
        self._gpu.synchronize(stream)
