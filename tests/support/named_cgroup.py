"""Control groups with the names that container runtimes and batch systems give them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.traced import eventually


def _hierarchies() -> dict[str, Path]:
    """v2, and of v1 the controllers of memory and of CPUs, where they are mounted."""
    found = {}
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, folder, kind, options, *_ = line.split()
        if kind == "cgroup2":
            found["v2"] = Path(folder)
        elif kind == "cgroup" and "memory" in options.split(","):
            found["v1"] = Path(folder)
        elif kind == "cgroup" and "cpu" in options.split(","):
            found["cpu"] = Path(folder)
    return found


@contextmanager
def named_cgroup(hierarchy: str, path: str) -> Iterator[Path]:
    """A control group, made with all above it that is missing, and removed again."""
    root = _hierarchies().get(hierarchy)
    if root is None:
        pytest.skip(f"needs control groups {hierarchy}, mounted")
    made = []
    folder = root
    try:
        for name in path.split("/"):
            folder /= name
            if not folder.exists():
                try:
                    folder.mkdir()
                except OSError as error:
                    pytest.skip(f"needs control groups that can be made: {folder}: {error.strerror}")
                made.append(folder)
        yield folder
    finally:
        *parents, leaf = made or [folder]
        eventually(lambda: not leaf.exists() or _is_removed(leaf), f"{leaf} is removed")
        for parent in reversed(parents):
            _is_removed(parent)  # unless somebody else uses it by now


def _is_removed(folder: Path) -> bool:
    """Only when the last process in it is gone, which takes a moment after it was killed."""
    try:
        folder.rmdir()
    except OSError:
        return False
    return True
