"""slow_lines: which lines of code explain a span of time."""

from __future__ import annotations

from exporter.python.call_site import OTHER_STACKS, CallStack, PythonFrame
from exporter.timeline.slow_lines import slow_lines
from tests.support.history import MS, SECOND, a_call_site, a_stack

SPAN_NS = 10 * SECOND


class TestLines:
    def test_line_with_the_most_time_is_first(self) -> None:
        found = slow_lines([a_call_site(142, 2, 50 * MS), a_call_site(7, 3, 50 * MS)], SPAN_NS)

        assert [one.sums.total_ns for one in found] == [150 * MS, 100 * MS]

    def test_line_below_half_a_percent_of_the_span_is_left_out(self) -> None:
        found = slow_lines([a_call_site(142, 1, 50 * MS), a_call_site(7, 1, 50 * MS - 1)], SPAN_NS)

        assert [one.sums.total_ns for one in found] == [50 * MS]

    def test_callers_of_one_line_are_added_up(self) -> None:
        """A track has one slice at a time."""
        stack = a_stack()
        caller = CallStack(stack.directory, (*stack.frames, PythonFrame("/srv/job/main.py", "main", 3)))
        (found,) = slow_lines([a_call_site(calls=2), a_call_site(calls=3, stack=caller)], SPAN_NS)

        assert (found.sums.calls, found.sums.total_ns, found.stacks) == (5, 250 * MS, (stack, caller))

    def test_stack_without_functions_is_not_shown(self) -> None:
        (found,) = slow_lines([a_call_site(stack=OTHER_STACKS)], SPAN_NS)

        assert (found.name.endswith(" from other stacks"), found.stacks) == (True, ())
