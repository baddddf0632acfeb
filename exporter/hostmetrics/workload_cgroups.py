"""The cgroups that traced processes run in, and what their files say.

In: traced processes, /proc/TGID/cgroup, a Hierarchy. Out: paths by identity, and numbers. A process that ends between two reads
is left out.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Final

from exporter.errors import NotPossibleHere, ProcessGone
from exporter.host.cgroups import Hierarchy
from exporter.host.processes import Processes
from exporter.model import Identity, fairly
from exporter.series.host_totals import TracedProcess

PATHS_MAX: Final = 1_024
"""A user may put each of thousands of processes into a cgroup of its own. A file of a cgroup takes some 16 us to read."""


class WorkloadCgroups:
    """hierarchy: None where no mounted hierarchy has the controller; every answer is then empty."""

    def __init__(self, processes: Processes, hierarchy: Hierarchy | None) -> None:
        self._processes = processes
        self._hierarchy = hierarchy

    @property
    def version(self) -> int:
        """1 or 2; 0 without a hierarchy."""
        return self._hierarchy.version if self._hierarchy else 0

    def paths(self, traced: Sequence[TracedProcess]) -> dict[Identity, set[str]]:
        """Identity without a rank -> cgroups that its traced processes are in; PATHS_MAX in all."""
        pairs: dict[tuple[Identity, str], None] = {}
        for one in traced:
            path = self._path_of(one.tgid)
            if path is not None:
                pairs[replace(one.identity, rank=""), path] = None
        found: dict[Identity, set[str]] = {}
        for identity, path in fairly(pairs, _owner)[:PATHS_MAX]:
            found.setdefault(identity, set()).add(path)
        return found

    def numbers(self, path: str, file: str) -> dict[str, int]:
        """A file with a name and a number in each line; empty when it cannot be read."""
        return self._hierarchy.numbers(path, file) if self._hierarchy else {}

    def number(self, path: str, file: str) -> int | None:
        """A file with one number; None when it cannot be read, for `max` and for a negative number."""
        return self._hierarchy.number(path, file) if self._hierarchy else None

    def words(self, path: str, file: str) -> list[str]:
        """The words of a file; empty when it cannot be read."""
        return ((self._hierarchy.read(path, file) if self._hierarchy else None) or "").split()

    def _path_of(self, tgid: int) -> str | None:
        if not tgid or self._hierarchy is None:
            return None
        try:
            return self._hierarchy.path_in(self._processes.cgroup(tgid))
        except (ProcessGone, NotPossibleHere):
            return None


def _owner(one: tuple[Identity, str]) -> Hashable:
    """Who a cgroup is of: a container, or a user or service that is in none."""
    identity, path = one
    return identity, *path.split("/", 3)[1:3]
