"""span: a process between two moments."""

from __future__ import annotations

import pytest

from exporter.causes import Cause
from exporter.chains.span import Collective, Span
from tests.unit.chains.job import SECOND
from tests.unit.chains.states import MS, a_span, a_state

DISK = (Cause.BLOCK_IO, "")
LOCK = (Cause.LOCK, "")


class TestFractionalSteps:
    """Steps so far, with a part of the open one."""

    def test_open_step_counts_by_its_age(self) -> None:
        """It began 2.5 ms ago, and takes 10 ms."""
        state = a_state(100, steps=7, step_began_ns=100 * SECOND - 2_500_000)

        assert state.fractional_steps(10 * MS) == 7.25

    def test_open_step_counts_as_one_at_most(self) -> None:
        """It began three baseline steps ago."""
        assert a_state(100, steps=7, step_began_ns=100 * SECOND - 30 * MS).fractional_steps(10 * MS) == 8.0

    def test_without_a_rhythm_only_ended_steps_count(self) -> None:
        assert a_state(100, steps=7).fractional_steps(10 * MS) == 7.0


class TestExcess:
    """Time that the same progress does not take at the baseline."""

    def test_half_as_many_steps_are_half_of_the_time(self) -> None:
        """50 steps of 10 ms in a second."""
        began = a_state(100, step_began_ns=100 * SECOND)
        now = a_state(101, steps=50, step_began_ns=101 * SECOND)

        assert Span(began, now).excess_ns(10 * MS) == pytest.approx(0.5 * SECOND)

    def test_faster_steps_are_below_zero(self) -> None:
        """125 steps of 10 ms in a second."""
        began = a_state(100, step_began_ns=100 * SECOND)
        now = a_state(101, steps=125, step_began_ns=101 * SECOND)

        assert Span(began, now).excess_ns(10 * MS) == pytest.approx(-0.25 * SECOND)

    def test_without_a_rhythm_it_is_unknown(self) -> None:
        assert a_span(1, steps=50).excess_ns(10 * MS) is None

    def test_steps_that_went_unseen_leave_the_length_of_those_that_were_seen(self) -> None:
        """20 steps of 20 ms."""
        span = a_span(1, steps=20, steps_ns=400 * MS, missed_beats=1)

        assert span.excess_ns(10 * MS) == pytest.approx(0.5 * SECOND)

    def test_without_any_that_was_seen_it_is_unknown(self) -> None:
        assert a_span(1, missed_beats=1).excess_ns(10 * MS) is None


class TestLateBeyond:
    """How much slower than at a time that was slow already."""

    @pytest.mark.parametrize(
        ("late", "before", "beyond"),
        [
            (0.5, 0.0, 0.5),  # steps of 20 ms instead of 10
            (0.6, 0.2, 0.5),  # 25 ms instead of 12.5, where 10 are the baseline
            (0.2, 0.2, 0.0),
            (0.5, 1.0, -49.0),  # no step at all before: what comes on top of that is not seen
        ],
    )
    def test_pace_is_compared_with_the_pace_before(self, late: float, before: float, beyond: float) -> None:
        assert a_span(2, late_ns=late * 2 * SECOND).late_beyond(before) == pytest.approx(beyond)


class TestLost:
    """Lost time by cause and culprit."""

    def test_only_what_has_grown_is_in_it(self) -> None:
        before, now = {DISK: 5 * MS, LOCK: 3 * MS}, {DISK: 9 * MS, LOCK: 3 * MS}

        assert Span(a_state(1, lost_ns=before), a_state(2, lost_ns=now)).lost_ns() == {DISK: 4 * MS}

    def test_whole_loss_includes_what_has_no_cause_yet(self) -> None:
        assert a_span(1, lost_ns={DISK: 5 * MS, LOCK: 3 * MS}, undecided_ns=2 * MS).lost_of_all_ns() == 10 * MS


class TestLag:
    """How long other ranks waited for a process."""

    def test_communicators_are_summed(self) -> None:
        """The second one is new; the third has shrunk, since it was closed."""
        then = a_state(1, collectives={77: Collective(0, 5, 10 * MS), 79: Collective(0, 5, 9 * MS)})
        now = a_state(
            2, collectives={77: Collective(0, 8, 14 * MS), 78: Collective(0, 2, 3 * MS), 79: Collective(0, 1, MS)}
        )

        assert Span(then, now).lag_ns() == 7 * MS


class TestWall:
    def test_two_states_at_one_moment_are_a_nanosecond_apart(self) -> None:
        """A share of the wall time exists always."""
        assert Span(a_state(5), a_state(5)).wall_ns == 1
