"""How is an amount divided so that nothing is lost? Whole nanoseconds, by weights that may come a moment early or late."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Generic, TypeVar

from exporter.units import NANOSECONDS

K = TypeVar("K", bound=Hashable)

MEMORY_NS = 5 * NANOSECONDS
"""How long weights are remembered, and how long an amount waits for some."""


def shared(amount: int, weights: Mapping[K, int]) -> dict[K, int]:
    """`amount` in proportion to `weights`, which are not all zero: integers that add up to it, by largest remainder."""
    whole = sum(weights.values())
    parts = {key: amount * weight // whole for key, weight in weights.items()}
    rest = amount - sum(parts.values())
    for key in sorted(parts, key=lambda key: -(amount * weights[key] % whole))[:rest]:
        parts[key] += 1
    return parts


class Weights(Generic[K]):
    """The latest weights that were not all zero, for MEMORY_NS."""

    def __init__(self) -> None:
        self._weights: dict[K, int] = {}
        self._known_at_ns = 0

    def see(self, weights: Mapping[K, int], now_ns: int) -> None:
        """What was added since the last time."""
        positive = {key: weight for key, weight in weights.items() if weight > 0}
        if positive:
            self._weights, self._known_at_ns = positive, now_ns
        elif now_ns - self._known_at_ns > MEMORY_NS:
            self._weights = {}

    def current(self) -> Mapping[K, int]:
        """Empty when there are none, or none of late."""
        return self._weights


class Growth(Generic[K]):
    """By how much cumulative sums have grown since the last time. A sum that went back has grown by nothing."""

    def __init__(self) -> None:
        self._before: Mapping[K, int] = {}

    def since(self, sums: Mapping[K, int]) -> dict[K, int]:
        """Only what has grown."""
        before, self._before = self._before, sums
        if sums is before:  # as they were read last
            return {}
        return {key: value - before.get(key, 0) for key, value in sums.items() if value > before.get(key, 0)}
