"""explanation.words: numbers, times and ranks for people."""

from __future__ import annotations

from datetime import UTC, timedelta, timezone

import pytest

from exporter.explain.formatting import length, parts, percent, ranks, time_of_day
from tests.support.history import NOON, SECOND


class TestNumbers:
    """As many digits as say something."""

    @pytest.mark.parametrize(
        ("share", "told"),
        [(0.46, "46 %"), (0.0796, "8.0 %"), (0.0995, "10 %"), (0.008, "0.8 %"), (0.0, "0 %"), (1.4, "140 %")],
    )
    def test_shares(self, share: float, told: str) -> None:
        """Below ten percent a digit more."""
        assert percent(share) == told

    @pytest.mark.parametrize(
        ("duration_ns", "told"),
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
    def test_lengths(self, duration_ns: int, told: str) -> None:
        """In the unit that fits."""
        assert length(duration_ns) == told

    def test_trifles_are_left_out_of_parts(self) -> None:
        """Below one percent."""
        assert parts([("stress-ng", 0.94), ("cron", 0.04), ("sshd", 0.002)]) == "stress-ng 94 %, cron 4.0 %"


class TestTimes:
    """Of day."""

    def test_time_has_its_zone(self) -> None:
        """The reader's one."""
        zone = timezone(timedelta(hours=2), "CEST")

        assert time_of_day(NOON, NOON, zone) == "10:00:00 CEST"

    def test_another_day_is_named(self) -> None:
        """At midnight everything is of yesterday."""
        assert time_of_day(NOON - 86_400 * SECOND, NOON, UTC) == "2027-01-14 08:00:00 UTC"


class TestRanks:
    """Many in little room."""

    @pytest.mark.parametrize(
        ("numbers", "told"),
        [
            ("3", "rank 3"),
            ("012467", "ranks 0-2, 4, 6, 7"),
            (["10", "9", "8", "", "other"], "ranks 8-10, other"),
        ],
    )
    def test_rows_of_ranks_are_spans(self, numbers: list[str], told: str) -> None:
        """By number, not by letter."""
        assert ranks(numbers) == told
