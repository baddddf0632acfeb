"""What a job is like while nothing is wrong, and what it was like before a moment."""

from __future__ import annotations

import pytest

from exporter.causes import Cause
from exporter.chains.baseline import Baseline
from exporter.chains.window import BaselineWindow
from tests.unit.chains.job import SECOND


def window(second: int, step_ms: float, *, calls: float = 50.0, lost: float = 0.0, late: float = 0.0) -> BaselineWindow:
    """One second in which steps took so long; it ends at this second."""
    steps = round(1000 / step_ms)
    return BaselineWindow(second * SECOND, SECOND, steps, step_ms * 1e6, calls, {Cause.BLOCK_IO: lost}, lost, late)


def learned(*step_ms: float, lost: float = 0.0) -> Baseline:
    """From a quiet second each in which steps took so long; calls: 50 a step."""
    baseline = Baseline()
    for second, took in enumerate(step_ms, start=1):
        baseline.learn(window(second, took, lost=lost))
    return baseline


def recorded(baseline: Baseline, first: int, *step_ms: float, usual_ms: float = 10.0, calls: float = 50.0) -> Baseline:
    """Seconds that were not quiet."""
    for second, took in enumerate(step_ms, start=first):
        baseline.record(window(second, took, calls=calls, late=1 - usual_ms / took))
    return baseline


class TestRegime:
    """Medians of quiet seconds."""

    def test_five_seconds_are_enough(self) -> None:
        """Four are not."""
        assert (learned(*[10.0] * 4).usual.is_known, learned(*[10.0] * 5).usual.is_known) == (False, True)

    def test_ten_steps_are_needed(self) -> None:
        """Five seconds of a step each say little."""
        assert (learned(*[1000.0] * 9).usual.is_known, learned(*[1000.0] * 10).usual.is_known) == (False, True)

    def test_one_slow_second_does_not_move_it(self) -> None:
        """The median is what it was."""
        usual = learned(10.0, 10.0, 40.0, 10.0, 10.0).usual

        assert (usual.step_ns, usual.calls_per_step) == (10e6, 50.0)

    def test_spread_is_that_of_the_seconds(self) -> None:
        """Against 10.4 ms, steps of 10.0, 10.4 and 10.8 ms are late by -0.04, 0 and 0.037; one of the first is left out."""
        late = [-0.04] * 3 + [0.0] * 4 + [0.037037] * 4
        mean = sum(late) / 11

        spread = learned(*[10.0, 10.4, 10.8] * 4).usual.spread
        assert spread == pytest.approx(1.2533 * sum(abs(one - mean) for one in late) / 11, rel=0.001)

    def test_job_whose_seconds_differ_takes_ten_of_them(self) -> None:
        """It pauses in every third."""
        pausing = [10.0, 10.0, 20.0]

        assert (learned(*pausing * 3).usual.is_known, learned(*pausing * 4).usual.is_known) == (False, True)
        assert learned(*pausing * 4).usual.late == pytest.approx(1 / 6)

    def test_lost_time_is_a_share_of_the_wall_time(self) -> None:
        """By cause."""
        usual = learned(*[10.0] * 5, lost=0.2).usual

        assert (usual.lost, usual.lost_of_all) == ({Cause.BLOCK_IO: 0.2}, 0.2)

    def test_only_the_last_minute_counts(self) -> None:
        """A job that becomes slower little by little."""
        assert learned(*[10.0] * 100, *[10.9] * 60).usual.step_ns == 10.9e6


class TestFaster:
    """A job whose steps become shorter."""

    def test_faster_job_has_another_regime_after_five_seconds(self) -> None:
        """Its warm-up is over."""
        usual = learned(*[20.0] * 30, *[10.0] * 5).usual

        assert (usual.is_known, usual.step_ns) == (True, 10e6)

    def test_four_faster_seconds_change_nothing(self) -> None:
        """They may be chance."""
        assert learned(*[20.0] * 30, *[10.0] * 4).usual.step_ns == 20e6

    def test_slower_regime_comes_back_without_being_learned_again(self) -> None:
        """Short sequences for a while, then the long ones of before."""
        baseline = learned(*[20.0] * 30, *[10.0] * 12)

        assert baseline.switch(20.4e6, 50.0)
        assert baseline.usual.step_ns == 20e6

    def test_unknown_length_is_no_earlier_regime(self) -> None:
        """A fault that makes steps of 10 ms take 16 is not taken for those of 20."""
        assert not learned(*[20.0] * 30, *[10.0] * 12).switch(16e6, 50.0)

    def test_other_calls_are_no_earlier_regime(self) -> None:
        """Twice as many calls, though the length is the same."""
        assert not learned(*[20.0] * 30, *[10.0] * 12).switch(20e6, 100.0)


