"""call_sites: slow calls since a moment, from sums that only grow."""

from __future__ import annotations

from exporter.stacks.call_sites import REMEMBERED_NS, CallSites, SlowCalls
from tests.support.call_site_rows import a_key, a_row
from tests.support.stacks import SECOND


class TestSince:
    def test_calls_since_a_moment_are_the_growth_of_the_sums(self) -> None:
        """4 calls up to 10 s, 23 more by 12 s."""
        sites = CallSites()
        sites.update({a_key(): a_row(4, 100)}, 10 * SECOND)
        sites.update({a_key(): a_row(27, 900)}, 12 * SECOND)

        assert sites.since(1, 11 * SECOND) == [SlowCalls(a_key(), 23, 800, a_row(27, 900))]

    def test_stack_that_is_new_counts_from_zero(self) -> None:
        sites = CallSites()
        sites.update({a_key(): a_row(4, 100)}, 10 * SECOND)

        assert [one.calls for one in sites.since(1, 9 * SECOND)] == [4]

    def test_stack_without_new_calls_is_left_out(self) -> None:
        sites = CallSites()
        sites.update({a_key(): a_row(4, 100)}, 10 * SECOND)
        sites.update({a_key(): a_row(4, 100)}, 12 * SECOND)

        assert sites.since(1, 11 * SECOND) == []

    def test_stacks_with_the_most_time_come_first(self) -> None:
        sites = CallSites()
        sites.update({a_key(1): a_row(9, 100), a_key(2): a_row(1, 700)}, 10 * SECOND)

        assert [one.total_ns for one in sites.since(1, 0)] == [700, 100]

    def test_stacks_of_other_processes_are_left_out(self) -> None:
        sites = CallSites()
        sites.update({a_key(process=2): a_row(9, 100)}, 10 * SECOND)

        assert sites.since(1, 0) == []

    def test_old_sums_are_forgotten_but_the_last_of_them(self) -> None:
        """What was there long before is no growth, though its sum was noted long ago."""
        sites = CallSites()
        sites.update({a_key(): a_row(4, 100)}, SECOND)
        sites.update({a_key(): a_row(5, 200)}, 2 * SECOND)
        sites.update({a_key(): a_row(6, 400)}, 2 * SECOND + REMEMBERED_NS)

        assert [(one.calls, one.total_ns) for one in sites.since(1, 3 * SECOND)] == [(1, 200)]

    def test_rows_that_the_kernel_does_not_have_any_more_are_forgotten(self) -> None:
        """A process with the same number begins at zero."""
        sites = CallSites()
        sites.update({a_key(): a_row(4, 100)}, SECOND)
        sites.update({}, 2 * SECOND)

        assert sites.since(1, 0) == []
