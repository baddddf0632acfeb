"""The stand-in GPU in a test's own process, and its programs run to their end."""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import gpustall_standin as standin
from tests.support.patience import PATIENCE_SECONDS

MS = 1_000_000
NOT_READY = 600


def built() -> Path:
    """The build folder; builds when something is missing."""
    if not standin.is_built():
        subprocess.run(["make", "-s", "-C", str(standin.source_dir())], check=True, capture_output=True)
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
        timeout=PATIENCE_SECONDS,
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


class CallError(Exception):
    """A call that must succeed returned something else than 0."""


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
        code = self.code(name, *arguments)
        if code:
            raise CallError(f"{name}: {code}")

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

    def between_ns(self, start: ctypes.c_void_p, end: ctypes.c_void_p) -> int:
        """From one event to another, as the model has computed it: neither has to be over."""
        return int(self.cuda.standin_event_end_ns(end) - self.cuda.standin_event_end_ns(start))

    def elapsed_ns(self, start: ctypes.c_void_p, end: ctypes.c_void_p) -> int:
        """Rounded to microseconds: the API's float of milliseconds has no more."""
        self("cudaEventSynchronize", end)
        milliseconds = ctypes.c_float()
        self("cudaEventElapsedTime", ctypes.byref(milliseconds), start, end)
        return round(milliseconds.value * 1000) * 1000
