"""A sampled stack as lines of text for a person, innermost function first.

In: a Stack, its Backtrace, names of addresses. Out: lines; those of functions are indented.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain, islice

from exporter.kernel.abi import OPERATION_NONE
from exporter.kernel.operations import OPERATIONS
from exporter.kernel.stacks import Stack
from exporter.stacks.unwinding import Backtrace
from exporter.text.printable import printable_bytes
from exporter.units import seconds

FRAMES_MAX = 24
"""Per list. The outermost frames are the interpreter's or libc's and say little."""

_COMM_CHARACTERS = 16


def format_stack(stack: Stack, backtrace: Backtrace, names: Mapping[int, str]) -> tuple[str, ...]:
    """names: address -> text. Other addresses are shown as numbers."""
    place = "runs on a CPU, and last entered the kernel at" if stack.is_running else "is at"
    innermost = _frames((stack.instruction, *backtrace.within), names)
    if not backtrace.callers:
        return (f"{_thread_and_call(stack)}; it {place}", *innermost)
    inside = f"inside {_operation(stack)} it {place}"
    return (f"{_thread_and_call(stack)}, called by", *_frames(backtrace.callers, names), inside, *innermost)


def format_without_names(stack: Stack) -> tuple[str, ...]:
    """For a process that ended before its addresses were looked up."""
    return (f"{_thread_and_call(stack)}; its functions are not known: the process has ended",)


def _thread_and_call(stack: Stack) -> str:
    thread = f"thread {stack.tid} ({printable_bytes(stack.comm, _COMM_CHARACTERS)})"
    call = "no traced call" if stack.operation == OPERATION_NONE else _operation(stack)
    return f"{thread} has been in {call} for {seconds(stack.read_ns - stack.opened_ns):.1f} s"


def _operation(stack: Stack) -> str:
    return OPERATIONS[stack.operation].name


def _frames(addresses: Sequence[int], names: Mapping[int, str]) -> tuple[str, ...]:
    shown = (f"  {names.get(address, f'{address:#x}')}" for address in islice(addresses, FRAMES_MAX))
    left_out = len(addresses) - FRAMES_MAX
    return tuple(chain(shown, (f"  and {left_out} more",) if left_out > 0 else ()))
