"""Arithmetic of totals that only grow, and which of them have outlived their TTL. Used by both stores of this package.

In: cumulative totals of sources that start over, and the time each key was last seen. Out: sums, growth, expired keys. Pure.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Generic, TypeVar

from exporter.catalog import chains
from exporter.totals import HistogramTotal, Series, Total

K = TypeVar("K", bound=Hashable)


def add(into: dict[Series, Total], series: Series, total: Total) -> None:
    """Add a total to the sum of its series. A level, such as whether a chain is open, is the maximum instead."""
    earlier = into.get(series)
    if earlier is None:
        into[series] = total
    elif isinstance(earlier, HistogramTotal) and isinstance(total, HistogramTotal):
        into[series] = earlier.plus(total)
    elif isinstance(earlier, int) and isinstance(total, int):
        into[series] = max(earlier, total) if series.metric in chains.LEVELS else earlier + total


def minus(total: Total, earlier: Total) -> Total:
    """What a counter or histogram gained since `earlier`."""
    if isinstance(total, HistogramTotal) and isinstance(earlier, HistogramTotal):
        return total.minus(earlier)
    assert isinstance(total, int)  # noqa: S101 - a metric is one kind of total throughout
    assert isinstance(earlier, int)  # noqa: S101
    return total - earlier


def has_reset(total: Total, earlier: Total) -> bool:
    """Whether a source counts less than before, and so has started over at 0."""
    return _calls(total) < _calls(earlier)


def _calls(total: Total) -> int:
    return total.counts.total if isinstance(total, HistogramTotal) else total


class LastSeen(Generic[K]):
    """When each key was last seen, in nanoseconds of CLOCK_MONOTONIC."""

    def __init__(self) -> None:
        self._seen_ns: dict[K, int] = {}

    def __contains__(self, key: K) -> bool:
        return key in self._seen_ns

    def __len__(self) -> int:
        return len(self._seen_ns)

    def see(self, key: K, now_ns: int) -> None:
        self._seen_ns[key] = now_ns

    def forget(self, key: K) -> None:
        self._seen_ns.pop(key, None)

    def expire(self, now_ns: int, ttl_ns: float, keys: Iterable[K] | None = None) -> list[K]:
        """Forget and return the keys last seen longer ago than ttl_ns.

        keys: look at these only; one that was never seen counts as seen now.
        """
        seen_ns = self._seen_ns
        looked_at = seen_ns.keys() if keys is None else keys
        expired = [key for key in list(looked_at) if now_ns - seen_ns.setdefault(key, now_ns) > ttl_ns]
        for key in expired:
            del seen_ns[key]
        return expired
