"""Arithmetic of totals that only grow, and which of them have outlived their TTL. Used by both stores of this package.

In: cumulative totals of sources that start over, and the time each key was last seen. Out: sums, growth, expired keys. Pure.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final, TypeVar

from exporter.catalog import chains, sched
from exporter.totals import HistogramTotal, Series, Total

K = TypeVar("K", bound=Hashable)

OTHER: Final = "other"
"""What has no series of its own: a container beyond the bound, a culprit."""

_LEVELS = frozenset(metric.name for metric in chains.LEVELS)  # comparing whole metrics takes ten times as long


def add(into: dict[Series, Total], series: Series, total: Total) -> None:
    """Add a total to the sum of its series. A level, such as whether a chain is open, is the maximum instead."""
    earlier = into.get(series)
    if earlier is None:
        into[series] = total
    elif isinstance(earlier, HistogramTotal) and isinstance(total, HistogramTotal):
        into[series] = earlier.plus(total)
    elif isinstance(earlier, int) and isinstance(total, int):
        into[series] = max(earlier, total) if series.metric.name in _LEVELS else earlier + total


def end_surplus_culprits(of_identity: dict[Series, Total]) -> None:
    """Add culprits with the smallest totals to `other`, until no more than MAX_CULPRITS have a series."""
    series = [one for one in of_identity if one.metric is sched.CULPRIT and one.labels[1] not in ("", OTHER)]
    totals: dict[str, int] = {}
    for one in series:
        total = of_identity[one]
        assert isinstance(total, int)  # noqa: S101 - a counter
        totals[one.labels[1]] = totals.get(one.labels[1], 0) + total
    surplus = sorted(totals, key=lambda culprit: (totals[culprit], culprit))[: max(len(totals) - sched.MAX_CULPRITS, 0)]
    for one in series:
        cause, culprit = one.labels
        if culprit in surplus:
            add(of_identity, Series(sched.CULPRIT, (cause, OTHER)), of_identity.pop(one))


def growth(total: Total, earlier: Total) -> Total | None:
    """What a counter or histogram gained since `earlier`; None when it started over at 0, since it counts less than before."""
    if isinstance(total, int) and isinstance(earlier, int):
        return total - earlier if total >= earlier else None
    assert isinstance(total, HistogramTotal)  # noqa: S101 - a metric is one kind of total throughout
    assert isinstance(earlier, HistogramTotal)  # noqa: S101
    return total.minus(earlier) if total.counts.total >= earlier.counts.total else None


class LastSeen(dict[K, int]):
    """Key -> when it was last seen, in nanoseconds of CLOCK_MONOTONIC."""

    def expire(self, now_ns: int, ttl_ns: float) -> list[K]:
        """Remove and return the keys last seen longer ago than ttl_ns."""
        expired = [key for key, seen_ns in self.items() if now_ns - seen_ns > ttl_ns]
        for key in expired:
            del self[key]
        return expired
