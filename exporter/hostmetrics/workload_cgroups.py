"""The cgroups that traced processes run in, and what their files say.

In: traced processes, /proc/TGID/cgroup, a Hierarchy. Out: paths by identity, and numbers. A process that ends between two reads
is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from exporter.errors import NotPossibleHere, ProcessGone
from exporter.host.cgroups import Hierarchy
from exporter.host.processes import Processes
from exporter.model import Identity
from exporter.series.host_totals import TracedProcess


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
        """Identity without a rank -> cgroups that its traced processes are in."""
        found: dict[Identity, set[str]] = {}
        for one in traced:
            path = self._path_of(one.tgid)
            if path is not None:
                found.setdefault(replace(one.identity, rank=""), set()).add(path)
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
