"""The native stack of a thread: where it is in its program, and which functions have led to its open call.

In: a loaded Kernel and a tid. Out: a Stack, made of addresses alone. Partner in C: bpf/stacks.bpf.c.
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
_HEAD = abi.STACK_ROW.part("tid", "window_slots")
_TAIL = abi.STACK_ROW.part("comm", "words")
_FRAMES_AT, _CALLERS_AT = abi.STACK_ROW.offset("frames"), abi.STACK_ROW.offset("callers")
_RETURNS_AT, _TAIL_AT = abi.STACK_ROW.offset("returns"), abi.STACK_ROW.offset("comm")


class Frame(NamedTuple):
    """A return address, just behind a call, and where it is on the stack."""

    slot: int
    address: int


class Stack(NamedTuple):
    """The stack of one thread at read_ns, CLOCK_MONOTONIC.

    operation: of the outermost open call, abi.OPERATION_NONE outside calls. opened_ns: when that call, or the gap, began.
    is_running: on a CPU; the registers are those of its last entry into the kernel. is_stopped: by a signal, a debugger or a
    freezer. instruction, stack_pointer, frame_pointer: its registers. call_slot: where the return address of the open call is, or
    0. memory: words of the stack by address that are addresses of code or of the stack; return addresses that a probe has
    replaced are the original ones.
    """

    tid: int
    tgid: int
    comm: bytes
    operation: int
    opened_ns: int
    read_ns: int
    is_running: bool
    is_stopped: bool
    instruction: int
    stack_pointer: int
    frame_pointer: int
    call_slot: int
    memory: Mapping[int, int]


class Stacks:
    """Reads stacks, for one caller at a time. May block while another task holds the memory map of the process."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel

    @property
    def is_possible(self) -> bool:
        """Whether the kernel program is loaded."""
        return PROGRAM in self._kernel.programs

    def take(self, tid: int) -> Stack | None:
        """The stack of a tracked thread; None if it has ended, or cannot be read."""
        try:
            written = self._kernel.iterate_thread(PROGRAM, tid)
        except KernelRefused:
            return None
        return next((stack for stack in stacks_of(written) if stack.tid == tid), None)


def stacks_of(written: bytes) -> list[Stack]:
    """The rows of an iterator's output."""
    size = abi.STACK_ROW.size
    return [_stack_of(written[at : at + size]) for at in range(0, len(written) - size + 1, size)]


def _stack_of(row: bytes) -> Stack:
    tid, tgid, operation, is_running, is_stopped, read_ns, opened_ns, call_slot, *more = _HEAD.unpack_from(row)
    instruction, stack_pointer, frame_pointer, frame_count, caller_count, *windows = more
    comm, *words = _TAIL.unpack_from(row, _TAIL_AT)
    memory = {
        slot + i * WORD_BYTES: word
        for number, slot in enumerate(windows)
        if slot
        for i, word in enumerate(words[number * abi.STACK_WORDS : (number + 1) * abi.STACK_WORDS])
        if word
    }
    memory |= _linked(row[_FRAMES_AT:_CALLERS_AT], frame_count)
    memory |= _linked(row[_CALLERS_AT:_RETURNS_AT], caller_count)
    memory |= {slot: address for slot, address in abi.STACK_FRAME.iter_unpack(row[_RETURNS_AT:_TAIL_AT]) if slot}
    return Stack(
        tid=tid,
        tgid=tgid,
        comm=comm.split(b"\0", 1)[0],
        operation=operation,
        opened_ns=opened_ns,
        read_ns=read_ns,
        is_running=bool(is_running),
        is_stopped=bool(is_stopped),
        instruction=instruction,
        stack_pointer=stack_pointer,
        frame_pointer=frame_pointer,
        call_slot=call_slot,
        memory=memory,
    )


def _linked(raw: bytes, count: int) -> dict[int, int]:
    """Words read along frame pointers: return addresses, and below each of them the address of the next frame."""
    frames = [Frame(*pair) for pair in abi.STACK_FRAME.iter_unpack(raw)][: min(count, abi.STACK_FRAMES)]
    seen = {frame.slot: frame.address for frame in frames}
    for frame, following in pairwise(frames):
        seen[frame.slot - WORD_BYTES] = following.slot - WORD_BYTES
    return seen
