"""unwinding: the way from what a stack holds, with rules written by hand."""

from __future__ import annotations

from exporter.host.eh_frame import OUTERMOST, RBP, RSP, Rule
from exporter.kernel.abi import OPERATION_NONE
from exporter.stacks.unwinding import FRAMES_MAX, Way, way_of
from tests.support.stacks import a_stack

# A function begins at each thousand: the rule of an address is that of its function.
NO_FRAME = Rule(RSP, 8, None)


def way(rules: dict[int, Rule | None], **stack: object) -> Way:
    """With these rules, by the thousand of an address; outermost where there is none."""
    return way_of(a_stack(**stack), lambda address: rules.get(address >> 12, OUTERMOST))


class TestRules:
    """Code that says how to leave it."""

    def test_return_address_lies_below_the_end_of_the_frame(self) -> None:
        """0x1000 has 0x20 bytes on the stack, its caller none."""
        memory = {0x7018: 0x2005, 0x7020: 0x3005}
        rules = {1: Rule(RSP, 0x20, None), 2: NO_FRAME}

        assert way(rules, memory=memory, operation=OPERATION_NONE, call_slot=0) == Way((0x2005, 0x3005), ())

    def test_frame_pointer_that_was_kept_is_that_of_the_caller(self) -> None:
        """0x1000 has pushed it at the end of its frame - 16; 0x2000 measures from it."""
        memory = {0x7010: 0x7040, 0x7018: 0x2005, 0x7048: 0x3005}
        rules = {1: Rule(RSP, 0x20, -16), 2: Rule(RBP, 16, -16)}

        assert way(rules, memory=memory, operation=OPERATION_NONE, call_slot=0).within == (0x2005, 0x3005)

    def test_frame_pointer_that_nobody_touched_stays(self) -> None:
        """As in a function without a frame."""
        memory = {0x7000: 0x2005, 0x7048: 0x3005}
        rules = {1: NO_FRAME, 2: Rule(RBP, 16, -16)}
        found = way(rules, memory=memory, frame_pointer=0x7040, operation=OPERATION_NONE, call_slot=0)

        assert found.within == (0x2005, 0x3005)

    def test_call_is_looked_up_and_not_what_comes_behind_it(self) -> None:
        """A call that never returns ends its function: the address behind it is of the next one, which has no caller."""
        memory = {0x7000: 0x3000, 0x7008: 0x4005}

        assert way({1: NO_FRAME, 2: NO_FRAME}, memory=memory, operation=OPERATION_NONE, call_slot=0).within == (
            0x3000,
            0x4005,
        )


class TestWithoutRules:
    """Code made at run time: the frame pointer is followed."""

    def test_frame_pointer_leads_on(self) -> None:
        """Return address above, the caller's frame pointer at it."""
        memory = {0x7020: 0x7040, 0x7028: 0x2005, 0x7048: 0x3005}
        found = way({1: None, 2: None}, memory=memory, frame_pointer=0x7020, operation=OPERATION_NONE, call_slot=0)

        assert found.within == (0x2005, 0x3005)

    def test_frame_pointer_that_leads_back_ends_it(self) -> None:
        """A stack is left upwards."""
        memory = {0x7020: 0x7020, 0x7028: 0x1005}
        found = way({1: None}, memory=memory, frame_pointer=0x7020, operation=OPERATION_NONE, call_slot=0)

        assert found.within == (0x1005,)

    def test_frame_pointer_that_leads_nowhere_ends_it(self) -> None:
        """As that of a program that uses the register for something else."""
        assert way({1: None}, frame_pointer=0x123456, operation=OPERATION_NONE, call_slot=0) == Way((), ())


class TestCall:
    """Where the open call was entered."""

    def test_way_is_divided_there(self) -> None:
        """The return address at the entry is of the first caller."""
        memory = {0x7000: 0x2005, 0x7100: 0x3005, 0x7108: 0x4005}
        rules = {1: NO_FRAME, 2: Rule(RSP, 0x100, None), 3: NO_FRAME}

        assert way(rules, memory=memory) == Way((0x2005,), (0x3005, 0x4005))

    def test_way_that_breaks_off_is_taken_up_there(self) -> None:
        """Nothing is known from where the thread is; the caller has pushed its frame pointer."""
        memory = {0x70F8: 0x7140, 0x7100: 0x3005, 0x7148: 0x4005}

        assert way({3: Rule(RBP, 16, -16)}, memory=memory) == Way((), (0x3005, 0x4005))

    def test_caller_alone_is_told_where_it_goes_no_further(self) -> None:
        """One function is more than none."""
        assert way({}, memory={0x7100: 0x3005}) == Way((), (0x3005,))

    def test_way_past_the_entry_is_not_trusted(self) -> None:
        """Frames that pass over the return address of the call are not those of its callers."""
        memory = {0x7000: 0x2005, 0x7100: 0x3005, 0x7200: 0x4005}
        rules = {1: NO_FRAME, 2: Rule(RSP, 0x200, None)}

        assert way(rules, memory=memory) == Way((0x2005,), (0x3005,))

    def test_without_its_entry_everything_is_told_in_one(self) -> None:
        """Its return address could not be read."""
        assert way({1: NO_FRAME}, memory={0x7000: 0x2005}) == Way((0x2005,), ())


class TestBounds:
    """A stack can be anything."""

    def test_way_without_an_end_is_cut(self) -> None:
        """A deep recursion."""
        memory = dict.fromkeys(range(28672, 94208, 8), 4101)
        found = way({1: NO_FRAME}, memory=memory, operation=OPERATION_NONE, call_slot=0)

        assert len(found.within) == FRAMES_MAX
