"""What is said of a thread that is stuck? Lines for a person, the innermost function first.

In: a Stack, and the names of its addresses. Out: lines; those of a function are indented.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain, islice

from exporter.host.printable_text import printable
from exporter.kernel.abi import OPERATION_NONE
from exporter.kernel.operations import OPERATIONS
from exporter.kernel.stacks import Stack
from exporter.units import seconds

FRAMES_MAX = 24
"""Of a list: the outermost ones are the interpreter's or libc's, and the same everywhere."""

_COMM_CHARACTERS = 16


def lines_of(stack: Stack, names: Mapping[int, str]) -> tuple[str, ...]:
    """names: of every address that has one; another one is told as a number."""
    is_call = stack.operation != OPERATION_NONE
    thread = f"thread {stack.tid} ({printable(stack.comm, _COMM_CHARACTERS)})"
    duration = f"{seconds(stack.read_ns - stack.opened_ns):.1f} s"
    place = "runs on a CPU, and last entered the kernel at" if stack.is_running else "is at"
    now = _frames((stack.instruction, *stack.within), names)
    if not is_call:
        return (f"{thread} has been in no traced call for {duration}; it {place}", *now)
    operation = OPERATIONS[stack.operation].name
    if not stack.callers:
        return (f"{thread} has been in {operation} for {duration}; it {place}", *now)
    called_by = (f"{thread} has been in {operation} for {duration}, called by", *_frames(stack.callers, names))
    return (*called_by, f"inside of {operation} it {place}", *now)


def unnamed(stack: Stack) -> tuple[str, ...]:
    """Of a process that has ended before its addresses had names."""
    (first, *_) = lines_of(stack, {})
    return (f"{first} unknown functions: the process has ended",)


def _frames(addresses: Sequence[int], names: Mapping[int, str]) -> tuple[str, ...]:
    shown = (f"  {names.get(address, f'{address:#x}')}" for address in islice(addresses, FRAMES_MAX))
    left_out = len(addresses) - FRAMES_MAX
    return tuple(chain(shown, (f"  and {left_out} more",) if left_out > 0 else ()))
