"""Where in its program is a thread, and who has made the call that it is in?

In: a loaded Kernel and a tid; bytes of the program stacks_read. Out: a Stack, of addresses alone. Partner in C: bpf/stacks.bpf.c.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import NamedTuple

from exporter.errors import KernelRefused
from exporter.kernel import abi
from exporter.kernel.loader import Kernel

PROGRAM = "stacks_read"

WORD_BYTES = 8
_FRAMES_BYTES = abi.STACK_FRAMES * abi.STACK_FRAME.size
_RETURNS_BYTES = abi.STACK_RETURNS * abi.STACK_FRAME.size
_ROW_BYTES = abi.STACK_HEAD.size + 2 * _FRAMES_BYTES + _RETURNS_BYTES + abi.STACK_TAIL.size


class Frame(NamedTuple):
    """A return address, just behind a call, and where on the stack it lies."""

    slot: int
    address: int


class Stack(NamedTuple):
    """Of one thread, at read_ns of CLOCK_MONOTONIC.

    operation: of the outermost open call, abi.OPERATION_NONE outside of calls. opened_ns: when the call, or the time outside,
    began. is_running: on a CPU, so that what is told is of its last entry into the kernel.
    instruction, stack_pointer, frame_pointer: its registers. call_slot: where the return address of the open call lies, or 0.
    memory: of its stack, by address, what leads on: addresses of code and of the stack itself. Return addresses are those
    that were there before a probe took their place.
    """

    tid: int
    tgid: int
    comm: bytes
    operation: int
    opened_ns: int
    read_ns: int
    is_running: bool
    instruction: int
    stack_pointer: int
    frame_pointer: int
    call_slot: int
    memory: Mapping[int, int]


class Stacks:
    """Asks the kernel; from one thread at a time. It may take as long as somebody else holds the thread's memory map."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel

    @property
    def is_possible(self) -> bool:
        """Whether the program is loaded."""
        return PROGRAM in self._kernel.programs

    def take(self, tid: int) -> Stack | None:
        """Of a thread that is traced; None when it has ended, or the kernel does not tell."""
        try:
            written = self._kernel.iterate_thread(PROGRAM, tid)
        except KernelRefused:
            return None
        return next((stack for stack in stacks_of(written) if stack.tid == tid), None)


def stacks_of(written: bytes) -> list[Stack]:
    """What the program wrote, one row behind the other."""
    whole = len(written) - len(written) % _ROW_BYTES
    return [_stack_of(written[at : at + _ROW_BYTES]) for at in range(0, whole, _ROW_BYTES)]


def _stack_of(row: bytes) -> Stack:
    tid, tgid, operation, is_running, read_ns, opened_ns, call_slot, *more = abi.STACK_HEAD.unpack_from(row)
    instruction, stack_pointer, frame_pointer, frame_count, caller_count, *windows = more
    frames_at = abi.STACK_HEAD.size
    callers_at, returns_at = frames_at + _FRAMES_BYTES, frames_at + 2 * _FRAMES_BYTES
    tail_at = returns_at + _RETURNS_BYTES
    comm, *words = abi.STACK_TAIL.unpack_from(row, tail_at)
    memory = {
        slot + i * WORD_BYTES: word
        for number, slot in enumerate(windows)
        if slot
        for i, word in enumerate(words[number * abi.STACK_WORDS : (number + 1) * abi.STACK_WORDS])
        if word
    }
    memory |= _linked(row[frames_at:callers_at], frame_count)
    memory |= _linked(row[callers_at:returns_at], caller_count)
    memory |= {slot: address for slot, address in abi.STACK_FRAME.iter_unpack(row[returns_at:tail_at]) if slot}
    return Stack(
        tid=tid,
        tgid=tgid,
        comm=comm.split(b"\0", 1)[0],
        operation=operation,
        opened_ns=opened_ns,
        read_ns=read_ns,
        is_running=bool(is_running),
        instruction=instruction,
        stack_pointer=stack_pointer,
        frame_pointer=frame_pointer,
        call_slot=call_slot,
        memory=memory,
    )


def _linked(raw: bytes, count: int) -> dict[int, int]:
    """What a walk along frame pointers has seen: return addresses, and below each of them where the next frame is."""
    frames = [Frame(*pair) for pair in abi.STACK_FRAME.iter_unpack(raw)][: min(count, abi.STACK_FRAMES)]
    seen = {frame.slot: frame.address for frame in frames}
    for frame, following in pairwise(frames):
        seen[frame.slot - WORD_BYTES] = following.slot - WORD_BYTES
    return seen