class TestAdopting:
    """What lasts becomes the regime."""

    def test_what_the_job_was_like_lately_is_its_regime(self) -> None:
        """A minute of steps that take 7 % longer."""
        baseline = recorded(learned(*[10.0] * 30), 31, *[10.7] * 60)

        assert baseline.adopt()
        assert baseline.usual.step_ns == 10.7e6

    def test_two_seconds_are_not_enough(self) -> None:
        """The regime stays."""
        baseline = recorded(learned(*[10.0] * 30), 31, 10.7, 10.7)

        assert not baseline.adopt()
        assert baseline.usual.step_ns == 10e6

    def test_regime_of_a_fault_is_not_remembered(self) -> None:
        """When it comes again it is a fault again."""
        baseline = recorded(learned(*[10.0] * 30), 31, *[15.0] * 60)
        baseline.adopt(is_fault=True)
        for second in range(91, 120):
            baseline.learn(window(second, 10.0))

        assert not baseline.switch(15e6, 50.0)


class TestLevelBefore:
    """What an episode is compared with."""

    def test_it_is_the_mean_of_the_half_minute(self) -> None:
        """Steps of 10 and of 12.5 ms in turn: late by 0 and by 0.2."""
        level = recorded(Baseline(), 1, *[10.0, 12.5] * 20).level_before(40 * SECOND)

        assert level is not None
        assert level.late == pytest.approx(0.1)

    def test_what_was_before_a_restart_does_not_count(self) -> None:
        """A chain was open then."""
        baseline = recorded(Baseline(), 1, *[20.0] * 10, *[10.0] * 5)
        baseline.restart(10 * SECOND)
        level = baseline.level_before(15 * SECOND)

        assert level is not None
        assert level.late == 0.0

    def test_two_seconds_say_too_little(self) -> None:
        """Unknown."""
        assert recorded(Baseline(), 1, 10.0, 10.0).level_before(2 * SECOND) is None


class TestLastingChange:
    """Reported once, when another regime has lasted for a minute."""

    @staticmethod
    def _baseline() -> Baseline:
        baseline = learned(*[10.0] * 70)
        assert baseline.lasting_change(70 * SECOND) is None
        return baseline

    def test_first_regime_is_no_change(self) -> None:
        """There was nothing before."""
        assert learned(*[10.0] * 61).lasting_change(61 * SECOND) is None

    def test_shift_is_reported_with_both_lengths(self) -> None:
        """Steps of 12 ms instead of 10, for a minute."""
        baseline = recorded(self._baseline(), 71, *[12.0] * 30)
        baseline.adopt()
        for second in range(101, 135):
            baseline.learn(window(second, 12.0))
        change = baseline.lasting_change(134 * SECOND)

        assert change is not None
        assert change.detail == (
            "steps take 12.0 ms (+20 %) with 50 calls for the last minute, 10.0 ms with 50 calls before"
        )
        assert baseline.lasting_change(135 * SECOND) is None

    def test_shift_of_a_few_percent_becomes_the_baseline_without_a_report(self) -> None:
        """3 %."""
        baseline = recorded(self._baseline(), 71, *[10.3] * 30)
        baseline.adopt()

        assert baseline.usual.step_ns == 10.3e6
        assert baseline.lasting_change(134 * SECOND) is None

    def test_drift_is_not_reported(self) -> None:
        """From 10 to 11 ms, a third of a percent a second."""
        baseline = recorded(self._baseline(), 71, *[10 + number / 30 for number in range(30)])
        baseline.adopt()

        assert baseline.lasting_change(134 * SECOND) is None
