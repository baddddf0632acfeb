"""Cgroups with names as container runtimes and batch systems give them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

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
    """A cgroup, created with its missing ancestors, and removed at the end."""
    root = hierarchies().get(hierarchy)
    if root is None:
        pytest.skip(f"needs control groups {hierarchy}, mounted")
    made = []
    folder = root
    try:
        for name in path.split("/"):
            folder /= name
            try:
                folder.mkdir()
            except FileExistsError:
                continue
            except OSError as error:
                pytest.skip(f"needs control groups that can be made: {folder}: {error.strerror}")
            made.append(folder)
        yield folder
    finally:
        *parents, leaf = made or [folder]
        eventually(lambda: not leaf.exists() or _is_removed(leaf), f"{leaf} is removed")
        for parent in reversed(parents):
            _is_removed(parent)  # unless it is used by now


def _is_removed(folder: Path) -> bool:
    """Possible only when the last process in it is gone, a moment after it was killed."""
    try:
        folder.rmdir()
    except OSError:
        return False
    return True
