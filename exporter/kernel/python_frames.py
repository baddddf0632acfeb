"""Python frames of a thread, and memory of its process, as kernel programs read them.

In: a loaded Kernel, the layouts of interpreters, a tid. Out: addresses of code objects and instructions; bytes.
Partner in C: bpf/python.bpf.c.
"""

from __future__ import annotations

from typing import NamedTuple

from exporter.errors import KernelRefused, NotReadable
from exporter.kernel import abi
from exporter.kernel.abi import PythonStatus
from exporter.kernel.loader import Kernel

WALK = "python_walk"
READ = "python_read"

_HEAD = abi.PYTHON_ROW.part("tid", "frame_count")
_FRAMES_AT = abi.PYTHON_ROW.offset("frames")
_ENTRIES = abi.PYTHON_ROW.part("entries")
_ENTRIES_AT = abi.PYTHON_ROW.offset("entries")


class CodeFrame(NamedTuple):
    """code: address of a code object. instruction: as the frame has it. identity: of the object; see CodeObject. None: not known.

    entry: where on the thread's stack the function of the interpreter is that began with this frame, and runs it and those that
    follow inwards; 0: the caller's runs it as well, or that is not known. Before Python 3.10: where the frame is.
    """

    code: int
    instruction: int
    identity: int | None
    entry: int = 0


class WalkedFrames(NamedTuple):
    """Frames of one thread at read_ns, CLOCK_MONOTONIC, innermost first.

    place: which of the interpreters in the process. opened_ns: when the thread's open call, or the gap, began.
    waker_tid: of the thread of its process that woke it from a wait for a signal, or started it, at woken_ns; 0: not known.
    waiting_ns: since when it waits for a signal itself, without a time-out; 0: it does not.
    state: address of its thread state. switches: how often it has left a CPU; 0 in a call.
    """

    tid: int
    tgid: int
    place: int
    status: PythonStatus
    read_ns: int
    opened_ns: int
    frames: tuple[CodeFrame, ...]
    waker_tid: int = 0
    woken_ns: int = 0
    waiting_ns: int = 0
    state: int = 0
    switches: int = 0

    def is_same_moment(self, other: WalkedFrames) -> bool:
        """Whether the thread has executed nothing of its own between both: in the same call, or asleep in the same gap."""
        return (self.opened_ns, self.switches, self.state) == (other.opened_ns, other.switches, other.state)


class PythonFrames:
    """Walks and reads for one caller at a time. May block while another task holds the memory map of the process."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel

    @property
    def is_possible(self) -> bool:
        """Whether the kernel programs are loaded."""
        return WALK in self._kernel.programs

    def add(self, tgid: int, place: int, layout: bytes) -> None:
        """layout: an abi.PYTHON_LAYOUT. place: below abi.PYTHON_INTERPRETERS. Raises KernelRefused when the table is full."""
        self._kernel.maps["interpreters"].put(abi.PYTHON_KEY.pack(tgid, place), layout)

    def remove(self, tgid: int) -> None:
        """Forget all interpreters of a process."""
        for place in range(abi.PYTHON_INTERPRETERS):
            self._kernel.maps["interpreters"].delete(abi.PYTHON_KEY.pack(tgid, place))

    def walk(self, tid: int) -> WalkedFrames | None:
        """Frames of a tracked thread; None if it has ended."""
        try:
            written = self._kernel.iterate_thread(WALK, tid)
        except KernelRefused:
            return None
        size = abi.PYTHON_ROW.size
        rows = (_walked(written[at : at + size]) for at in range(0, len(written) - size + 1, size))
        return next((row for row in rows if row.tid == tid), None)

    def read(self, tid: int, address: int, size: int) -> bytes:
        """Memory of the process of a thread; size: at most abi.PYTHON_READ_BYTES. Raises NotReadable."""
        self._kernel.maps["python_request"].put(abi.NUMBER.pack(0), abi.PYTHON_REQUEST.pack(address, size, 0))
        try:
            written = self._kernel.iterate_thread(READ, tid)
        except KernelRefused as error:
            raise NotReadable(f"thread {tid} has ended") from error
        if len(written) != size:
            raise NotReadable(f"{size} bytes at {address:#x} of thread {tid}")
        return written


def code_frames(raw: bytes, count: int) -> tuple[CodeFrame, ...]:
    """The first `count` of an array of abi.PYTHON_FRAME."""
    return tuple(CodeFrame(*abi.PYTHON_FRAME.unpack_from(raw, i * abi.PYTHON_FRAME.size)) for i in range(count))


def _walked(row: bytes) -> WalkedFrames:
    tid, tgid, place, status, read_ns, opened_ns, woken_ns, waiting_ns, state, switches, waker_tid, count = (
        _HEAD.unpack_from(row)
    )
    entries = _ENTRIES.unpack_from(row, _ENTRIES_AT)
    found = code_frames(row[_FRAMES_AT:], count)
    frames = tuple(frame._replace(entry=entry) for frame, entry in zip(found, entries, strict=False))
    moments = read_ns, opened_ns, frames, waker_tid, woken_ns, waiting_ns, state, switches
    return WalkedFrames(tid, tgid, place, PythonStatus(status), *moments)
