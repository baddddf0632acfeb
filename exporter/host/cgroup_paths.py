"""Paths of cgroups from the root of their hierarchy, whatever cgroup namespace this process is in.

In: the text of /proc/TGID/cgroup. Out: a path for every hierarchy. One that cannot be followed to the root is returned as it is:
it begins with `/..` if the cgroup is not below that of this process.
Source: cgroup_namespaces(7); PROC_CGROUP_INIT_INO in the kernel's include/linux/proc_ns.h.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Final

from exporter.host.cgroups import PROC, Hierarchy, hierarchy_of, unified_hierarchy

CGROUP_NAMESPACE_OF_MACHINE: Final = 0xEFFF_FFFB

FindHierarchy = Callable[[str], Hierarchy | None]
"""A controller, or "" for version 2 -> its hierarchy."""


@dataclass(frozen=True, slots=True)
class CgroupPaths:
    """is_at_root: paths in /proc begin at the root already. find: hierarchies, None where one is not mounted.

    own_path: the path of this process's own cgroup, by controller as in `find`; None where it is unknown.
    """

    is_at_root: bool
    find: FindHierarchy
    own_path: Callable[[str], str | None] = lambda _controller: None

    @classmethod
    def of_machine(cls, proc: Path = PROC) -> CgroupPaths:
        """Paths as this process sees them."""
        try:
            is_at_root = (proc / "self/ns/cgroup").stat().st_ino == CGROUP_NAMESPACE_OF_MACHINE
        except OSError:
            is_at_root = False
        # Found once: a process stays in its cgroup namespace, and a search takes a walk through the whole hierarchy.
        return cls(is_at_root, partial(_hierarchy, proc), cache(partial(_own_path, proc)))

    def resolve(self, text: str) -> tuple[str, ...]:
        """The paths in the order of the lines."""
        found = []
        for line in text.split("\n"):
            parts = line.split(":", 2)
            if len(parts) == 3:
                _, controllers, path = parts
                found.append(path if self.is_at_root else self._from_root(line, controllers, path))
        return tuple(found)

    def from_root(self, text: str) -> str:
        """The text with every path from the root, as a process in the machine's own cgroup namespace sees it."""
        if self.is_at_root:
            return text
        return "\n".join(map(self._line_from_root, text.split("\n")))

    def _line_from_root(self, line: str) -> str:
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        own = self.own_path(controllers.partition(",")[0]) if path.startswith("/") else None
        return line if own is None else f"{number}:{controllers}:{posixpath.normpath(f'{own}/{path}')}"

    def _from_root(self, line: str, controllers: str, path: str) -> str:
        hierarchy = self.find(controllers.partition(",")[0])
        return (hierarchy.path_in(line) if hierarchy else None) or path


def _hierarchy(proc: Path, controller: str) -> Hierarchy | None:
    return hierarchy_of(controller, proc) if controller else unified_hierarchy(proc)


def _own_path(proc: Path, controller: str) -> str | None:
    hierarchy = _hierarchy(proc, controller)
    return None if hierarchy is None or hierarchy.own_id is None else hierarchy.path_of(hierarchy.own_id)
