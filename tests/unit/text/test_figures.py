"""text.figures: numbers, durations, times of day and ranks."""

from __future__ import annotations

from datetime import UTC, timedelta, timezone

import pytest

from exporter.text.figures import compact_duration, duration, factor, named_shares, percent, ranks, rate, time_of_day
from tests.support.history import NOON, SECOND


class TestShares:
    """Percentages."""

    @pytest.mark.parametrize(
        ("share", "text"),
        [
            (0.46, "46 %"),
            (0.0796, "8.0 %"),
            (0.0994, "9.9 %"),
            (0.0995, "10 %"),
            (0.008, "0.8 %"),
            (0.0004, "<0.1 %"),
            (0.0, "0 %"),
            (1.4, "140 %"),
        ],
    )
    def test_one_decimal_below_ten_percent(self, share: float, text: str) -> None:
        assert percent(share) == text

    def test_no_blank_in_tables(self) -> None:
        assert (percent(0.021, ""), percent(0.0004, "")) == ("2.1%", "<0.1%")

    def test_named_shares_below_one_percent_are_left_out(self) -> None:
        assert named_shares([("stress-ng", 0.94), ("cron", 0.04), ("sshd", 0.002)]) == "stress-ng 94 %, cron 4.0 %"


class TestFactor:
    """How many times as long."""

    @pytest.mark.parametrize(
        ("times", "text"), [(1.87, "1.9"), (9.94, "9.9"), (9.95, "10"), (35.6, "36"), (1066.0, "1,066")]
    )
    def test_one_decimal_below_ten(self, times: float, text: str) -> None:
        assert factor(times) == text


class TestDurations:
    """For sentences and for tables."""

    @pytest.mark.parametrize(
        ("duration_ns", "text"),
        [
            (2_900, "2.9 us"),
            (14_000_000, "14.0 ms"),
            (148_200_000, "148 ms"),
            (9_300_000_000, "9.3 s"),
            (24 * SECOND, "24 s"),
            (200 * SECOND, "3 min 20 s"),
            (300 * SECOND, "5 min"),
            (3_600 * SECOND, "1 h"),
            (18_720 * SECOND, "5 h 12 min"),
        ],
    )
    def test_duration(self, duration_ns: int, text: str) -> None:
        assert duration(duration_ns) == text

    @pytest.mark.parametrize(
        ("length_seconds", "text"),
        [
            (0.0, "0s"),
            (850e-9, "850ns"),
            (2.17e-6, "2.17µs"),
            (999.4e-6, "999µs"),
            (999.6e-6, "1.00ms"),
            (13.14e-3, "13.1ms"),
            (1.2449, "1.24s"),
            (59.9, "59.9s"),
            (59.96, "1m00s"),
            (123.0, "2m03s"),
            (3720.0, "1h02m"),
            (float("inf"), ">68m"),
        ],
    )
    def test_compact_duration_has_three_digits(self, length_seconds: float, text: str) -> None:
        assert compact_duration(length_seconds) == text

    def test_compact_duration_in_ascii(self) -> None:
        assert compact_duration(2.17e-6, "u") == "2.17us"


class TestRate:
    """Events per second."""

    @pytest.mark.parametrize(
        ("per_second", "text"),
        [(0, "0"), (0.965, "0.96"), (53.1, "53.1"), (480, "480"), (8496, "8.50k"), (1.2e6, "1.20M"), (3e10, "30G")],
    )
    def test_three_digits(self, per_second: float, text: str) -> None:
        assert rate(per_second) == text


class TestTimeOfDay:
    """Times in the reader's zone."""

    def test_time_has_its_zone(self) -> None:
        zone = timezone(timedelta(hours=2), "CEST")

        assert time_of_day(NOON, NOON, zone) == "10:00:00 CEST"

    def test_another_day_has_its_date(self) -> None:
        assert time_of_day(NOON - 86_400 * SECOND, NOON, UTC) == "2027-01-14 08:00:00 UTC"


class TestRanks:
    """Many ranks in a short text."""

    @pytest.mark.parametrize(
        ("numbers", "text"),
        [
            ("3", "rank 3"),
            ("012467", "ranks 0-2, 4, 6, 7"),
            (["10", "9", "8", "", "other"], "ranks 8-10, other"),
        ],
    )
    def test_consecutive_ranks_are_ranges(self, numbers: list[str], text: str) -> None:
        assert ranks(numbers) == text
