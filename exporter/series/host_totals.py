"""Totals of containers and of the node that never go back, although their sources do.

In: what sources count: they end with a container, wrap, are reset, or continue under another name. Out: totals by identity. The
identity of a container has no rank, and that of the node has no container either. Those that have ended make room for others.
"""

from __future__ import annotations

import logging
from collections.abc import Hashable, Iterable, Mapping
from typing import Final, NamedTuple

from exporter.model import Identity
from exporter.series.accumulation import OTHER, LastSeen, add, growth
from exporter.totals import Series, Total
from exporter.units import NANOSECONDS

log = logging.getLogger(__name__)

MAX_CONTAINERS: Final = 128
"""Identities with a container at a time; all further ones of a node share the container `other`."""
GRACE_NS: Final = 60 * NANOSECONDS
"""So long after its last source a container keeps its place while others wait for one."""


class TracedProcess(NamedTuple):
    """A process that is exported. process: its number. tgid: as the exporter sees it, 0 where it does not."""

    process: int
    tgid: int
    identity: Identity


TotalsByIdentity = Mapping[Identity, Mapping[Series, Total]]


class HostTotals:
    """Totals by identity. ttl_ns: how long those of an identity outlive its last source.

    Use it in rounds: begin(); add_counter() and add_gauge() for all that is there; totals().
    """

    def __init__(self, ttl_ns: int, max_containers: int = MAX_CONTAINERS) -> None:
        self._ttl_ns = ttl_ns
        self._max_containers = max_containers
        self._counters: dict[Identity, dict[Series, Total]] = {}
        self._gauges: dict[Identity, dict[Series, Total]] = {}
        self._last: dict[tuple[Hashable, Series], Total] = {}
        self._sources_seen: LastSeen[tuple[Hashable, Series]] = LastSeen()
        self._identities_seen: LastSeen[Identity] = LastSeen()
        self._before_ns = self._now_ns = 0
        self._has_logged_overflow = False
        self.resets = 0
        """How often a source counted less than the time before: it had started over at 0."""

    def begin(self, now_ns: int) -> None:
        """Start a round, without gauges. now_ns: CLOCK_MONOTONIC."""
        self._before_ns, self._now_ns = self._now_ns, now_ns
        self._gauges = {}

    def add_counter(self, source: Hashable, identity: Identity, series: Series, total: Total) -> None:
        """Add what a counter or histogram of a source gained since the last round. total: cumulative, as the source has it."""
        key = (source, series)
        earlier = self._last.get(key)
        gained = total if earlier is None else growth(total, earlier)
        if gained is None:
            self.resets += 1
            gained = total
        self._last[key] = total
        self._sources_seen[key] = self._now_ns
        add(self._counters.setdefault(self._admitted(identity), {}), series, gained)

    def end_source(self, source: Hashable, series: Iterable[Series]) -> None:
        """Keep what the source has counted. One of the same name that comes later counts from 0."""
        for one in series:
            self._last.pop((source, one), None)
            self._sources_seen.pop((source, one), None)

    def add_gauge(self, identity: Identity, series: Series, value: int) -> None:
        """Add to a gauge or info of this round: several sources of one identity make a sum."""
        add(self._gauges.setdefault(self._admitted(identity), {}), series, value)

    def totals(self) -> TotalsByIdentity:
        """All identities, without those whose TTL is over."""
        for key in self._sources_seen.expire(self._now_ns, self._ttl_ns):
            del self._last[key]
        for identity in self._identities_seen.expire(self._now_ns, self._ttl_ns):
            self._counters.pop(identity, None)
        identities = self._counters.keys() | self._gauges.keys()
        return {one: self._counters.get(one, {}) | self._gauges.get(one, {}) for one in identities}

    def _admitted(self, identity: Identity) -> Identity:
        """The identity while there is room for it, else the node's `other`."""
        seen = self._identities_seen
        is_beyond = identity not in seen and len(seen) >= self._max_containers and bool(identity.container)
        if is_beyond and not self._end_oldest():
            identity = Identity(identity.node, container=OTHER)
        seen[identity] = self._now_ns
        return identity

    def _end_oldest(self) -> bool:
        """Make room for a container: end the totals of one that has had no source in a whole round, and for GRACE_NS."""
        if not self._has_logged_overflow:
            self._has_logged_overflow = True
            log.warning(
                "host-metric series limit %d reached: further containers and ranks count as container `other` until others"
                " end",
                self._max_containers,
            )
        seen = self._identities_seen
        until_ns = min(self._now_ns - GRACE_NS, self._before_ns - 1)  # in this round it may still come
        ended = [one for one, at_ns in seen.items() if at_ns <= until_ns and one.container not in ("", OTHER)]
        if not ended:
            return False
        oldest = min(ended, key=seen.__getitem__)
        del seen[oldest]
        self._counters.pop(oldest, None)
        return True
