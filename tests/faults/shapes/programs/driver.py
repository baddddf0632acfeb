"""The GPU as a compiler's runtime uses it: the entry points of libcuda.so.1 alone, called through ctypes."""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager

from gpu import LARGEST_BATCH, CudaError, kernel_arguments

BLOCK = 4  # CU_CTX_SCHED_BLOCKING_SYNC
_CAPTURE_THREAD_LOCAL = 1
_NON_BLOCKING = 1


class Driver:
    """A device, with what faults from inside use of gpu.Gpu, under the same names. Addresses are integers."""

    def __init__(self, device: int = 0) -> None:
        self.library = ctypes.CDLL("libcuda.so.1")
        self.scale = self.batch = 1.0
        self.busy_ns = 0
        self.library.standin_set_slowdown.argtypes = (ctypes.c_double,)
        self.library.standin_set_delay.argtypes = (ctypes.c_char_p, ctypes.c_int64)
        self.call("cuInit", 0)
        self.call("cuDevicePrimaryCtxSetFlags_v2", device, BLOCK)
        context = ctypes.c_void_p()
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.call("cuCtxSetCurrent", context)
        self.kernel = self.function(self.module())

    def call(self, name: str, *arguments: object) -> None:
        """A call that must succeed."""
        code = getattr(self.library, name)(*arguments)
        if code:
            raise CudaError(f"{name}: {code}")

    def module(self) -> ctypes.c_void_p:
        """A module of compiled code."""
        made = ctypes.c_void_p()
        self.call("cuModuleLoadData", ctypes.byref(made), b"\x7fELF")
        return made

    def function(self, module: ctypes.c_void_p) -> ctypes.c_void_p:
        """A kernel of a module, whose first argument is its length."""
        made = ctypes.c_void_p()
        self.call("cuModuleGetFunction", ctypes.byref(made), module, b"standin_timed_kernel")
        return made

    def launch(self, microseconds: float, stream: ctypes.c_void_p | None = None, count: int = 1) -> None:
        """So many kernels of this length."""
        duration_ns = int(microseconds * self.scale * 10) * 100
        arguments = kernel_arguments(duration_ns)
        for _ in range(count):
            self.call("cuLaunchKernel", self.kernel, 256, 1, 1, 256, 1, 1, 0, stream, arguments, None)
        self.busy_ns += duration_ns * count

    def memory(self, size_bytes: int) -> ctypes.c_void_p:
        """Memory of the GPU."""
        made = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(made), ctypes.c_size_t(size_bytes))
        return ctypes.c_void_p(made.value)

    def free(self, memory: ctypes.c_void_p) -> None:
        """Free memory of the GPU."""
        self.call("cuMemFree_v2", memory)

    def pinned(self, size_bytes: int) -> ctypes.c_void_p:
        """Pinned memory of the host."""
        made = ctypes.c_void_p()
        self.call("cuMemHostAlloc", ctypes.byref(made), ctypes.c_size_t(size_bytes), 0)
        return made

    def copy_in(self, to: ctypes.c_void_p, source: ctypes.c_void_p, size_bytes: int, stream: ctypes.c_void_p) -> None:
        """To the GPU, asynchronously. Both have room for LARGEST_BATCH times as much."""
        copied_bytes = round(size_bytes * min(self.batch, LARGEST_BATCH))
        self.call("cuMemcpyHtoDAsync_v2", to, source, ctypes.c_size_t(copied_bytes), stream)

    def copy_out(self, to: ctypes.c_void_p, source: ctypes.c_void_p, size_bytes: int, stream: ctypes.c_void_p) -> None:
        """To the host, asynchronously."""
        self.call("cuMemcpyDtoHAsync_v2", to, source, ctypes.c_size_t(size_bytes), stream)

    def copy_in_and_wait(self, to: ctypes.c_void_p, source: int, size_bytes: int) -> None:
        """To the GPU, synchronously."""
        self.call("cuMemcpyHtoD_v2", to, ctypes.c_void_p(source), ctypes.c_size_t(size_bytes))

    def stream(self) -> ctypes.c_void_p:
        """A new non-blocking stream."""
        made = ctypes.c_void_p()
        self.call("cuStreamCreate", ctypes.byref(made), _NON_BLOCKING)
        return made

    def destroy_stream(self, stream: ctypes.c_void_p) -> None:
        """Close a stream."""
        self.call("cuStreamDestroy_v2", stream)

    def event(self) -> ctypes.c_void_p:
        """A new event."""
        made = ctypes.c_void_p()
        self.call("cuEventCreate", ctypes.byref(made), 2)
        return made

    @contextmanager
    def captured(self, stream: ctypes.c_void_p, graph: ctypes.c_void_p) -> Iterator[None]:
        """Work that the block enqueues on the stream becomes the executable graph."""
        self.call("cuStreamBeginCapture_v2", stream, _CAPTURE_THREAD_LOCAL)
        yield
        plan = ctypes.c_void_p()
        self.call("cuStreamEndCapture", stream, ctypes.byref(plan))
        self.call("cuGraphInstantiateWithFlags", ctypes.byref(graph), plan, ctypes.c_ulonglong(0))
        self.call("cuGraphDestroy", plan)

    def destroy_graph(self, graph: ctypes.c_void_p) -> None:
        """Free an executable graph."""
        self.call("cuGraphExecDestroy", graph)

    def slow_down(self, factor: float) -> None:
        """All work that is enqueued from now on takes this much longer."""
        self.library.standin_set_slowdown(factor)

    def delay(self, function: str, seconds: float) -> None:
        """Each later call of a driver function, named without _v2, computes for this long."""
        self.library.standin_set_delay(function.encode(), round(seconds * 1e9))
