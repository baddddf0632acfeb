"""Lines of Python with slow calls, from two readings of the exporter's page call-sites.

In: the page. Out: SlowLines of each identity since the last reading.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, Final, NamedTuple

from exporter.model import Identity
from exporter.scrape.view import SlowLine
from exporter.text import untrusted

PAGE: Final = "call-sites"
BYTES_MAX: Final = 8 << 20
_PROCESSES_MAX: Final = 8_192
_SITES_MAX: Final = 64
"""Lines of a process: the page has no more."""
_LABELS: Final = ("node", "rank", "container", "namespace", "pod")


class SiteKey(NamedTuple):
    """One line of one process that makes calls of one operation."""

    identity: Identity
    pid: int
    operation: str
    line: str


class SiteSum(NamedTuple):
    """Slow calls since the process was first seen."""

    calls: int
    total_seconds: float
    slow_from_seconds: float


class SitesReading(NamedTuple):
    """The content of the page. read_seconds: when the exporter read the sums, by the clock of its machine since its start."""

    read_seconds: float
    sums: Mapping[SiteKey, SiteSum]


def call_sites_of(body: bytes) -> SitesReading:
    """Raises ValueError for other content."""
    document = untrusted.mapping(untrusted.json_value(body, BYTES_MAX))
    read_seconds = untrusted.number(untrusted.member(document, "read_monotonic_seconds"))
    found: dict[SiteKey, SiteSum] = {}
    for process in untrusted.sequence(untrusted.member(document, "processes"), _PROCESSES_MAX):
        found.update(_of_process(process))
    return SitesReading(read_seconds, found)


def _of_process(document: Any) -> Iterator[tuple[SiteKey, SiteSum]]:
    of = partial(untrusted.member, untrusted.mapping(document))
    identity = Identity(*(untrusted.text(of(label)) for label in _LABELS))
    pid = untrusted.count(of("pid"))
    for one in untrusted.sequence(of("call_sites"), _SITES_MAX):
        site = partial(untrusted.member, untrusted.mapping(one))
        line = untrusted.text(site("line"), untrusted.LINE_CHARACTERS)
        total, slow_from = untrusted.number(site("slow_seconds")), untrusted.number(site("slow_from_seconds"))
        key = SiteKey(identity, pid, untrusted.text(site("operation")), line)
        yield key, SiteSum(untrusted.count(site("slow_calls")), total, slow_from)


class SlowLines:
    """Remembers the last reading."""

    def __init__(self) -> None:
        self._last: SitesReading | None = None
        self._lines: dict[Identity, tuple[SlowLine, ...]] = {}

    def add(self, reading: SitesReading) -> dict[Identity, tuple[SlowLine, ...]]:
        """What was added since the last reading; nothing for the first one, whose sums have no beginning.

        The exporter reads the sums once a second: until it does again, the lines are those of the last time.
        """
        last, self._last = self._last, reading
        if last is None or reading.read_seconds != last.read_seconds:
            self._lines = _lines_between(last, reading) if last else {}
        return self._lines


def _lines_between(last: SitesReading, reading: SitesReading) -> dict[Identity, tuple[SlowLine, ...]]:
    now, before = reading.sums, last.sums
    elapsed = abs(reading.read_seconds - last.read_seconds)
    listed = Counter((key.identity, key.pid) for key in before)
    sums: dict[tuple[Identity, str, str], SiteSum] = {}
    for key, one in now.items():
        if key not in before and listed[key.identity, key.pid] >= _SITES_MAX:
            continue  # it may have been there, below those that the page lists
        grown = _grown(one, before.get(key))
        place = key.identity, key.operation, key.line
        if grown.calls:
            sums[place] = _plus(sums[place], grown) if place in sums else grown
    found: dict[Identity, list[SlowLine]] = {}
    for (identity, operation, line), one in sums.items():
        shown = SlowLine(operation, line, one.calls / elapsed, one.total_seconds / elapsed, one.slow_from_seconds)
        found.setdefault(identity, []).append(shown)
    return {identity: tuple(sorted(lines, key=_order)) for identity, lines in found.items()}


def _grown(now: SiteSum, before: SiteSum | None) -> SiteSum:
    """The whole sum of a process with the number of one that has ended."""
    if before is None or now.calls < before.calls:
        return now
    return now._replace(
        calls=now.calls - before.calls, total_seconds=max(now.total_seconds - before.total_seconds, 0.0)
    )


def _plus(one: SiteSum, more: SiteSum) -> SiteSum:
    return SiteSum(
        one.calls + more.calls,
        one.total_seconds + more.total_seconds,
        max(one.slow_from_seconds, more.slow_from_seconds),
    )


def _order(line: SlowLine) -> tuple[float, str, str]:
    return -line.busy_share, line.operation, line.line
