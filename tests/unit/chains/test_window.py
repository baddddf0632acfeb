"""window: a second of a job in a few figures, and what several have in common."""

from __future__ import annotations

import pytest

from exporter.causes import Cause
from exporter.chains.window import deviation, level_of, lost_shares, median, window_of
from tests.unit.chains.job import SECOND
from tests.unit.chains.states import MS, a_span, a_window

DISK = (Cause.BLOCK_IO, "")


class TestWindowOf:
    def test_figures_are_of_a_step_and_shares_of_the_time(self) -> None:
        """40 steps of 20 ms in a second, with 2,000 calls; a fifth lost to a disk, and a tenth undecided."""
        span = a_span(
            1,
            late_ns=0.5 * SECOND,
            steps=40,
            steps_ns=800 * MS,
            calls=2000,
            lost_ns={DISK: 200 * MS},
            undecided_ns=100 * MS,
        )
        window = window_of(span)

        assert (window.ended_ns, window.wall_ns, window.steps) == (101 * SECOND, SECOND, 40)
        assert (window.step_ns, window.calls_per_step) == (20 * MS, 50.0)
        assert window.lost == {Cause.BLOCK_IO: 0.2}
        assert (window.lost_of_all, window.late) == (pytest.approx(0.3), 0.5)

    def test_without_steps_there_is_no_length(self) -> None:
        window = window_of(a_span(1, calls=12))

        assert (window.step_ns, window.calls_per_step) == (0.0, 0.0)


class TestLostShares:
    def test_culprits_of_a_cause_are_summed(self) -> None:
        lost_ns = {(Cause.CPU_CONTENTION, "a"): 300 * MS, (Cause.CPU_CONTENTION, "b"): 100 * MS, DISK: 200 * MS}

        assert lost_shares(a_span(2, lost_ns=lost_ns)) == {Cause.CPU_CONTENTION: 0.2, Cause.BLOCK_IO: 0.1}


class TestLevelOf:
    def test_it_is_the_mean_by_length(self) -> None:
        """One second of which half is lost, and three without a loss."""
        slow = a_window(1, 20.0, lost=0.5, late=0.4)
        calm = a_window(4, 10.0)._replace(wall_ns=3 * SECOND)
        level = level_of([slow, calm])

        assert (level.late, level.lost, level.lost_of_all) == (0.1, {Cause.BLOCK_IO: 0.125}, 0.125)

    def test_calls_are_the_median_of_windows_with_steps(self) -> None:
        level = level_of([a_window(1, 10.0, calls=50.0), a_window(2, 0.0, calls=0.0), a_window(3, 10.0, calls=52.0)])

        assert level.calls_per_step == 51.0

    def test_spread_is_that_of_the_windows(self) -> None:
        """0 and 0.2 in turn, one left out: 0.099 from the mean of the nine others."""
        level = level_of([a_window(second, 10.0, late=0.2 * (second % 2)) for second in range(10)])

        assert level.spread == pytest.approx(1.2533 * 0.2 * 2 * (4 / 9) * (5 / 9))


class TestMedian:
    @pytest.mark.parametrize(
        ("values", "middle"), [((), 0.0), ((3.0,), 3.0), ((5.0, 1.0, 2.0), 2.0), ((4.0, 1.0), 2.5)]
    )
    def test_median(self, values: tuple[float, ...], middle: float) -> None:
        assert median(values) == middle

    def test_deviation_ignores_one_outlier(self) -> None:
        """1, -1 and 1 remain, with a mean of 1/3: 8/9 from it."""
        assert deviation([1.0, -1.0, 1.0, 100.0]) == pytest.approx(1.2533 * 8 / 9)

    def test_deviation_sees_a_habit(self) -> None:
        """A pause in every fourth second: of eight, one of two is left."""
        assert deviation([0.0, 0.0, 0.0, 1.0] * 2) == pytest.approx(1.2533 * 2 * (1 / 7) * (6 / 7))
