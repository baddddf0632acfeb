"""Which names of programs are values of the label `culprit`: for one owner, those with the largest recent time.

In: what was charged to each name since the last update. Out: label values, and the names whose series end. Recent time is a sum
that halves every HALF_LIFE_NS. A name that has a series keeps it while others are named instead, up to MAX_CULPRITS for one
owner. Then the one with the smallest total ends, and its total is added to `other`: no sum ever goes back.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping

from exporter.accounting.culprits import EXPORTER, HYPERVISOR, OTHER, OUTSIDE
from exporter.catalog.sched import MAX_CULPRITS
from exporter.units import NANOSECONDS

MAX_NAMED = 16
"""Names at a time for one owner."""
HALF_LIFE_NS = 10 * NANOSECONDS
ADMISSION_NS = 10_000_000
"""A new name is charged this much in one update: the dozen threads of the kernel that run for a moment are not worth a series."""
NEW_NAME_EVERY_NS = 60 * NANOSECONDS
"""How often a new name is admitted in the long run, after the first MAX_NAMED; one with DOMINANT_SHARE does not wait for that."""
DOMINANT_SHARE = 0.2

_ALWAYS = frozenset((OUTSIDE, HYPERVISOR, EXPORTER, OTHER))
_MAX_OWNERS = 1_000
_MAX_RANKED, _KEPT_RANKED = 256, 128


class CulpritNames:
    """Names of each owner. Of many owners the least recently used is forgotten."""

    def __init__(self) -> None:
        self._owners: dict[Hashable, _Names] = {}
        self._ended: list[tuple[Hashable, str]] = []

    def labels(self, owner: Hashable, charged: Mapping[str, int], now_ns: int) -> dict[str, str]:
        """Name -> itself, or `other`. owner: whose series get the labels. charged: to each name, since the last update."""
        ranked = {name: ns for name, ns in charged.items() if name not in _ALWAYS}
        labels = {name: name for name in charged if name in _ALWAYS}
        if not ranked:
            return labels
        names = self._owners[owner] = self._owners.pop(owner) if owner in self._owners else _Names(now_ns)
        if len(self._owners) > _MAX_OWNERS:
            del self._owners[next(iter(self._owners))]
        self._ended += [(owner, name) for name in names.charge(ranked, now_ns)]
        named = names.named()
        return labels | {name: name if name in named else OTHER for name in ranked}

    def take_ended(self) -> list[tuple[Hashable, str]]:
        """(owner, name) of series that have ended since the last call."""
        ended, self._ended = self._ended, []
        return ended


class _Names:
    """Names of one owner."""

    def __init__(self, now_ns: int) -> None:
        self._recent: dict[str, float] = {}
        self._totals: dict[str, int] = {}  # of names with a series
        self._at_ns = now_ns
        self._admissible = float(MAX_NAMED)

    def charge(self, charged: Mapping[str, int], now_ns: int) -> list[str]:
        """Returns the names whose series end."""
        self._decay(max(now_ns - self._at_ns, 0))
        self._at_ns = now_ns
        for name, ns in charged.items():
            self._recent[name] = self._recent.get(name, 0.0) + ns
            if name in self._totals:
                self._totals[name] += ns
        for name in self._largest(charged):
            if name not in self._totals and charged[name] >= ADMISSION_NS and self._may_be_admitted(name):
                self._totals[name] = charged[name]
        if len(self._recent) > _MAX_RANKED:
            self._recent = {name: self._recent[name] for name in self._largest(self._recent)[:_KEPT_RANKED]}
        return self._end_surplus()

    def named(self) -> set[str]:
        """Those with the largest recent time, among the names with a series."""
        return set(self._largest(self._totals)[:MAX_NAMED])

    def _decay(self, elapsed_ns: int) -> None:
        self._admissible = min(self._admissible + elapsed_ns / NEW_NAME_EVERY_NS, MAX_NAMED)
        factor = 0.5 ** (elapsed_ns / HALF_LIFE_NS)
        self._recent = {name: ns * factor for name, ns in self._recent.items() if ns * factor >= 1.0}

    def _may_be_admitted(self, name: str) -> bool:
        """It ranks among the largest, and its turn has come or it explains much."""
        named = self.named()
        if len(named) == MAX_NAMED and self._recent[name] <= min(self._recent.get(one, 0.0) for one in named):
            return False
        if self._admissible >= 1.0:
            self._admissible -= 1.0
            return True
        return self._recent[name] >= DOMINANT_SHARE * sum(self._recent.values())

    def _end_surplus(self) -> list[str]:
        ended: list[str] = []
        while len(self._totals) > MAX_CULPRITS:
            idle = self._totals.keys() - {name for name in self.named() if name in self._recent}
            smallest = min(idle, key=lambda name: (self._totals[name], name))
            del self._totals[smallest]
            ended.append(smallest)
        return ended

    def _largest(self, names: Iterable[str]) -> list[str]:
        return sorted(names, key=lambda name: (-self._recent.get(name, 0.0), name))
