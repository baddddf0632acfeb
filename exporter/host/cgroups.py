"""Cgroups: their paths by id, and the numbers in their files.

In: the mounted hierarchies. Out: paths by the cgroup id that kernel programs record, and the contents of a cgroup's files. A
cgroup may be removed between two reads; there is then nothing to read.
Source: the kernel's Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/.
"""

from __future__ import annotations

import logging
import os
import posixpath
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Final

from exporter.host.cgroup_handles import check_id, path_by_id

log = logging.getLogger(__name__)

PROC: Final = Path("/proc")
ROOT_ID: Final = 1
"""Id of the root cgroup. What a container has mounted as its root is another cgroup."""
FILE_BYTES_MAX: Final = 64 * 1024
PATHS_KEPT: Final = 4_096
LEVELS_MAX: Final = 16
"""So many cgroups around one are looked at, from the root on. A user or container may nest thousands within its own."""

_NAME_IN_VERSION_2: Final = {"blkio": "io"}
"""Controllers that version 2 has under another name."""


@dataclass(slots=True)
class Hierarchy:
    """One mounted cgroup hierarchy. root: its mount point. version: 1 or 2. controller: by its name in version 1.

    own_id: of the cgroup that paths in /proc are relative to, which is the exporter's; None where they start at the root.
    find, check: as in cgroup_handles.
    """

    root: Path
    version: int
    controller: str
    own_id: int | None = None
    find: Callable[[str, int], str | None] = path_by_id
    check: Callable[[str, int], object] = check_id
    _paths: dict[int, str] = field(default_factory=dict)

    def path_of(self, cgroup_id: int) -> str | None:
        """The path of the cgroup with this kernfs id, such as `/` or `/system.slice/a.service`; None if it is not known.

        Also that of a removed cgroup, if it was known before.
        """
        if cgroup_id not in self._paths:
            try:
                path = self.find(str(self.root), cgroup_id)
            except FileNotFoundError:
                return None
            except OSError as error:
                _warn(error.errno or 0)
                return None
            if path is None:
                return None
            if len(self._paths) >= PATHS_KEPT:
                del self._paths[next(iter(self._paths))]
            self._paths[cgroup_id] = path
        return self._paths[cgroup_id]

    def is_gone(self, cgroup_id: int) -> bool:
        """Whether it is known that there is no cgroup with this id."""
        try:
            self.check(str(self.root), cgroup_id)
        except FileNotFoundError:
            return True
        except OSError:
            return False
        return False

    def read(self, path: str, name: str) -> str | None:
        """The contents of a file of a cgroup; None when it does not exist or cannot be read."""
        try:
            with (Path(f"{self.root}{path}") / name).open("rb") as file:
                return file.read(FILE_BYTES_MAX).decode("ascii", "replace")
        except OSError:
            return None

    def numbers(self, path: str, name: str) -> dict[str, int]:
        """A file with a name and a number in each line, such as memory.stat; empty when it cannot be read."""
        return keyed_numbers(self.read(path, name) or "")

    def number(self, path: str, name: str) -> int | None:
        """A file with one number; None when it cannot be read, and for `max`."""
        text = (self.read(path, name) or "").strip()
        return int(text) if text.isdecimal() else None

    def path_in(self, cgroup_text: str) -> str | None:
        """The path in /proc/TGID/cgroup for this hierarchy; None when it is outside of what is mounted here."""
        for line in cgroup_text.split("\n"):
            _, _, rest = line.partition(":")
            controllers, _, path = rest.partition(":")
            is_this = not controllers if self.version == 2 else self.controller in controllers.split(",")
            if is_this and path.startswith("/"):
                return self._from_root(path)
        return None

    def _from_root(self, path: str) -> str | None:
        """`/../../pod2/b`, relative to /kubepods/pod1/a, is /kubepods/pod2/b."""
        if self.own_id is None:
            return None if path.startswith("/..") else path
        own = self.path_of(self.own_id)
        return None if own is None else posixpath.normpath(f"{own}/{path.lstrip('/')}")


def hierarchy_of(controller: str, proc: Path = PROC, root_id: int = ROOT_ID) -> Hierarchy | None:
    """The hierarchy with this controller; None when none is mounted. controller: its name in version 1."""

    def version_of(folder: Path, kind: str, options: str) -> int:
        if kind == "cgroup" and controller in options.split(","):
            return 1
        return 2 if kind == "cgroup2" and _NAME_IN_VERSION_2.get(controller, controller) in _words(folder) else 0

    return _widest(controller, version_of, proc, root_id)


def unified_hierarchy(proc: Path = PROC, root_id: int = ROOT_ID) -> Hierarchy | None:
    """The hierarchy of version 2, whatever controllers it has: the one that sockets belong to."""
    return _widest("", lambda _folder, kind, _options: 2 if kind == "cgroup2" else 0, proc, root_id)


_VersionOf = Callable[[Path, str, str], int]
"""Folder, type and options of a mount -> its version if it is the wanted hierarchy, else 0."""


def _widest(controller: str, version_of: _VersionOf, proc: Path, root_id: int) -> Hierarchy | None:
    """In a container only its own cgroups are mounted. Those of the node are reachable through its first process."""
    own = _mounted(controller, version_of, proc / "self/mounts", Path("/"))
    own_id = _id_of(str(own.root)) if own else None
    if own_id == root_id:
        return own
    node = _mounted(controller, version_of, proc / "1/mounts", proc / "1/root")
    if node is None or _id_of(str(node.root)) != root_id:
        return own
    node.own_id = own_id
    return node


def _mounted(controller: str, version_of: _VersionOf, mounts: Path, below: Path) -> Hierarchy | None:
    try:
        lines = mounts.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    for line in lines:
        _, folder, kind, options, *_ = [*line.split(), "", "", "", ""]
        root = below / folder.lstrip("/")
        if version := version_of(root, kind, options):
            return Hierarchy(root, version, controller)
    return None


def keyed_numbers(text: str) -> dict[str, int]:
    """`pgfault 12\\noom_kill 3` -> {"pgfault": 12, "oom_kill": 3}; lines of another form are skipped."""
    found = {}
    for line in text.splitlines():
        name, _, digits = line.partition(" ")
        if digits.strip().isdecimal():
            found[name] = int(digits)
    return found


def with_ancestors(path: str) -> list[str]:
    """`/a/b` -> `/a/b`, `/a`: without the root, which has neither quota nor limit, and of the others the outermost LEVELS_MAX."""
    parts = path.strip("/").split("/", LEVELS_MAX)
    above = ["/" + "/".join(parts[:count]) for count in range(min(len(parts), LEVELS_MAX), 0, -1)]
    return above if len(parts) <= LEVELS_MAX else [path, *above]


@cache
def _warn(errno: int) -> None:
    """Once for each kind of error."""
    log.warning(
        "cannot find cgroups by their ids: open_by_handle_at: %s; what they use counts for the node until the exporter has"
        " CAP_DAC_READ_SEARCH and a seccomp profile that allows the call",
        os.strerror(errno),
    )


def _id_of(path: str) -> int | None:
    """On 64-bit machines the inode number is the kernfs id."""
    try:
        return Path(path).stat().st_ino
    except OSError:
        return None


def _words(folder: Path) -> list[str]:
    try:
        return (folder / "cgroup.controllers").read_text(encoding="ascii").split()
    except OSError:
        return []
