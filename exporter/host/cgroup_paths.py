"""Paths of cgroups from the root of their hierarchy, whatever cgroup namespace this process is in.

In: the text of /proc/TGID/cgroup. Out: a path for every hierarchy. One that cannot be followed to the root is returned as it is:
it begins with `/..` if the cgroup is not below that of this process.
Source: cgroup_namespaces(7); PROC_CGROUP_INIT_INO in the kernel's include/linux/proc_ns.h.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from exporter.host.cgroups import PROC, Hierarchy, hierarchy_of, unified_hierarchy

CGROUP_NAMESPACE_OF_MACHINE: Final = 0xEFFF_FFFB

FindHierarchy = Callable[[str], Hierarchy | None]
"""A controller, or "" for version 2 -> its hierarchy."""


@dataclass(frozen=True, slots=True)
class CgroupPaths:
    """is_at_root: paths in /proc begin at the root already. find: hierarchies, None where one is not mounted."""

    is_at_root: bool
    find: FindHierarchy

    @classmethod
    def of_machine(cls, proc: Path = PROC) -> CgroupPaths:
        """Paths as this process sees them."""
        try:
            is_at_root = (proc / "self/ns/cgroup").stat().st_ino == CGROUP_NAMESPACE_OF_MACHINE
        except OSError:
            is_at_root = False
        return cls(is_at_root, partial(_hierarchy, proc))

    def resolve(self, text: str) -> tuple[str, ...]:
        """The paths in the order of the lines."""
        found = []
        for line in text.split("\n"):
            parts = line.split(":", 2)
            if len(parts) == 3:
                _, controllers, path = parts
                found.append(path if self.is_at_root else self._from_root(line, controllers, path))
        return tuple(found)

    def _from_root(self, line: str, controllers: str, path: str) -> str:
        hierarchy = self.find(controllers.partition(",")[0])
        return (hierarchy.path_in(line) if hierarchy else None) or path


def _hierarchy(proc: Path, controller: str) -> Hierarchy | None:
    return hierarchy_of(controller, proc) if controller else unified_hierarchy(proc)
