"""unwinding: backtraces from stack memory, with rules written by hand."""

from __future__ import annotations

from typing import NamedTuple

from exporter.host.eh_frame import OUTERMOST, RBP, RSP, Rule
from exporter.kernel.abi import OPERATION_NONE
from exporter.kernel.stacks import Frame
from exporter.stacks.unwinding import FRAMES_MAX, Backtrace, unwind
from tests.support.stacks import a_stack

# A function begins at each thousand: the rule of an address is that of its function.
NO_FRAME = Rule(RSP, 8, None)


class Addresses(NamedTuple):
    """The addresses of a Backtrace."""

    within: tuple[int, ...]
    callers: tuple[int, ...]


def backtrace(rules: dict[int, Rule | None], **stack: object) -> Addresses:
    """rules: by the thousand of an address; a function without one is the outermost."""
    found = unwind(a_stack(**stack), lambda address: rules.get(address >> 12, OUTERMOST))
    return Addresses(*(tuple(frame.address for frame in frames) for frames in found))


class TestRules:
    def test_return_address_lies_below_the_end_of_the_frame(self) -> None:
        """0x1000 has 0x20 bytes on the stack, its caller none."""
        memory = {0x7018: 0x2005, 0x7020: 0x3005}
        rules = {1: Rule(RSP, 0x20, None), 2: NO_FRAME}

        assert backtrace(rules, memory=memory, operation=OPERATION_NONE, call_slot=0) == Addresses((0x2005, 0x3005), ())

    def test_saved_frame_pointer_is_that_of_the_caller(self) -> None:
        """0x1000 has pushed it at the end of its frame - 16; 0x2000 measures from it."""
        memory = {0x7010: 0x7040, 0x7018: 0x2005, 0x7048: 0x3005}
        rules = {1: Rule(RSP, 0x20, -16), 2: Rule(RBP, 16, -16)}

        assert backtrace(rules, memory=memory, operation=OPERATION_NONE, call_slot=0).within == (0x2005, 0x3005)

    def test_unsaved_frame_pointer_is_unchanged(self) -> None:
        """As in a function without a frame."""
        memory = {0x7000: 0x2005, 0x7048: 0x3005}
        rules = {1: NO_FRAME, 2: Rule(RBP, 16, -16)}
        found = backtrace(rules, memory=memory, frame_pointer=0x7040, operation=OPERATION_NONE, call_slot=0)

        assert found.within == (0x2005, 0x3005)

    def test_rule_of_the_call_is_used_and_not_that_of_its_return_address(self) -> None:
        """A call that never returns ends its function: its return address is in the next function, which has no caller."""
        memory = {0x7000: 0x3000, 0x7008: 0x4005}

        assert backtrace({1: NO_FRAME, 2: NO_FRAME}, memory=memory, operation=OPERATION_NONE, call_slot=0).within == (
            0x3000,
            0x4005,
        )


class TestWithoutRules:
    """Code generated at run time."""

    def test_frame_pointers_are_followed(self) -> None:
        """The return address is above the caller's frame pointer."""
        memory = {0x7020: 0x7040, 0x7028: 0x2005, 0x7048: 0x3005}
        found = backtrace(
            {1: None, 2: None}, memory=memory, frame_pointer=0x7020, operation=OPERATION_NONE, call_slot=0
        )

        assert found.within == (0x2005, 0x3005)

    def test_frame_pointer_below_the_frame_ends_it(self) -> None:
        """Frames of callers are at higher addresses."""
        memory = {0x7020: 0x7020, 0x7028: 0x1005}
        found = backtrace({1: None}, memory=memory, frame_pointer=0x7020, operation=OPERATION_NONE, call_slot=0)

        assert found.within == (0x1005,)

    def test_frame_pointer_outside_the_stack_ends_it(self) -> None:
        """As in a program that uses the register for data."""
        assert backtrace({1: None}, frame_pointer=0x123456, operation=OPERATION_NONE, call_slot=0) == Addresses((), ())


class TestOpenCall:
    def test_backtrace_is_split_at_the_entry_of_the_call(self) -> None:
        """The return address at the entry is in the first caller."""
        memory = {0x7000: 0x2005, 0x7100: 0x3005, 0x7108: 0x4005}
        rules = {1: NO_FRAME, 2: Rule(RSP, 0x100, None), 3: NO_FRAME}

        assert backtrace(rules, memory=memory) == Addresses((0x2005,), (0x3005, 0x4005))

    def test_frame_has_the_place_of_its_return_address(self) -> None:
        """That of the first caller is the entry of the call."""
        memory = {0x7000: 0x2005, 0x7100: 0x3005}
        found = unwind(
            a_stack(memory=memory),
            lambda address: {1: NO_FRAME, 2: Rule(RSP, 0x100, None)}.get(address >> 12, OUTERMOST),
        )

        assert found == Backtrace((Frame(0x7000, 0x2005),), (Frame(0x7100, 0x3005),))

    def test_unwinding_that_stops_continues_at_the_entry_of_the_call(self) -> None:
        """Nothing is known of the innermost function; the caller has pushed its frame pointer."""
        memory = {0x70F8: 0x7140, 0x7100: 0x3005, 0x7148: 0x4005}

        assert backtrace({3: Rule(RBP, 16, -16)}, memory=memory) == Addresses((), (0x3005, 0x4005))

    def test_first_caller_is_known_without_any_rule(self) -> None:
        assert backtrace({}, memory={0x7100: 0x3005}) == Addresses((), (0x3005,))

    def test_frame_that_skips_the_entry_of_the_call_is_not_used(self) -> None:
        """It does not belong to a caller."""
        memory = {0x7000: 0x2005, 0x7100: 0x3005, 0x7200: 0x4005}
        rules = {1: NO_FRAME, 2: Rule(RSP, 0x200, None)}

        assert backtrace(rules, memory=memory) == Addresses((0x2005,), (0x3005,))

    def test_without_the_entry_of_the_call_there_are_no_callers(self) -> None:
        """Its return address could not be read."""
        assert backtrace({1: NO_FRAME}, memory={0x7000: 0x2005}) == Addresses((0x2005,), ())


class TestBounds:
    def test_endless_backtrace_is_truncated(self) -> None:
        """As of a deep recursion."""
        memory = dict.fromkeys(range(28672, 94208, 8), 4101)
        found = backtrace({1: NO_FRAME}, memory=memory, operation=OPERATION_NONE, call_slot=0)

        assert len(found.within) == FRAMES_MAX
