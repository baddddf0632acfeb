"""Quantiles of the kernel's exponential buckets. Pure.

In: slot -> calls. Out: seconds, with an error below the 9.05 % between the edges of a bucket.
"""

from __future__ import annotations

from collections.abc import Mapping

from exporter.units import upper_edge_seconds


def quantile_seconds(counts: Mapping[int, int], part: float) -> float | None:
    """The duration that `part` of the calls do not exceed; None without calls, infinite beyond the last edge (4,096 s).

    counts: slot of exporter.units -> calls, none negative. Within a bucket, calls are interpolated by logarithm like native
    histograms in Prometheus; in the first bucket, which has no lower edge, the result is the upper edge.
    """
    wanted = part * sum(counts.values())
    below = 0
    for slot in sorted(counts):
        count = counts[slot]
        if count and below + count >= wanted:
            upper = upper_edge_seconds(slot)
            if slot == 0 or upper == float("inf"):
                return upper
            lower = upper_edge_seconds(slot - 1)
            return float(lower * (upper / lower) ** max((wanted - below) / count, 0.0))
        below += count
    return None
