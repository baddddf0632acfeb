"""throttle_reasons: the driver's bits to reasons, samples to time."""

from __future__ import annotations

import pytest

from exporter.gpu.throttle_reasons import REASONS, Throttling, reasons_of

SECOND = 1_000_000_000


def throttled_ns(*samples: tuple[int | None, float]) -> dict[str, int]:
    """Reasons with time, for samples of (bits, second). A gap is longer than five seconds."""
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
        """Several can apply at a time."""
        assert reasons_of(bits) == reasons

    def test_idle_gpu_is_not_throttled(self) -> None:
        """Its clocks are low because it has no work."""
        assert reasons_of(0x1) == set()

    @pytest.mark.parametrize(("bits", "reason"), [(0x48, "thermal_hw"), (0x88, "hw_power_brake")])
    def test_hardware_slowdown_with_a_cause_is_that_cause(self, bits: int, reason: str) -> None:
        """The driver sets both bits."""
        assert reasons_of(bits) == {reason}

    @pytest.mark.parametrize("bits", [0x200, 0x400, 1 << 63])
    def test_unknown_bit_is_other(self, bits: int) -> None:
        """In addition to the known ones."""
        assert reasons_of(bits | 0x4) == {"power", "other"}

    def test_reasons_are_a_closed_set(self) -> None:
        """For any bits."""
        assert reasons_of((1 << 64) - 1) <= set(REASONS)


class TestTime:
    """The time that a sample covers."""

    def test_sample_covers_the_time_since_the_one_before(self) -> None:
        """With its own bits, not those of the earlier one."""
        assert throttled_ns((0x0, 0), (0x4, 1), (0x0, 2)) == {"power": SECOND}

    def test_first_sample_covers_no_time(self) -> None:
        assert throttled_ns((0x4, 100)) == {}

    def test_sample_after_a_gap_covers_no_time(self) -> None:
        """Longer than five seconds."""
        assert throttled_ns((0x4, 0), (0x4, 1), (0x4, 61), (0x4, 62)) == {"power": 2 * SECOND}

    def test_sample_after_five_seconds_is_no_gap(self) -> None:
        assert throttled_ns((0x4, 0), (0x4, 5)) == {"power": 5 * SECOND}

    def test_sample_after_a_failed_one_covers_no_time(self) -> None:
        """However short the time between was."""
        throttling = Throttling(5 * SECOND)
        throttling.add(0x4, 0)
        throttling.miss()
        throttling.add(0x4, 2 * SECOND)
        throttling.add(0x4, 3 * SECOND)

        assert throttling.total_ns()["power"] == SECOND

    def test_sample_without_bits_is_a_gap(self) -> None:
        assert throttled_ns((0x4, 0), (None, 1), (0x4, 2), (0x4, 3)) == {"power": SECOND}

    def test_reasons_overlap(self) -> None:
        """Each gets the whole time."""
        assert throttled_ns((0x0, 0), (0x24, 1)) == {"power": SECOND, "thermal_sw": SECOND}

    def test_every_reason_starts_at_0(self) -> None:
        """So that increase() sees the first one; a GPU that never reports has none."""
        throttling = Throttling(SECOND)
        throttling.add(None, 0)
        assert throttling.total_ns() == {}
        throttling.add(0, 0)

        assert throttling.total_ns() == dict.fromkeys(REASONS, 0)
