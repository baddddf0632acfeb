"""Names of segments: `000012-20270115T14.duckdb`, the twelfth of a store, whose first row arrived between 14 and 15 o'clock UTC.

An open one ends in `.open.duckdb`. Numbers only grow, so that the order of segments is known also where a clock was set back.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final, NamedTuple, Self

from exporter.units import NANOSECONDS

HOUR_NS: Final = 3600 * NANOSECONDS
_NAME: Final = re.compile(r"([0-9]{6,12})-([0-9]{8}T[0-9]{2})(\.open)?\.duckdb")
_HOUR: Final = "%Y%m%dT%H"


class SegmentName(NamedTuple):
    """hour: since 1970, in UTC."""

    number: int
    hour: int
    is_open: bool

    @classmethod
    def parsed(cls, text: str) -> Self | None:
        """None for the name of another file."""
        found = _NAME.fullmatch(text)
        if not found:
            return None
        try:
            began = datetime.strptime(found[2], _HOUR).replace(tzinfo=UTC)
        except ValueError:
            return None
        return cls(int(found[1]), int(began.timestamp()) // 3600, bool(found[3]))

    def __str__(self) -> str:
        hour = datetime.fromtimestamp(self.hour * 3600, UTC).strftime(_HOUR)
        return f"{self.number:06d}-{hour}{'.open' if self.is_open else ''}.duckdb"

    def sealed(self) -> Self:
        return self._replace(is_open=False)


def hour_of(unix_ns: int) -> int:
    return unix_ns // HOUR_NS
