"""Unwinds the user stack of a thread, from the copied stack memory and the unwind rules of its functions.

In: a Stack, the rules. Out: return addresses and their places on the stack, innermost first. A function with rules needs no frame
pointer. In code without rules, such as code generated at run time, the chain of frame pointers is followed. Nothing is read here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from exporter.host.eh_frame import OUTERMOST, RBP, Rule
from exporter.kernel.stacks import WORD_BYTES, Frame, Stack

FRAMES_MAX = 256

RuleAt = Callable[[int], Rule | None]
"""The rule for an address in the process; see FrameRules.at()."""


class Backtrace(NamedTuple):
    """within: from the innermost function to the entry of the thread's open call. callers: of that call.

    Without an open call, or if its entry is not found in the stack, all frames are in `within`.
    """

    within: tuple[Frame, ...]
    callers: tuple[Frame, ...]


class _Cursor(NamedTuple):
    """A position in a function. frame_pointer: None if it is not known. lookup: the address whose rule applies."""

    lookup: int
    stack_pointer: int
    frame_pointer: int | None


def unwind(stack: Stack, rule_at: RuleAt) -> Backtrace:
    """If unwinding stops before the entry of the open call, it continues there."""
    start = _Cursor(stack.instruction, stack.stack_pointer, stack.frame_pointer)
    frames = tuple(_frames_from(start, stack, rule_at))
    if not stack.call_slot:
        return Backtrace(frames, ())
    within = tuple(frame for frame in frames if frame.slot < stack.call_slot)
    callers = frames[len(within) :]
    if not callers or callers[0].slot != stack.call_slot:
        callers = tuple(_frames_from_call(stack, rule_at))
    return Backtrace(within if callers else frames, callers)


def _frames_from_call(stack: Stack, rule_at: RuleAt) -> Iterator[Frame]:
    address = stack.memory.get(stack.call_slot)
    if address is None:
        return
    yield Frame(stack.call_slot, address)
    # If the function began with `push %rbp`, the caller's frame pointer is just below the return address.
    pushed = stack.memory.get(stack.call_slot - WORD_BYTES)
    yield from _frames_from(_Cursor(address - 1, stack.call_slot + WORD_BYTES, pushed), stack, rule_at)


def _frames_from(cursor: _Cursor, stack: Stack, rule_at: RuleAt) -> Iterator[Frame]:
    for _ in range(FRAMES_MAX):
        rule = rule_at(cursor.lookup)
        end = _frame_end(cursor, rule)
        if end is None or end - WORD_BYTES < cursor.stack_pointer:
            return
        address = stack.memory.get(end - WORD_BYTES)
        if address is None:
            return
        yield Frame(end - WORD_BYTES, address)
        # A call that never returns may be the last instruction of its function: the byte before the return address is in it.
        cursor = _Cursor(address - 1, end, _frame_pointer(cursor, rule, end, stack))


def _frame_end(cursor: _Cursor, rule: Rule | None) -> int | None:
    """The address just above the return address."""
    if rule == OUTERMOST:
        return None
    if rule is None:
        return None if cursor.frame_pointer is None else cursor.frame_pointer + 2 * WORD_BYTES
    base = cursor.frame_pointer if rule.cfa_register == RBP else cursor.stack_pointer
    return None if base is None else base + rule.cfa_offset


def _frame_pointer(cursor: _Cursor, rule: Rule | None, end: int, stack: Stack) -> int | None:
    """The caller's frame pointer."""
    if rule is None:
        return stack.memory.get(end - 2 * WORD_BYTES)
    if rule.frame_pointer_at is None:
        return cursor.frame_pointer
    return stack.memory.get(end + rule.frame_pointer_at)
