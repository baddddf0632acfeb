"""formatting: numbers, times and ranks for people."""

from __future__ import annotations

from datetime import UTC, timedelta, timezone

import pytest

from exporter.explain.formatting import length, parts, percent, ranks, time_of_day
from tests.support.history import NOON, SECOND


class TestNumbers:
    @pytest.mark.parametrize(
        ("share", "text"),
        [(0.46, "46 %"), (0.0796, "8.0 %"), (0.0995, "10 %"), (0.008, "0.8 %"), (0.0, "0 %"), (1.4, "140 %")],
    )
    def test_percentages_below_ten_have_one_decimal(self, share: float, text: str) -> None:
        assert percent(share) == text

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
    def test_durations_have_a_fitting_unit(self, duration_ns: int, text: str) -> None:
        assert length(duration_ns) == text

    def test_shares_below_one_percent_are_left_out(self) -> None:
        assert parts([("stress-ng", 0.94), ("cron", 0.04), ("sshd", 0.002)]) == "stress-ng 94 %, cron 4.0 %"


class TestTimeOfDay:
    def test_has_the_zone_of_the_reader(self) -> None:
        zone = timezone(timedelta(hours=2), "CEST")

        assert time_of_day(NOON, NOON, zone) == "10:00:00 CEST"

    def test_another_day_has_its_date(self) -> None:
        assert time_of_day(NOON - 86_400 * SECOND, NOON, UTC) == "2027-01-14 08:00:00 UTC"


class TestRanks:
    @pytest.mark.parametrize(
        ("numbers", "text"),
        [
            ("3", "rank 3"),
            ("012467", "ranks 0-2, 4, 6, 7"),
            (["10", "9", "8", "", "other"], "ranks 8-10, other"),
        ],
    )
    def test_consecutive_ranks_are_joined(self, numbers: list[str], text: str) -> None:
        assert ranks(numbers) == text
