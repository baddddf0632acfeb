"""Through which functions has a thread come to where it is? From what its stack holds, caller by caller.

In: a Stack, the rules of its functions. Out: return addresses, innermost first. A function with rules needs no frame pointer; of
code without, such as what was made at run time, the frame pointer is followed as long as it leads on. Nothing is read here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from exporter.host.eh_frame import OUTERMOST, RBP, Rule
from exporter.kernel.stacks import WORD_BYTES, Frame, Stack

FRAMES_MAX = 256

RuleAt = Callable[[int], Rule | None]
"""Of an address in the process; see FrameRules.at()."""


class Way(NamedTuple):
    """Return addresses. within: from where the thread is to the entry of its open call. callers: of the call.

    Outside of calls, and where the call's entry is not found again, `within` is all there is.
    """

    within: tuple[int, ...]
    callers: tuple[int, ...]


class _At(NamedTuple):
    """A place within a function. frame_pointer: None where it is not known. lookup: the address whose rules hold."""

    lookup: int
    stack_pointer: int
    frame_pointer: int | None


def way_of(stack: Stack, rule_at: RuleAt) -> Way:
    """Where the way from the innermost function breaks off, it is taken up again at the entry of the open call."""
    start = _At(stack.instruction, stack.stack_pointer, stack.frame_pointer)
    frames = list(_followed(start, stack, rule_at))
    if not stack.call_slot:
        return Way(_addresses(frames), ())
    within = [frame for frame in frames if frame.slot < stack.call_slot]
    callers = frames[len(within) :]
    if not callers or callers[0].slot != stack.call_slot:
        callers = list(_from_the_call(stack, rule_at))
    return Way(_addresses(within if callers else frames), _addresses(callers))


def _from_the_call(stack: Stack, rule_at: RuleAt) -> Iterator[Frame]:
    address = stack.memory.get(stack.call_slot)
    if address is None:
        return
    yield Frame(stack.call_slot, address)
    # Where the function began with `push %rbp`, it lies below the return address.
    pushed = stack.memory.get(stack.call_slot - WORD_BYTES)
    yield from _followed(_At(address - 1, stack.call_slot + WORD_BYTES, pushed), stack, rule_at)


def _followed(at: _At, stack: Stack, rule_at: RuleAt) -> Iterator[Frame]:
    for _ in range(FRAMES_MAX):
        rule = rule_at(at.lookup)
        end = _frame_end(at, rule)
        if end is None or end - WORD_BYTES < at.stack_pointer:
            return
        address = stack.memory.get(end - WORD_BYTES)
        if address is None:
            return
        yield Frame(end - WORD_BYTES, address)
        # A call that never returns may be the last instruction of its function: the byte before is in the call.
        at = _At(address - 1, end, _frame_pointer(at, rule, end, stack))


def _frame_end(at: _At, rule: Rule | None) -> int | None:
    """Just above the return address."""
    if rule == OUTERMOST:
        return None
    if rule is None:
        return None if at.frame_pointer is None else at.frame_pointer + 2 * WORD_BYTES
    base = at.frame_pointer if rule.cfa_register == RBP else at.stack_pointer
    return None if base is None else base + rule.cfa_offset


def _frame_pointer(at: _At, rule: Rule | None, end: int, stack: Stack) -> int | None:
    """The caller's."""
    if rule is None:
        return stack.memory.get(end - 2 * WORD_BYTES)
    if rule.frame_pointer_at is None:
        return at.frame_pointer
    return stack.memory.get(end + rule.frame_pointer_at)


def _addresses(frames: list[Frame]) -> tuple[int, ...]:
    return tuple(frame.address for frame in frames)
