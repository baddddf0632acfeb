"""What owners of processes were refused because it would take from others: counted by owner, and logged once for each.

In: counts as they happen. Out: sums for a metric of bounded size.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Final

from exporter.workloads.owner import Owner

log = logging.getLogger(__name__)

WORKLOADS: Final = "workloads"
CLAIMED: Final = "claimed_labels"
BRIEF: Final = "brief_workloads"
SERIES: Final = "series"
INFOS: Final = "infos"
READS: Final = "reads"
CHAINS: Final = "chains"
OTHER: Final = "other"
OWNERS_MAX: Final = 32
"""Owners with a series of their own; what others were refused is counted as `other`."""
KEPT_SECONDS: Final = 900.0
"""An owner that was refused nothing for so long makes room for another one; its refusals are then counted as `other`."""

_SPOKEN: Final = {CLAIMED: "labels already in use", BRIEF: "short-lived workloads", READS: "new processes"}
"""A resource in a log line, where its name in the metric says too little."""

_ADVICE: Final = {
    WORKLOADS: "it has used up its share; raise --series.max-workloads if these are jobs of interest",
    CLAIMED: "another owner has them, so its series have its name as `container`, or rank `other`",
    BRIEF: "of its workloads that ran less than a minute, the last 32 have series, the others count as rank `other`",
    SERIES: "further error codes are exported as code `other`",
    CHAINS: "too many of its chains have opened at once: until fewer do, the log and the history get one every six seconds,"
    " and the metrics all",
    READS: "it starts processes faster than they can be read, and those that ended before have no rank and no container",
    INFOS: "further processes have no gpustall_workload_info",
}
_ADVICE_FOR_TABLES: Final = (
    "it has used up its share of this table, and its further rows are not recorded;"
    " see docs/limits.md (`gpu-stall-exporter assets`)"
)


class Refusals:
    """Sums by resource and owner. They never go back."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._sums: dict[tuple[str, str], int] = {}
        self._refused_at: dict[str, float] = {}  # by name, the one whose turn was longest ago first

    def add(self, resource: str, owner: Owner, count: int = 1) -> None:
        """An owner was refused so many of a resource: a table of the kernel programs, or one of this module's constants."""
        if count <= 0:
            return
        name = self._label_of(owner.name)
        if (resource, name) not in self._sums:
            advice = _ADVICE.get(resource, _ADVICE_FOR_TABLES)
            log.warning("limit reached: %s for %s: %s", _SPOKEN.get(resource, resource), owner.name, advice)
        self._sums[resource, name] = self._sums.get((resource, name), 0) + count

    def sums(self) -> dict[tuple[str, ...], float]:
        """(resource, owner) -> refusals so far."""
        return {labels: float(count) for labels, count in self._sums.items()}

    def _label_of(self, name: str) -> str:
        now = self._clock()
        if name not in self._refused_at and len(self._refused_at) >= OWNERS_MAX and not self._fold_oldest(now):
            return OTHER
        self._refused_at.pop(name, None)
        self._refused_at[name] = now
        return name

    def _fold_oldest(self, now: float) -> bool:
        oldest, refused_at = next(iter(self._refused_at.items()))
        if now - refused_at < KEPT_SECONDS:
            return False
        del self._refused_at[oldest]
        for resource, name in list(self._sums):
            if name == oldest:
                self._sums[resource, OTHER] = self._sums.get((resource, OTHER), 0) + self._sums.pop((resource, name))
        return True
