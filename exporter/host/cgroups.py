"""Which control groups are there, what are their numbers, and what do their files say?

In: the mounted hierarchies. Out: paths by the number that the kernel programs tell, and the numbers in a group's files. A group
may be removed between two reads; then there is nothing to read. Source: the kernel's Documentation/admin-guide/cgroup-v2.rst and
cgroup-v1/.
"""

from __future__ import annotations

import os
import posixpath
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

PROC: Final = Path("/proc")
ROOT_NUMBER: Final = 1
"""Of the group that all others are in. What a container has mounted as its root is another one."""
FILE_BYTES_MAX: Final = 64 * 1024
GROUPS_MAX: Final = 20_000
WALK_SECONDS: Final = 1.0
"""Least time from one walk through a hierarchy to the next: a number that is not found may belong to a group that is gone."""

_OF_VERSION_2: Final = {"blkio": "io"}
"""Controllers that have another name there."""


@dataclass(slots=True)
class Hierarchy:
    """One mounted hierarchy of control groups. root: its mount point. version: 1 or 2. controller: by its name in version 1.

    own_number: of our own group, where what /proc tells is seen from there; None where it is seen from the root.
    """

    root: Path
    version: int
    controller: str
    clock: Callable[[], float] = time.monotonic
    own_number: int | None = None
    _paths: dict[int, str] = field(default_factory=dict)
    _walked_at: float = float("-inf")

    def path_of(self, number: int) -> str | None:
        """`/` for the root, `/system.slice/a.service`: of the group with this number (kernfs' id); None where there is none."""
        if number not in self._paths and self.clock() - self._walked_at >= WALK_SECONDS:
            self._walk()
        return self._paths.get(number)

    def is_gone(self, number: int) -> bool:
        """Whether a group with this number has been looked for and not found."""
        path = self.path_of(number)
        return path is None or _number_of(f"{self.root}{path}") != number

    def read(self, path: str, name: str) -> str | None:
        """What a file of a group says; None where the group or the file is not there, or may not be read."""
        try:
            with (Path(f"{self.root}{path}") / name).open("rb") as file:
                return file.read(FILE_BYTES_MAX).decode("ascii", "replace")
        except OSError:
            return None

    def numbers(self, path: str, name: str) -> dict[str, int]:
        """Of a file with a name and a number in each line, such as memory.stat; empty where it cannot be read."""
        return keyed_numbers(self.read(path, name) or "")

    def number(self, path: str, name: str) -> int | None:
        """Of a file with one number; None where it cannot be read, and for `max`."""
        text = (self.read(path, name) or "").strip()
        return int(text) if text.isdecimal() else None

    def path_in(self, cgroup_text: str) -> str | None:
        """The path that /proc/TGID/cgroup tells for this hierarchy; None where it lies outside of what is mounted here."""
        for line in cgroup_text.splitlines():
            _, _, rest = line.partition(":")
            controllers, _, path = rest.partition(":")
            is_this = not controllers if self.version == 2 else self.controller in controllers.split(",")
            if is_this and path.startswith("/"):
                return self._from_root(path)
        return None

    def _from_root(self, path: str) -> str | None:
        """`/../../pod2/b`, seen from /kubepods/pod1/a, is /kubepods/pod2/b."""
        if self.own_number is None:
            return None if path.startswith("/..") else path
        own = self.path_of(self.own_number)
        return None if own is None else posixpath.normpath(f"{own}/{path.lstrip('/')}")

    def _walk(self) -> None:
        self._walked_at = self.clock()
        found: dict[int, str] = {}
        for path in _folders(str(self.root)):
            number = _number_of(path)
            if number is not None:
                found[number] = path[len(str(self.root)) :] or "/"
            if len(found) >= GROUPS_MAX:
                break
        self._paths = found


def hierarchy_of(controller: str, proc: Path = PROC, root_number: int = ROOT_NUMBER) -> Hierarchy | None:
    """The hierarchy that has this controller; None where none is mounted. controller: as version 1 calls it."""

    def version_of(folder: Path, kind: str, options: str) -> int:
        if kind == "cgroup" and controller in options.split(","):
            return 1
        return 2 if kind == "cgroup2" and _OF_VERSION_2.get(controller, controller) in _words(folder) else 0

    return _widest(controller, version_of, proc, root_number)


def unified_hierarchy(proc: Path = PROC, root_number: int = ROOT_NUMBER) -> Hierarchy | None:
    """That of version 2, whatever controllers it has: the one that sockets belong to."""
    return _widest("", lambda _folder, kind, _options: 2 if kind == "cgroup2" else 0, proc, root_number)


_VersionOf = Callable[[Path, str, str], int]
"""Folder, type and options of a mount -> the version of the hierarchy that is looked for; 0 for another one."""


def _widest(controller: str, version_of: _VersionOf, proc: Path, root_number: int) -> Hierarchy | None:
    """In a container only its own groups are mounted. Those of the machine can be looked at through its first process."""
    own = _mounted(controller, version_of, proc / "self/mounts", Path("/"))
    own_number = _number_of(str(own.root)) if own else None
    if own_number == root_number:
        return own
    machine = _mounted(controller, version_of, proc / "1/mounts", proc / "1/root")
    if machine is None or _number_of(str(machine.root)) != root_number:
        return own
    machine.own_number = own_number
    return machine


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
    """`pgfault 12\\noom_kill 3` -> {"pgfault": 12, "oom_kill": 3}; lines of another form are left out."""
    found = {}
    for line in text.splitlines():
        name, _, digits = line.partition(" ")
        if digits.strip().isdecimal():
            found[name] = int(digits)
    return found


def _folders(root: str) -> Iterator[str]:
    waiting = [root]
    while waiting:
        folder = waiting.pop()
        yield folder
        try:
            with os.scandir(folder) as entries:
                waiting.extend(entry.path for entry in entries if entry.is_dir(follow_symlinks=False))
        except OSError:
            continue


def _number_of(path: str) -> int | None:
    """On 64-bit machines the inode number is kernfs' id."""
    try:
        return Path(path).stat().st_ino
    except OSError:
        return None


def _words(folder: Path) -> list[str]:
    try:
        return (folder / "cgroup.controllers").read_text(encoding="ascii").split()
    except OSError:
        return []
