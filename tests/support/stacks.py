"""Builders of stacks and thread rows."""

from __future__ import annotations

from typing import Any

from exporter.kernel import abi
from exporter.kernel.abi import OPERATION_NONE, Awaited, Victim
from exporter.kernel.awaited_rows import AwaitedBy
from exporter.kernel.operations import NUMBERS
from exporter.kernel.stacks import Frame, Stack
from exporter.kernel.thread_rows import ThreadRow

SECOND = 1_000_000_000
NOTHING = (0,) * abi.THREAD_STATES


def a_stack(**changes: Any) -> Stack:
    """Thread 4711, in cudaStreamSynchronize since 2.3 s, at address 0x1000, with an empty stack."""
    known: dict[str, Any] = {
        "tid": 4711,
        "tgid": 4700,
        "comm": b"pt_main_thread",
        "operation": NUMBERS["cudaStreamSynchronize"],
        "opened_ns": 10 * SECOND,
        "read_ns": 12_300_000_000,
        "is_running": False,
        "is_stopped": False,
        "instruction": 0x1000,
        "stack_pointer": 0x7000,
        "frame_pointer": 0,
        "call_slot": 0x7100,
        "memory": {},
    }
    return Stack(**(known | changes))


def frames(*addresses: int) -> tuple[Frame, ...]:
    """Frames of so many functions, from the slot 0x7200 on."""
    return tuple(Frame(0x7200 + 0x100 * number, address) for number, address in enumerate(addresses))


def a_thread(tid: int = 4711, operation: str = "", *, for_ns: int = 0, **changes: Any) -> ThreadRow:
    """A step thread of process 1 at 20 s. operation: its open call, if any. for_ns: how long the call or gap has lasted."""
    known: dict[str, Any] = dict.fromkeys(ThreadRow._fields, 0)
    known |= dict.fromkeys(("open_ns", "gaps_ns", "idle_ns", "booked_ns"), NOTHING)
    known |= {
        "process": 1,
        "tid": tid,
        "tgid": 4700,
        "victim": Victim.STEP,
        "operation": NUMBERS[operation] if operation else OPERATION_NONE,
        "read_ns": 20 * SECOND,
        "opened_ns": 20 * SECOND - for_ns,
        "comm": b"python",
        "reader": AwaitedBy(0, Awaited.UNKNOWN, b""),
    }
    return ThreadRow(**(known | changes))
