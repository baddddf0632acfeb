"""Error codes are chosen by the programs that return them: at most so many have series of their own.

In: series of an identity. Out: the same, or the series of code `other`. Which codes have series is decided when they first
appear, and holds as long as the identity has series, so that no counter goes back.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from exporter.catalog import cuda, nccl
from exporter.model import Identity
from exporter.totals import Series

CODES_MAX: Final = 32
"""Series of errors that one workload may have, of CUDA and of NCCL each; the sums of `other` are beyond that."""
REFUSED_MAX: Final = 1024
OTHER: Final = "other"

_BOUNDED = frozenset(metric.name for metric in (cuda.OPERATION_ERRORS, nccl.OPERATION_ERRORS))


class CodeBounds:
    """Which codes have series, by identity."""

    def __init__(self) -> None:
        self._admitted: dict[Identity, dict[str, set[tuple[str, ...]]]] = {}
        self._refused: dict[Identity, set[tuple[str, ...]]] = {}
        self._folded: Counter[Identity] = Counter()

    def series(self, identity: Identity, series: Series) -> Series:
        """Where the total of a series counts."""
        if series.metric.name not in _BOUNDED or series.labels[-1] == OTHER:
            return series
        admitted = self._admitted.setdefault(identity, {}).setdefault(series.metric.name, set())
        if series.labels in admitted:
            return series
        if len(admitted) < CODES_MAX:
            admitted.add(series.labels)
            return series
        refused = self._refused.setdefault(identity, set())
        if len(refused) < REFUSED_MAX and series.labels not in refused:
            refused.add(series.labels)
            self._folded[identity] += 1
        return Series(series.metric, (*series.labels[:-1], OTHER))

    def take_folded(self) -> Counter[Identity]:
        """Identity -> series that it was refused since the last call; of each, no more than REFUSED_MAX are counted."""
        folded, self._folded = self._folded, Counter()
        return folded

    def forget(self, identity: Identity) -> None:
        """Its series have ended."""
        self._admitted.pop(identity, None)
        self._refused.pop(identity, None)
