"""faults.trials.truth: what a step log shows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from tests.faults.job import Step
from tests.faults.trials.truth import truth_of

MS = 1_000_000
SECOND = 1000 * MS
ON, OFF = 20 * SECOND, 30 * SECOND


def steps_of(*parts: tuple[int, int, int], rank: int = 0, gap_ms: int = 0) -> list[Step]:
    """parts: (until, length, every) in s, ms, and how often a step is longer by a second; 0 for never. gap_ms: between steps."""
    found: list[Step] = []
    now_ns = 0
    for until_seconds, length_ms, every in parts:
        while now_ns < until_seconds * SECOND:
            number = len(found) + 1
            end_ns = now_ns + length_ms * MS + (SECOND if every and number % every == 0 else 0)
            found.append(Step(rank, number, now_ns, end_ns, 0, 0, 0, 0))
            now_ns = end_ns + gap_ms * MS
    return found


def server(*parts: tuple[int, int]) -> list[Step]:
    """A request each 100 ms. parts: (until, length) in s and ms."""
    found: list[Step] = []
    for until_seconds, length_ms in parts:
        while (now_ns := len(found) * 100 * MS) < until_seconds * SECOND:
            found.append(Step(0, len(found), now_ns, now_ns + length_ms * MS, 0, 0, 0, 0))
    return found


def slowed(by_ms: int, steps: Iterable[Step] = ()) -> list[Step]:
    """100 ms each, longer by this from 20 to 30 s."""
    return [*steps_of((20, 100, 0), (30, 100 + by_ms, 0), (40, 100, 0)), *steps]


class TestTruth:
    """One fault from 20 to 30 s."""

    def test_longer_steps_are_the_impact(self) -> None:
        """150 ms in place of 100: half as long again, a third of the time."""
        truth = truth_of(slowed(50), ON, OFF)

        assert truth.impact == pytest.approx(0.5)
        assert truth.lost_share == pytest.approx(1 / 3, abs=0.01)
        assert truth.lost_ns == pytest.approx(10 / 3 * SECOND, rel=0.02)
        assert truth.is_real

    def test_rates_are_steps_per_second(self) -> None:
        """10, 5, and 10 again."""
        assert truth_of(slowed(100), ON, OFF).rates == pytest.approx((10, 5, 10), rel=0.02)

    def test_hardly_longer_steps_are_no_fault(self) -> None:
        """10 %, of which the engine may say what it likes."""
        assert not truth_of(slowed(10), ON, OFF).is_real

    def test_few_much_longer_steps_are_a_fault(self) -> None:
        """Each tenth takes a second more: the median does not show it, half of the time is lost."""
        truth = truth_of(steps_of((20, 100, 0), (30, 100, 10), (40, 100, 0)), ON, OFF)

        assert truth.impact == pytest.approx(0)
        assert truth.lost_share == pytest.approx(0.5, abs=0.1)
        assert truth.is_real

    def test_long_steps_that_came_before_as_well_are_none(self) -> None:
        """Each tenth takes a second more, from the first on."""
        assert not truth_of(steps_of((40, 100, 10)), ON, OFF).is_real

    def test_job_that_makes_no_step_loses_all(self) -> None:
        """From the begin to the end of the log."""
        truth = truth_of(steps_of((20, 100, 0)), ON + 1, OFF)

        assert truth.lost_share == 1
        assert truth.is_real

    def test_time_between_steps_counts(self) -> None:
        """Steps of 60 ms with 40 between: 100 ms each."""
        found = truth_of(steps_of((40, 60, 0), gap_ms=40), ON, OFF)

        assert found.rates[0] == pytest.approx(10, rel=0.02)
        assert found.lost_share == pytest.approx(0, abs=0.01)

    def test_server_is_measured_by_the_length_of_its_steps(self) -> None:
        """Ten requests a second, as before; each takes 20 ms longer."""
        truth = truth_of(server((20, 20), (30, 40), (40, 20)), ON, OFF, has_pauses=True)

        assert truth.impact == pytest.approx(1.0)
        assert truth.lost_share == pytest.approx(0.5, abs=0.01)

    def test_steps_that_changed_before_the_fault_prove_nothing(self) -> None:
        """Twice as long from 16 s on."""
        assert not truth_of(steps_of((16, 100, 0), (40, 200, 0)), ON, OFF).is_settled
        assert truth_of(slowed(50), ON, OFF).is_settled

    def test_slowest_rank_counts(self) -> None:
        """Rank 1 is as fast as ever."""
        assert truth_of(slowed(50, steps_of((40, 100, 0), rank=1)), ON, OFF).impact == pytest.approx(0.5)

    def test_first_slow_step_is_the_one_that_begins_to_be_long(self) -> None:
        """The fault came two seconds earlier."""
        assert truth_of(slowed(50), ON - 2 * SECOND, OFF).first_slow_ns == ON

    def test_one_long_step_is_not_the_begin_of_a_fault(self) -> None:
        """It takes more than half as long again, four seconds before all do."""
        steps = slowed(50)
        steps[160] = replace(steps[160], end_ns=steps[160].end_ns + 60 * MS)

        assert truth_of(steps, ON - 5 * SECOND, OFF).first_slow_ns == ON

    def test_job_without_a_past_cannot_be_compared(self) -> None:
        """Its first step ended after the fault came."""
        with pytest.raises(ValueError, match="no steps before the fault"):
            truth_of(steps_of((40, 100, 0)), 0, OFF)
