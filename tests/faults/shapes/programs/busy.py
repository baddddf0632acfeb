"""Faults in which the program computes, allocates or copies: classes with step(seconds) and close()."""

import ctypes
import gc
import hashlib
import time

from gpu import Gpu
from second_thread import SecondThread

PAGEABLE_BYTES_PER_SECOND = 6e9  # tests/standin/src/driver/copy.c
_GARBAGE_OBJECTS = 10_000


def compute(seconds: float) -> None:
    """In the interpreter."""
    end = time.monotonic() + seconds
    total = 0
    while time.monotonic() < end:
        for number in range(200):
            total += number * number % 7


def compute_without_interpreter(seconds: float) -> None:
    """In C, without the interpreter's lock."""
    end, data = time.monotonic() + seconds, bytes(64 << 10)
    while time.monotonic() < end:
        hashlib.sha256(data).digest()


class Computation:
    """Python code that takes its time."""

    def step(self, seconds: float) -> None:
        compute(seconds)

    def close(self) -> None:
        """Nothing is left."""


class Collections:
    """The garbage collector looks through many objects, again and again."""

    def __init__(self) -> None:
        gc.freeze()  # the libraries' objects, of which there are a different number in each program
        self._objects = [[number] for number in range(_GARBAGE_OBJECTS)]

    def step(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            gc.collect()

    def close(self) -> None:
        self._objects.clear()
        gc.unfreeze()


class InterpreterLock(SecondThread):
    """Another thread makes one long call in C that keeps the interpreter's lock, such as json.dumps() of something large."""

    def __init__(self) -> None:
        count = 1_000_000
        start = time.monotonic()
        sum(range(count))
        self._per_second = count / (time.monotonic() - start)
        super().__init__("metrics")

    def act(self, seconds: float) -> None:
        numbers = range(int(seconds * self._per_second))
        self.begun.set()
        sum(numbers)


class Recompilation:
    """What a compiler does when a shape is new: code is generated, a module loaded, and the graph captured again."""

    _SOURCE = "\n".join(
        f"def kernel_{i}(a, b, c):\n    return (a * {i} + b) // (c + 1) if a else b - c" for i in range(20)
    )

    def __init__(self, gpu: Gpu) -> None:
        self._gpu = gpu
        self._stream = gpu.stream()

    def step(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        graph = ctypes.c_void_p()
        with self._gpu.captured(self._stream, graph):
            self._gpu.launch(1, self._stream, count=20)
        self._gpu.destroy_graph(graph)
        while time.monotonic() < end:
            compile(self._SOURCE, "kernels", "exec")

    def close(self) -> None:
        self._gpu.destroy_stream(self._stream)


class Churn:
    """Memory of the GPU is allocated and freed all the time: a cache that fits badly. A call takes 0.2 ms, as NVIDIA's do."""

    _CALL_SECONDS = 200e-6

    def __init__(self, gpu: Gpu) -> None:
        self._gpu = gpu
        for function in ("cuMemAlloc", "cuMemFree"):
            gpu.delay(function, self._CALL_SECONDS)

    def step(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self._gpu.free(self._gpu.memory(8 << 20))

    def close(self) -> None:
        for function in ("cuMemAlloc", "cuMemFree"):
            self._gpu.delay(function, 0)


class PageableCopy:
    """A batch in memory that is not pinned, and waited for. The stand-in takes only the time of such a copy, not the bytes."""

    _LARGEST_BYTES = 4 << 30

    def __init__(self, gpu: Gpu) -> None:
        self._gpu = gpu
        self._size_bytes = 0
        self._device = gpu.memory(self._LARGEST_BYTES)
        self._host = ctypes.create_string_buffer(64)

    def step(self, seconds: float) -> None:
        self._size_bytes = self._size_bytes or min(int(seconds * PAGEABLE_BYTES_PER_SECOND), self._LARGEST_BYTES)
        size_bytes = max(self._size_bytes, 128 << 10)
        self._gpu.copy_in_and_wait(self._device, ctypes.addressof(self._host), size_bytes)

    def close(self) -> None:
        self._gpu.free(self._device)
