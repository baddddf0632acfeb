"""regime: medians of quiet windows, and whether other steps belong to them."""

from __future__ import annotations

import pytest

from exporter.causes import Cause
from exporter.chains.regime import Regime, is_same_work
from tests.unit.chains.job import SECOND
from tests.unit.chains.states import MS, a_regime, a_window


class TestMedians:
    def test_without_windows_nothing_is_known(self) -> None:
        regime = Regime()

        assert (regime.is_known, regime.step_ns, regime.lost, regime.began_ns) == (False, 0.0, {}, 0)

    def test_length_calls_and_loss_are_medians(self) -> None:
        """One slow window of five moves none of them."""
        regime = a_regime(10.0, 10.0, 40.0, 10.0, 10.0, lost=0.1)

        assert (regime.step_ns, regime.calls_per_step) == (10 * MS, 50.0)
        assert (regime.lost, regime.lost_of_all) == ({Cause.BLOCK_IO: 0.1}, 0.1)

    def test_it_begins_with_its_first_window(self) -> None:
        """Which ended at second 101, and lasted for one."""
        regime = a_regime(10.0, 10.0)
        regime.add(a_window(103, 10.0))

        assert regime.began_ns == 100 * SECOND

    def test_first_window_may_be_added_later(self) -> None:
        regime = Regime()
        regime.add(a_window(9, 10.0))

        assert regime.began_ns == 8 * SECOND

    def test_only_the_last_sixty_windows_count(self) -> None:
        regime = a_regime(*[10.0] * 60)
        for second in range(61, 92):
            regime.add(a_window(second, 10.6))

        assert regime.step_ns == 10.6 * MS

    def test_without_steps_the_spread_is_that_of_the_lost_time(self) -> None:
        """0, 0.1 and 0.2 of the time, in turn; one that differs by 0.1 from their mean is left out."""
        regime = Regime([a_window(second, 0.0, lost=0.1 * (second % 3)) for second in range(9)])

        late = [0.0] * 2 + [0.1] * 3 + [0.2] * 3
        assert regime.spread == pytest.approx(1.2533 * sum(abs(one - 0.1125) for one in late) / 8)


class TestKnown:
    @pytest.mark.parametrize(("windows", "is_known"), [(4, False), (5, True)])
    def test_five_windows_are_needed(self, windows: int, *, is_known: bool) -> None:
        assert a_regime(*[10.0] * windows).is_known is is_known

    @pytest.mark.parametrize(("windows", "is_known"), [(9, False), (10, True)])
    def test_ten_steps_are_needed(self, windows: int, *, is_known: bool) -> None:
        """A step each."""
        assert a_regime(*[1000.0] * windows).is_known is is_known

    def test_job_without_steps_needs_windows_alone(self) -> None:
        assert a_regime(*[0.0] * 5).is_known


class TestWorthKeeping:
    @pytest.mark.parametrize(("windows", "is_worth"), [(9, False), (10, True)])
    def test_ten_windows_are_needed(self, windows: int, *, is_worth: bool) -> None:
        assert a_regime(*[10.0] * windows).is_worth_keeping is is_worth

    def test_fault_is_not_kept(self) -> None:
        """When it comes back it is a fault again."""
        assert not a_regime(*[10.0] * 20, is_fault=True).is_worth_keeping

    def test_job_without_steps_has_nothing_to_come_back_to(self) -> None:
        assert not a_regime(*[0.0] * 20).is_worth_keeping


class TestFaster:
    @pytest.mark.parametrize(("step_ms", "is_faster"), [(9.1, False), (8.9, True)])
    def test_a_tenth_is_needed(self, step_ms: float, *, is_faster: bool) -> None:
        assert a_regime(*[10.0] * 5).is_faster(a_window(9, step_ms)) is is_faster

    def test_window_without_steps_is_not_faster(self) -> None:
        assert not a_regime(*[10.0] * 5).is_faster(a_window(9, 0.0))


class TestFits:
    """Steps of 10 ms with 50 calls."""

    @pytest.mark.parametrize(
        ("step_ms", "calls", "fits"),
        [(10.4, 50.0, True), (10.6, 50.0, False), (9.6, 50.0, True), (10.0, 54.0, True), (10.0, 60.0, False)],
    )
    def test_five_percent_of_length_and_ten_of_calls_are_allowed(
        self, step_ms: float, calls: float, *, fits: bool
    ) -> None:
        assert a_regime(*[10.0] * 10).fits(step_ms * MS, calls) is fits

    def test_two_standard_deviations_are_allowed(self) -> None:
        """Windows of 9, 10 and 11 ms are late by -0.11, 0 and 0.09, which is one of about 0.08: 11.4 ms fit, 12 do not."""
        regime = a_regime(*[9.0, 10.0, 11.0] * 4)

        assert (regime.fits(11.4 * MS, 50.0), regime.fits(12 * MS, 50.0)) == (True, False)

    def test_spread_of_the_other_counts_as_well(self) -> None:
        assert a_regime(*[10.0] * 10).fits(11 * MS, 50.0, spread=0.06)

    def test_nothing_fits_without_steps(self) -> None:
        assert not Regime().fits(10 * MS, 50.0)
        assert not a_regime(*[10.0] * 10).fits(0.0, 50.0)

    def test_regimes_are_alike_by_length_and_calls(self) -> None:
        known = a_regime(*[10.0] * 10)

        assert known.is_like(a_regime(*[10.3] * 10))
        assert not known.is_like(a_regime(*[10.3] * 10, calls=100.0))


class TestSameWork:
    @pytest.mark.parametrize(("calls", "is_same"), [(100.0, True), (90.0, True), (89.0, False), (111.0, True)])
    def test_a_tenth_of_the_larger_one_is_allowed(self, calls: float, *, is_same: bool) -> None:
        assert is_same_work(calls, 100.0) is is_same
