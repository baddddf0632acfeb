"""What is said of a thread that is stuck? Lines for a person, the innermost function first.

In: a Stack, the way its thread has come, the names of addresses. Out: lines; those of a function are indented.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain, islice

from exporter.kernel.abi import OPERATION_NONE
from exporter.kernel.operations import OPERATIONS
from exporter.kernel.stacks import Stack
from exporter.stacks.unwinding import Way
from exporter.text.printable import printable_bytes
from exporter.units import seconds

FRAMES_MAX = 24
"""Of a list: the outermost ones are the interpreter's or libc's, and the same everywhere."""

_COMM_CHARACTERS = 16


def lines_of(stack: Stack, way: Way, names: Mapping[int, str]) -> tuple[str, ...]:
    """names: of every address that has one; another one is told as a number."""
    place = "runs on a CPU, and last entered the kernel at" if stack.is_running else "is at"
    now = _frames((stack.instruction, *way.within), names)
    if not way.callers:
        return (f"{_begin(stack)}; it {place}", *now)
    inside = f"inside of {_operation(stack)} it {place}"
    return (f"{_begin(stack)}, called by", *_frames(way.callers, names), inside, *now)


def unnamed(stack: Stack) -> tuple[str, ...]:
    """Of a process that has ended before its addresses had names."""
    return (f"{_begin(stack)}; where, nobody knows: the process has ended",)


def _begin(stack: Stack) -> str:
    thread = f"thread {stack.tid} ({printable_bytes(stack.comm, _COMM_CHARACTERS)})"
    call = "no traced call" if stack.operation == OPERATION_NONE else _operation(stack)
    return f"{thread} has been in {call} for {seconds(stack.read_ns - stack.opened_ns):.1f} s"


def _operation(stack: Stack) -> str:
    return OPERATIONS[stack.operation].name


def _frames(addresses: Sequence[int], names: Mapping[int, str]) -> tuple[str, ...]:
    shown = (f"  {names.get(address, f'{address:#x}')}" for address in islice(addresses, FRAMES_MAX))
    left_out = len(addresses) - FRAMES_MAX
    return tuple(chain(shown, (f"  and {left_out} more",) if left_out > 0 else ()))
