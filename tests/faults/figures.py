"""Shares and quantiles of many cases, as numbers and as text for a table."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from statistics import quantiles
from typing import NamedTuple

Z = 1.96  # 95 %, two-sided


class Share(NamedTuple):
    """So many of so many."""

    right: int
    of: int

    @property
    def value(self) -> float:
        """The share itself; 1 of nothing."""
        return self.right / self.of if self.of else 1.0

    def bounds(self) -> tuple[float, float]:
        """Wilson's, at 95 %."""
        if not self.of:
            return 0.0, 1.0
        p, n = self.value, self.of
        centre = (p + Z * Z / (2 * n)) / (1 + Z * Z / n)
        half = Z / (1 + Z * Z / n) * math.sqrt(p * (1 - p) / n + Z * Z / (4 * n * n))
        return max(centre - half, 0.0), min(centre + half, 1.0)


def share(cases: Iterable[bool]) -> Share:
    """Those that are true."""
    found = list(cases)
    return Share(sum(found), len(found))


def share_text(one: Share) -> str:
    """`0.986 (0.95 to 1.00), 142 of 144`."""
    low, high = one.bounds()
    return f"{one.value:.3f} ({low:.2f} to {high:.2f}), {one.right} of {one.of}"


def quantiles_text(values: Sequence[float]) -> str:
    """values: in seconds."""
    if len(values) < 2:
        return "-"
    cuts = quantiles(values, n=20, method="inclusive")
    return f"p50 {cuts[9]:.2f} s, p95 {cuts[18]:.2f} s"
