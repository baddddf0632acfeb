"""moment: a time in the past, in the forms that people write."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from exporter.config.moment import past_unix_ns
from exporter.units import NANOSECONDS

NOW = datetime(2027, 1, 15, 14, 30, 0, tzinfo=UTC)
LOCAL = NOW.astimezone()


def past(text: str) -> float:
    return past_unix_ns(text, NOW.timestamp) / NANOSECONDS


class TestPast:
    def test_duration_is_so_long_ago(self) -> None:
        assert past("90m") == (NOW - timedelta(minutes=90)).timestamp()

    def test_date_with_a_zone(self) -> None:
        assert past("2027-01-15T14:02:11Z") == datetime(2027, 1, 15, 14, 2, 11, tzinfo=UTC).timestamp()

    def test_date_without_a_zone_is_local(self) -> None:
        wanted = LOCAL.replace(microsecond=0) - timedelta(hours=1)

        assert past(wanted.strftime("%Y-%m-%d %H:%M:%S")) == wanted.timestamp()

    def test_time_of_day_is_the_last_one(self) -> None:
        """A later one than now was yesterday."""
        earlier, later = LOCAL - timedelta(minutes=1), LOCAL + timedelta(minutes=1)

        assert past(earlier.strftime("%H:%M")) == earlier.timestamp()
        assert past(later.strftime("%H:%M:%S")) == (later - timedelta(days=1)).timestamp()

    @pytest.mark.parametrize(
        "text", ["", "noon", "25:00", "12:61", "2027-01-15T14:31:00Z", "1969-12-31T00:00:00Z", "9" * 400]
    )
    def test_anything_else_is_refused(self, text: str) -> None:
        with pytest.raises(ValueError, match="want a time in the past, such as 14:02"):
            past(text)
