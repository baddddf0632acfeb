"""Where a path leads for a process with another root directory.

In: that directory, and a path in it. Out: the path without symbolic links, each of which was followed within the root, as the
process itself would. It must not be taken for safe: what it leads to may be replaced at any time.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Final

_LINKS_MAX: Final = 40  # as in the kernel: path_resolution(7)


def real_path(root: Path, path: str) -> Path:
    """Raises OSError where there is nothing, or too many links, and ValueError for a path that no file can have."""
    found: list[str] = []
    left = path.split("/")[::-1]
    links = 0
    while left:
        part = left.pop()
        if part == "..":
            del found[-1:]
        elif part not in ("", "."):
            target = _target(root.joinpath(*found, part))
            if target is None:
                found.append(part)
                continue
            links += 1
            if links > _LINKS_MAX:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
            if target.startswith("/"):
                found.clear()
            left.extend(target.split("/")[::-1])
    return root.joinpath(*found)


def _target(path: Path) -> str | None:
    """Where a symbolic link leads; None for anything else."""
    try:
        return os.fspath(path.readlink())
    except OSError as error:
        if error.errno == errno.EINVAL:
            return None
        raise
