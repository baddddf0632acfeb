"""Single calls and changes of threads, as a recording has them. Partner in C: bpf/recorded.bpf.c.

In: pieces of the ring. Out: events in the order in which they were written, which for each thread is that of the time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from exporter.kernel import abi
from exporter.kernel.abi import Copy, HostMemory, RecordedKind, Shape
from exporter.kernel.operations import KERNEL_LAUNCHES, OPERATIONS, Operation
from exporter.kernel.recorded_ring import records

_COPIES = frozenset({Shape.COPY, Shape.COPY_2D})
_WITH_BYTES = frozenset({Shape.ALLOCATE, Shape.FREE, Shape.PIN, Shape.PIN_AT, Shape.UNPIN})
_ENQUEUING = frozenset({Shape.COLLECTIVE, Shape.SEND_RECEIVE})
_DIRECTION = 0xFF


class RecordedCall(NamedTuple):
    """A call that has returned. code: of its failure, 0 if it did not fail. depth: traced calls that enclose it.

    communicator: ordinal, 0: none. amount: bytes, or blocks of a launch. detail: see the properties. sequence: number of a
    collective on its communicator, equal on all ranks; 0: unknown, or none.
    """

    process: int
    tid: int
    code: int
    operation: int
    communicator: int
    depth: int
    began_ns: int
    ended_ns: int
    amount: int
    detail: int
    sequence: int

    @property
    def of(self) -> Operation:
        return OPERATIONS[self.operation]

    @property
    def duration_ns(self) -> int:
        return self.ended_ns - self.began_ns

    @property
    def bytes(self) -> int | None:
        """None: it has none, or they are not known."""
        shape = self.of.shape
        has_bytes = shape in _COPIES or shape in _WITH_BYTES or shape in _ENQUEUING
        return self.amount if has_bytes and self.amount else None

    @property
    def copy(self) -> Copy | None:
        """The direction of a copy, as far as it is known."""
        direction = self.detail & _DIRECTION
        return Copy(direction) if self.of.shape in _COPIES and direction < abi.COPY_DIRECTIONS else None

    @property
    def memory(self) -> HostMemory:
        """The kind of memory on the host's side of a copy."""
        return HostMemory(self.detail >> 8) if self.of.shape in _COPIES else HostMemory.UNKNOWN

    @property
    def grid(self) -> tuple[int, int] | None:
        """Blocks of a launch, and threads of a block."""
        return (self.amount, self.detail) if self.of.shape in KERNEL_LAUNCHES and self.amount else None

    @property
    def communicator_hash(self) -> int:
        """Equal on all ranks; 0: unknown, or no communicator."""
        return self.detail if self.of.shape in _ENQUEUING else 0


class RecordedChange(NamedTuple):
    """A thread came onto a CPU, left it, or was woken. state: abi.ThreadState, that begins.

    other: who left the CPU for it, came onto it in its place, or woke it; other_tid 0: no thread, or one that is not shown.
    """

    kind: int
    process: int
    tid: int
    state: int
    at_ns: int
    throttled_ns: int
    other_tid: int
    other_tgid: int
    other_comm: bytes

    @property
    def other_name(self) -> str:
        return self.other_comm.rstrip(b"\0").decode(errors="replace")


def events_in(piece: bytes) -> Iterator[RecordedCall | RecordedChange]:
    """What a piece holds that CallRecording.take() returned. Raises ValueError for bytes that are no such piece."""
    for at, length in records(piece):
        (kind,) = abi.NUMBER.unpack_from(piece, at)
        if kind == RecordedKind.CALL and length == abi.RECORDED_CALL.size:
            yield RecordedCall(*abi.RECORDED_CALL.unpack_from(piece, at)[1:])
        elif length == abi.RECORDED_CHANGE.size:
            yield RecordedChange(*abi.RECORDED_CHANGE.unpack_from(piece, at))
        else:
            raise ValueError(f"an event of kind {kind} with {length} bytes")
