"""Where in its program is a thread, and who has made the call that it is in?

In: a loaded Kernel and a tid; bytes of the program stacks_read. Out: a Stack, of addresses alone. Partner in C: bpf/stacks.bpf.c.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from exporter.errors import KernelRefused
from exporter.kernel import abi
from exporter.kernel.loader import Kernel

PROGRAM = "stacks_read"

_FRAMES_BYTES = abi.STACK_FRAMES * abi.STACK_FRAME.size
_RETURNS_BYTES = abi.STACK_RETURNS * abi.STACK_FRAME.size
_ROW_BYTES = abi.STACK_HEAD.size + 2 * _FRAMES_BYTES + _RETURNS_BYTES + abi.STACK_COMM.size


class Frame(NamedTuple):
    """A return address, and where on the stack it lies."""

    slot: int
    address: int


class Stack(NamedTuple):
    """Of one thread, at read_ns of CLOCK_MONOTONIC. Addresses are return addresses, innermost first: just behind a call.

    operation: of the outermost open call, abi.OPERATION_NONE outside of calls. opened_ns: when the call, or the time outside,
    began. is_running: on a CPU, so that what is told is of its last entry into the kernel.
    instruction: where it is; no return address. within: from there on outwards, up to the entry of the open call.
    callers: of the open call; empty where they could not be had, and then `within` goes on as far as it can be followed.
    """

    tid: int
    tgid: int
    comm: bytes
    operation: int
    opened_ns: int
    read_ns: int
    is_running: bool
    instruction: int
    within: tuple[int, ...]
    callers: tuple[int, ...]


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
    tid, tgid, operation, is_running, read_ns, opened_ns, call_slot, instruction, *counts = abi.STACK_HEAD.unpack_from(
        row
    )
    frame_count, caller_count = counts
    frames_at = abi.STACK_HEAD.size
    callers_at, returns_at = frames_at + _FRAMES_BYTES, frames_at + 2 * _FRAMES_BYTES
    comm_at = returns_at + _RETURNS_BYTES
    probed = dict(abi.STACK_FRAME.iter_unpack(row[returns_at:comm_at]))
    frames = _frames(row[frames_at:callers_at], frame_count)
    callers = _frames(row[callers_at:returns_at], caller_count)
    within = [frame for frame in frames if frame.slot < call_slot] if callers else frames
    return Stack(
        tid=tid,
        tgid=tgid,
        comm=abi.STACK_COMM.unpack(row[comm_at:])[0].split(b"\0", 1)[0],
        operation=operation,
        opened_ns=opened_ns,
        read_ns=read_ns,
        is_running=bool(is_running),
        instruction=instruction,
        within=_addresses(within, probed),
        callers=_addresses(callers, probed),
    )


def _frames(raw: bytes, count: int) -> list[Frame]:
    return [Frame(*pair) for pair in abi.STACK_FRAME.iter_unpack(raw)][: min(count, abi.STACK_FRAMES)]


def _addresses(frames: Sequence[Frame], probed: dict[int, int]) -> tuple[int, ...]:
    """A probe on a function's return has put itself into the slot: what lay there is meant."""
    return tuple(probed.get(slot, address) for slot, address in frames)
