"""What is known of places on this machine, be they containers or the machine itself: totals that never go back.

In: counts as their sources tell them; sources end with a container, wrap, are reset, or come under another name. Out: totals by
place. A place is an Identity without a rank, and the machine itself one without a container.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Final, NamedTuple

from exporter.model import Identity
from exporter.totals import HistogramTotal, Series, Total

MAX_CONTAINERS: Final = 128
"""Containers told apart at a time; all others of a node are one, `other`."""

OTHER: Final = "other"


class TracedProcess(NamedTuple):
    """One that is exported. process: its number. tgid: as the exporter sees it, 0 where it does not."""

    process: int
    tgid: int
    identity: Identity


TotalsByIdentity = Mapping[Identity, Mapping[Series, Total]]
"""Place -> series -> total."""


class HostTotals:
    """Totals by place. ttl_ns: how long the totals of a place outlive its last source.

    A round is begin(), count() and level() for what there is, totals().
    """

    def __init__(self, ttl_ns: int, max_places: int = MAX_CONTAINERS) -> None:
        self._ttl_ns = ttl_ns
        self._max_places = max_places
        self._counted: dict[Identity, dict[Series, Total]] = {}
        self._levels: dict[Identity, dict[Series, Total]] = {}
        self._last: dict[tuple[Hashable, Series], Total] = {}
        self._source_seen_ns: dict[tuple[Hashable, Series], int] = {}
        self._place_seen_ns: dict[Identity, int] = {}
        self._now_ns = 0
        self.resets = 0
        """Counts that were lower than the time before; each then began anew."""

    def begin(self, now_ns: int) -> None:
        """A round begins. now_ns: CLOCK_MONOTONIC."""
        self._now_ns = now_ns
        self._levels = {}

    def count(self, source: Hashable, place: Identity, series: Series, total: Total) -> None:
        """A counter or histogram of a source, as it stands: what was added since the last time is the place's."""
        key = (source, series)
        before = self._last.get(key)
        grown = total if before is None else _since(total, before)
        if grown is None:
            self.resets += 1
            grown = total
        self._last[key] = total
        self._source_seen_ns[key] = self._now_ns
        of_place = self._counted.setdefault(self._admitted(place), {})
        of_place[series] = _plus(of_place[series], grown) if series in of_place else grown

    def forget(self, source: Hashable, series: Iterable[Series]) -> None:
        """The source has ended, and its counts stay. One of its name that comes later counts from 0."""
        for one in series:
            self._last.pop((source, one), None)
            self._source_seen_ns.pop((source, one), None)

    def level(self, place: Identity, series: Series, value: int) -> None:
        """A gauge or info: those of several sources of a place are added up."""
        of_place = self._levels.setdefault(self._admitted(place), {})
        before = of_place.get(series, 0)
        assert isinstance(before, int)  # noqa: S101 - a metric is one kind of total throughout
        of_place[series] = before + value

    def totals(self) -> TotalsByIdentity:
        """Of all places; those of which nothing was heard for long are gone."""
        oldest_ns = self._now_ns - self._ttl_ns
        for key in [key for key, seen_ns in self._source_seen_ns.items() if seen_ns < oldest_ns]:
            del self._source_seen_ns[key], self._last[key]
        for place in [place for place, seen_ns in self._place_seen_ns.items() if seen_ns < oldest_ns]:
            del self._place_seen_ns[place]
            self._counted.pop(place, None)
        places = self._counted.keys() | self._levels.keys()
        return {place: self._counted.get(place, {}) | self._levels.get(place, {}) for place in places}

    def _admitted(self, place: Identity) -> Identity:
        """The place itself while there is room for it."""
        if place not in self._place_seen_ns and len(self._place_seen_ns) >= self._max_places and place.container:
            place = Identity(place.node, container=OTHER)
        self._place_seen_ns[place] = self._now_ns
        return place


def _since(total: Total, before: Total) -> Total | None:
    """What was added; None when it cannot be the same count."""
    if isinstance(total, HistogramTotal) and isinstance(before, HistogramTotal):
        return total.minus(before) if total.counts.total >= before.counts.total else None
    if isinstance(total, int) and isinstance(before, int):
        return total - before if total >= before else None
    return None


def _plus(before: Total, grown: Total) -> Total:
    if isinstance(before, HistogramTotal) and isinstance(grown, HistogramTotal):
        return before.plus(grown)
    assert isinstance(before, int)  # noqa: S101 - a metric is one kind of total throughout
    assert isinstance(grown, int)  # noqa: S101
    return before + grown
