"""The time span of a page, which stands in its URL, and in every link from it: `?since=1h&until=2027-01-15T14:02:00Z`."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final, NamedTuple, Self
from urllib.parse import quote, urlencode

from exporter.errors import BadInput
from exporter.serve.tools.parameters import TEXT_CHARACTERS_MAX
from exporter.serve.tools.tool import AT, SINCE
from exporter.units import NANOSECONDS

DEFAULT_SINCE: Final = str(SINCE.default)
UNTIL: Final = "until"
_MILLISECOND: Final = 1_000_000
CHOICES: Final = ("15m", "1h", "6h", "24h")


class PageSpan(NamedTuple):
    """As they were given. since: how long it is. until: its end; empty for now."""

    since: str = DEFAULT_SINCE
    until: str = ""

    @classmethod
    def of(cls, query: Mapping[str, str]) -> Self:
        """Raises BadInput."""
        since, until = query.get(SINCE.name, "").strip() or DEFAULT_SINCE, query.get(UNTIL, "").strip()
        if max(len(since), len(until)) > TEXT_CHARACTERS_MAX:
            raise BadInput("the time span is too long a text", remedy=AT.meaning)
        return cls(since, until)

    @property
    def arguments(self) -> dict[str, str]:
        """The span as arguments for a tool."""
        return {SINCE.name: self.since, AT.name: self.until}

    def link(self, *path: str, **more: str) -> str:
        """The URL of a page for the same span. path: its parts."""
        asked = {SINCE.name: self.since, **({UNTIL: self.until} if self.until else {}), **more}
        return f"/{'/'.join(quote(part, safe='') for part in path)}?{urlencode(asked)}"

    def fixed(self, now_unix_ns: int) -> Self:
        """The same span with an end that stays."""
        return self._replace(until=moment_text(now_unix_ns))


def moment_text(unix_ns: int) -> str:
    """`2027-01-15T14:02:00.123Z`, which flags and tools read: not later, since a time in the future is refused."""
    whole, rest_ns = divmod(unix_ns, NANOSECONDS)
    return f"{datetime.fromtimestamp(whole, UTC):%Y-%m-%dT%H:%M:%S}.{rest_ns // _MILLISECOND:03}Z"
