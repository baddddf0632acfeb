"""Which control groups are there, what are their numbers, and what do their files say?

In: the mounted hierarchies. Out: paths by the number that the kernel programs tell, and the numbers in a group's files. A group
may be removed between two reads; then there is nothing to read. Source: the kernel's Documentation/admin-guide/cgroup-v2.rst and
cgroup-v1/.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

MOUNTS: Final = Path("/proc/self/mounts")
FILE_BYTES_MAX: Final = 64 * 1024
GROUPS_MAX: Final = 20_000
WALK_SECONDS: Final = 1.0
"""Least time from one walk through a hierarchy to the next: a number that is not found may belong to a group that is gone."""

_OF_VERSION_2: Final = {"blkio": "io"}
"""Controllers that have another name there."""


@dataclass(slots=True)
class Hierarchy:
    """One mounted hierarchy of control groups. root: its mount point. version: 1 or 2. controller: by its name in version 1."""

    root: Path
    version: int
    controller: str
    clock: Callable[[], float] = time.monotonic
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
                return None if path.startswith("/..") else path
        return None

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


def hierarchy_of(controller: str, mounts: Path = MOUNTS) -> Hierarchy | None:
    """The hierarchy that has this controller; None where none is mounted. controller: as version 1 calls it."""
    try:
        lines = mounts.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    for line in lines:
        _, folder, kind, options, *_ = [*line.split(), "", "", "", ""]
        if kind == "cgroup" and controller in options.split(","):
            return Hierarchy(Path(folder), 1, controller)
        if kind == "cgroup2" and _OF_VERSION_2.get(controller, controller) in _words(Path(folder)):
            return Hierarchy(Path(folder), 2, controller)
    return None


def unified_hierarchy(mounts: Path = MOUNTS) -> Hierarchy | None:
    """That of version 2, whatever controllers it has: the one that sockets belong to."""
    try:
        lines = mounts.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    return next((Hierarchy(Path(line.split()[1]), 2, "") for line in lines if line.split()[2:3] == ["cgroup2"]), None)


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
