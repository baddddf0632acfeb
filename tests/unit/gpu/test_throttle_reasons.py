"""throttling: the driver's bits to reasons, samples to time."""

from __future__ import annotations

import pytest

from exporter.gpu.throttle_reasons import REASONS, Throttling, reasons_of

SECOND = 1_000_000_000


def booked(*samples: tuple[int | None, float]) -> dict[str, int]:
    """Reasons with time, of samples: bits, and the second at which each was taken. A gap is more than five seconds."""
    throttling = Throttling(5 * SECOND)
    for bits, at_seconds in samples:
        throttling.add(bits, int(at_seconds * SECOND))
    return {reason: ns for reason, ns in throttling.total_ns().items() if ns}


class TestReasons:
    """nvmlClocksEventReasons."""

    @pytest.mark.parametrize(
        ("bits", "reasons"),
        [
            (0x0, set()),
            (0x2, {"app_clocks"}),
            (0x4, {"power"}),
            (0x8, {"hw_slowdown"}),
            (0x10, {"sync_boost"}),
            (0x20, {"thermal_sw"}),
            (0x40, {"thermal_hw"}),
            (0x80, {"hw_power_brake"}),
            (0x100, {"display"}),
            (0x24, {"power", "thermal_sw"}),
        ],
    )
    def test_each_bit_has_its_reason(self, bits: int, reasons: set[str]) -> None:
        """Several can hold at a time."""
        assert reasons_of(bits) == reasons

    def test_idle_gpu_is_not_held_down(self) -> None:
        """Its clocks are low since nobody needs them."""
        assert reasons_of(0x1) == set()

    @pytest.mark.parametrize(("bits", "reason"), [(0x48, "thermal_hw"), (0x88, "hw_power_brake")])
    def test_hardware_slowdown_with_a_cause_is_that_cause(self, bits: int, reason: str) -> None:
        """The driver sets both bits."""
        assert reasons_of(bits) == {reason}

    @pytest.mark.parametrize("bits", [0x200, 0x400, 1 << 63])
    def test_bit_that_nobody_knows_is_other(self, bits: int) -> None:
        """Beside those that are known."""
        assert reasons_of(bits | 0x4) == {"power", "other"}

    def test_the_set_is_closed(self) -> None:
        """Whatever the bits are."""
        assert reasons_of((1 << 64) - 1) <= set(REASONS)


class TestTime:
    """What a sample stands for."""

    def test_sample_stands_for_the_time_since_the_one_before(self) -> None:
        """By its own bits, not by those of the earlier."""
        assert booked((0x0, 0), (0x4, 1), (0x0, 2)) == {"power": SECOND}

    def test_first_sample_stands_for_nothing(self) -> None:
        """Nobody knows since when."""
        assert booked((0x4, 100)) == {}

    def test_gap_is_not_booked(self) -> None:
        """A sample that comes later than five seconds after the one before begins anew."""
        assert booked((0x4, 0), (0x4, 1), (0x4, 61), (0x4, 62)) == {"power": 2 * SECOND}

    def test_late_sample_is_no_gap(self) -> None:
        """Up to five seconds."""
        assert booked((0x4, 0), (0x4, 5)) == {"power": 5 * SECOND}

    def test_sample_after_one_that_failed_stands_for_nothing(self) -> None:
        """Nobody knows what was meanwhile, however short it was."""
        throttling = Throttling(5 * SECOND)
        throttling.add(0x4, 0)
        throttling.miss()
        throttling.add(0x4, 2 * SECOND)
        throttling.add(0x4, 3 * SECOND)

        assert throttling.total_ns()["power"] == SECOND

    def test_sample_that_does_not_tell_is_a_gap(self) -> None:
        """Though it came in time."""
        assert booked((0x4, 0), (None, 1), (0x4, 2), (0x4, 3)) == {"power": SECOND}

    def test_reasons_overlap(self) -> None:
        """Each gets the whole time."""
        assert booked((0x0, 0), (0x24, 1)) == {"power": SECOND, "thermal_sw": SECOND}

    def test_every_reason_is_told_from_the_first_sample_on(self) -> None:
        """With 0, so that a rate has something to begin with; a device that never tells has none."""
        throttling = Throttling(SECOND)
        throttling.add(None, 0)
        assert throttling.total_ns() == {}
        throttling.add(0, 0)

        assert throttling.total_ns() == dict.fromkeys(REASONS, 0)
