"""Cgroups with names as container runtimes and batch systems give them."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import accumulate
from pathlib import Path

import pytest

from tests.support import sweep
from tests.support.traced import eventually


def hierarchies() -> dict[str, Path]:
    """Mounted hierarchies: v2, and those of v1 with the controllers of memory, of CPUs, and the freezer."""
    found = {}
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, folder, kind, options, *_ = line.split()
        if kind == "cgroup2":
            found["v2"] = Path(folder)
        elif kind == "cgroup" and "memory" in options.split(","):
            found["v1"] = Path(folder)
        elif kind == "cgroup" and "cpu" in options.split(","):
            found["cpu"] = Path(folder)
        elif kind == "cgroup" and "freezer" in options.split(","):
            found["freezer"] = Path(folder)
    return found


@contextmanager
def named_cgroup(hierarchy: str, path: str) -> Iterator[Path]:
    """A cgroup, created with its missing ancestors, and removed at the end. One of another run with this name is waited for."""
    root = hierarchies().get(hierarchy)
    if root is None:
        pytest.skip(f"needs control groups {hierarchy}, mounted")
    made: list[Path] = []
    folder = root / path
    try:
        with _alone(root):
            for one in accumulate(path.split("/"), Path.__truediv__, initial=root):
                try:
                    if one == folder:
                        eventually(lambda: _is_made(folder), f"no other run of the tests uses {folder}")
                    elif not _is_made(one):
                        continue
                except OSError as error:
                    pytest.skip(f"needs control groups that can be made: {one}: {error.strerror}")
                sweep.mark(one)
                made.append(one)
        yield folder
    finally:
        *parents, leaf = made or [folder]
        eventually(lambda: not leaf.exists() or _is_removed(leaf), f"{leaf} is removed")
        with _alone(root):
            for parent in reversed(parents):
                _is_removed(parent)  # unless it is used by now


@contextmanager
def _alone(root: Path) -> Iterator[None]:
    """A test beside this one may need the same ancestors: none is removed while it makes its cgroup in it."""
    descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _is_made(folder: Path) -> bool:
    try:
        folder.mkdir()
    except FileExistsError:
        return False
    return True


def _is_removed(folder: Path) -> bool:
    """Possible only when the last process in it is gone, a moment after it was killed."""
    try:
        folder.rmdir()
    except OSError:
        return False
    return True
