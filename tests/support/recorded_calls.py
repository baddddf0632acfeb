"""Pieces of a recording as the kernel writes them."""

from __future__ import annotations

import struct

from exporter.kernel import abi
from exporter.kernel.abi import RecordedKind, ThreadState
from exporter.kernel.operations import NUMBERS
from exporter.recording.call_stream import FrameKind, RecordedJob, RecordedThread, RecordingHead

BEGAN_NS = 1_000_000
OFFSET_NS = 1_700_000_000_000_000_000
HEAD = RecordingHead("gpu7", BEGAN_NS, OFFSET_NS)
JOB = RecordedJob(None, 100, "trainer", 0, 0, 0, 0)


def record(content: bytes) -> bytes:
    """With the header of the ring."""
    return struct.pack("=II", len(content), 0) + content.ljust((len(content) + 7) // 8 * 8, b"\0")


def call(
    operation: str,
    began_ns: int,
    ended_ns: int,
    *,
    process: int = 1,
    tid: int = 100,
    code: int = 0,
    depth: int = 0,
    communicator: int = 0,
    amount: int = 0,
    detail: int = 0,
    sequence: int = 0,
) -> bytes:
    values = (code, NUMBERS[operation], communicator, depth, BEGAN_NS + began_ns, BEGAN_NS + ended_ns)
    return record(abi.RECORDED_CALL.pack(RecordedKind.CALL, process, tid, *values, amount, detail, sequence))


def change(
    kind: RecordedKind,
    at_ns: int,
    *,
    state: ThreadState = ThreadState.ON_CPU,
    process: int = 1,
    tid: int = 100,
    throttled_ns: int = 0,
    other: tuple[int, str] = (0, ""),
) -> bytes:
    """other: process id, also of its thread, and name."""
    number, name = other
    values = (process, tid, state, BEGAN_NS + at_ns, throttled_ns, number, number, name.encode())
    return record(abi.RECORDED_CHANGE.pack(kind, *values))


def thread(
    state: ThreadState, *, tid: int = 100, process: int = 1, operation: int = abi.OPERATION_NONE, opened_ns: int = 0
) -> RecordedThread:
    return RecordedThread(process, tid, 100, state, operation, BEGAN_NS, BEGAN_NS + opened_ns, "trainer")


Content = tuple[FrameKind, bytes]
