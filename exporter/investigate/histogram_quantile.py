"""`histogram_quantile(share, upper_edge_seconds, count)` of statements: a quantile of all buckets of a group, as one histogram.

In: rows of the views `step_buckets` and `operation_buckets`, of any number of workloads, intervals and nodes. Out: the upper edge
of the bucket that the quantile lies in. Buckets have the same edges everywhere, so that their sums are exact.
"""

from __future__ import annotations

import math
from typing import Final

NAME: Final = "histogram_quantile"


class HistogramQuantile:
    """An aggregate of SQLite: step() for each row, then finalize(). Any exception ends the statement."""

    def __init__(self) -> None:
        self._counts: dict[float, int] = {}
        self._share = 0.0

    def step(self, share: object, upper_edge_seconds: object, count: object) -> None:
        """upper_edge_seconds: None for the bucket without an edge. Raises ValueError."""
        if not isinstance(share, int | float) or not 0 <= share <= 1:
            raise ValueError("the share is not between 0 and 1")
        if not isinstance(upper_edge_seconds, int | float | None) or not isinstance(count, int) or count < 0:
            raise ValueError("not a bucket")
        edge = math.inf if upper_edge_seconds is None else float(upper_edge_seconds)
        self._share = share
        self._counts[edge] = self._counts.get(edge, 0) + count

    def finalize(self) -> float | None:
        """None without any count, and beyond the last edge."""
        wanted = self._share * sum(self._counts.values())
        found = 0
        for edge, count in sorted(self._counts.items()):
            found += count
            if count and found >= wanted:
                return None if math.isinf(edge) else edge
        return None
