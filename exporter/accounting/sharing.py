"""Divides whole nanoseconds by weights so that the parts add up; weights may arrive a moment early or late."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Generic, TypeVar

from exporter.units import NANOSECONDS

K = TypeVar("K", bound=Hashable)

MEMORY_NS = 5 * NANOSECONDS
"""How long weights are remembered, and how long an amount stays undecided without any."""


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

    def update(self, weights: Mapping[K, int], now_ns: int) -> None:
        """Weights added since the last update."""
        positive = {key: weight for key, weight in weights.items() if weight > 0}
        if positive:
            self._weights, self._known_at_ns = positive, now_ns
        elif now_ns - self._known_at_ns > MEMORY_NS:
            self._weights = {}

    def current(self) -> Mapping[K, int]:
        """Empty without a weight in the last MEMORY_NS."""
        return self._weights


class Growth(Generic[K]):
    """Growth of cumulative sums since the last reading. A sum that went back has grown by 0."""

    def __init__(self) -> None:
        self._before: Mapping[K, int] = {}

    def since(self, sums: Mapping[K, int]) -> dict[K, int]:
        """Only sums that have grown."""
        before, self._before = self._before, sums
        if sums is before:  # unchanged since the last reading
            return {}
        return {key: value - before.get(key, 0) for key, value in sums.items() if value > before.get(key, 0)}
