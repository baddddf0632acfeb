"""In which control groups of one hierarchy are the traced processes, and what do the files of those say?

In: the traced processes, /proc/TGID/cgroup, a Hierarchy. Out: paths by place. A process may end between two reads, and is then
left out.
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
    """hierarchy: None where none has the controller; then there are no groups."""

    def __init__(self, processes: Processes, hierarchy: Hierarchy | None) -> None:
        self._processes = processes
        self._hierarchy = hierarchy

    @property
    def version(self) -> int:
        """Of the hierarchy: 1 or 2; 0 where there is none."""
        return self._hierarchy.version if self._hierarchy else 0

    def paths(self, traced: Sequence[TracedProcess]) -> dict[Identity, set[str]]:
        """Place, which is an Identity without a rank, to the groups that its traced processes are in."""
        found: dict[Identity, set[str]] = {}
        for one in traced:
            path = self._path_of(one.tgid)
            if path is not None:
                found.setdefault(replace(one.identity, rank=""), set()).add(path)
        return found

    def numbers(self, path: str, name: str) -> dict[str, int]:
        """Of a file with a name and a number in each line; empty where it cannot be read."""
        return self._hierarchy.numbers(path, name) if self._hierarchy else {}

    def number(self, path: str, name: str) -> int | None:
        """Of a file with one number; None where it cannot be read, and for `max` and numbers below zero."""
        return self._hierarchy.number(path, name) if self._hierarchy else None

    def words(self, path: str, name: str) -> list[str]:
        """Of a file with one line; none where it cannot be read."""
        return ((self._hierarchy.read(path, name) if self._hierarchy else None) or "").split()

    def _path_of(self, tgid: int) -> str | None:
        if not tgid or self._hierarchy is None:
            return None
        try:
            return self._hierarchy.path_in(self._processes.cgroup(tgid))
        except (ProcessGone, NotPossibleHere):
            return None
