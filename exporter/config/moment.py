"""Text -> a moment in the past, for flags such as --at."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

from exporter.config.parsers import duration
from exporter.units import NANOSECONDS

_TIME_OF_DAY: Final = re.compile(r"(\d{1,2}):(\d\d)(?::(\d\d))?")
_WANTED: Final = "want a time in the past, such as 14:02, 2027-01-15T14:02:11Z, or 90m for 90 minutes ago"


def past_unix_ns(text: str, now: Callable[[], float] = time.time) -> int:
    """Nanoseconds since 1970. A time of day is local, today's or yesterday's; so is a date without a zone. Raises ValueError."""
    now_seconds = now()
    try:
        found_seconds = _unix_seconds(text, now_seconds)
    except (ValueError, OverflowError, OSError):
        raise ValueError(_WANTED) from None
    if not 0 <= found_seconds <= now_seconds:
        raise ValueError(_WANTED)
    return int(found_seconds * NANOSECONDS)


def _unix_seconds(text: str, now_seconds: float) -> float:
    if (of_day := _TIME_OF_DAY.fullmatch(text)) is not None:
        hour, minute, second = (int(part or 0) for part in of_day.groups())
        moment = (
            datetime.fromtimestamp(now_seconds)
            .astimezone()
            .replace(hour=hour, minute=minute, second=second, microsecond=0)
        )
        return (moment - timedelta(days=moment.timestamp() > now_seconds)).timestamp()
    try:
        return now_seconds - duration(text)
    except ValueError:
        return datetime.fromisoformat(text).astimezone().timestamp()
