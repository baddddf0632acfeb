"""Whether root and this user alone can change what a path leads to. Makes directories for which that is so.

Each component is looked at in a directory that was found safe, so that it cannot be replaced after that.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import Final

_LINKS_MAX: Final = 40  # as in the kernel: path_resolution(7)
_OTHERS_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH


class UnsafePath(PermissionError):
    """Another user can change what a path leads to. filename: the part of the path that is not safe."""


def refuse_unsafe(directory: Path) -> None:
    """Raises UnsafePath unless root and this user alone may write to the directory and to every directory above it.

    A directory that does not exist is as safe as the ones above it. One above may be sticky, like /tmp: there only its owner can
    rename what it holds. A symbolic link counts like what it leads to. Raises OSError for what cannot be looked at.
    """
    _walk(directory)


def is_safe_file(path: Path) -> bool:
    """Whether it is a regular file that root and this user alone can write to or replace. Raises OSError if there is none."""
    found = os.lstat(path)
    if not stat.S_ISREG(found.st_mode) or found.st_uid not in _trusted_users() or found.st_mode & _OTHERS_WRITE:
        return False
    try:
        _walk(path.parent)
    except UnsafePath:
        return False
    return True


def make_directory(directory: Path, mode: int) -> bool:
    """Creates it, and those above it that are missing, if need be. Returns whether it did. Raises OSError, as refuse_unsafe()."""
    safe = _walk(directory)
    missing = []
    while not safe.is_dir():
        missing.append(safe)
        safe = safe.parent
    for one in reversed(missing):
        one.mkdir(mode if one is missing[0] else 0o755)
    return bool(missing)


def _walk(directory: Path) -> Path:
    """The path without links. Every component was looked at in a directory that only trusted users may write to."""
    pending = [*reversed(directory.absolute().parts[1:])]
    current, links_left = Path("/"), _LINKS_MAX
    is_missing = False
    _refuse_writable(current, os.lstat(current), may_be_sticky=bool(pending))
    while pending:
        part = pending.pop()
        if part == "..":
            current = current.parent
            continue
        child = current / part
        if is_missing:
            current = child
            continue
        try:
            found = os.lstat(child)
        except FileNotFoundError:
            current, is_missing = child, True
            continue
        if stat.S_ISLNK(found.st_mode):
            links_left -= 1
            if links_left < 0:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(directory))
            _refuse_foreign(child, found)
            target = child.readlink()
            current = Path("/") if target.is_absolute() else current
            pending += [*reversed(target.parts[1:] if target.is_absolute() else target.parts)]
            continue
        if not stat.S_ISDIR(found.st_mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(child))
        _refuse_writable(child, found, may_be_sticky=bool(pending))
        current = child
    return current


def _refuse_writable(directory: Path, found: os.stat_result, *, may_be_sticky: bool) -> None:
    _refuse_foreign(directory, found)
    if found.st_mode & _OTHERS_WRITE and not (may_be_sticky and found.st_mode & stat.S_ISVTX):
        raise UnsafePath(errno.EPERM, "writable by others", str(directory))


def _refuse_foreign(part: Path, found: os.stat_result) -> None:
    if found.st_uid not in _trusted_users():
        raise UnsafePath(errno.EPERM, f"owned by another user (uid {found.st_uid})", str(part))


def _trusted_users() -> tuple[int, int]:
    return 0, os.geteuid()
