"""Whether the history's path is safe for root to write to; creates the directory, the file and its lock.

In: a path. Out: a LockedFile that no other exporter writes to, or an Unusable with the reason. Symbolic links are refused at the
file and at the files that SQLite puts beside it, since an attacker can guess their names.
"""

from __future__ import annotations

import fcntl
import grp
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from exporter.errors import ExporterError
from exporter.files import trust

GROUP: Final = "adm"
"""The group that may read a machine's logs may read the history, too."""

DIRECTORY_MODE: Final = 0o750
FILE_MODE: Final = 0o640
LOCK_SUFFIX: Final = "-lock"
SIDE_SUFFIXES: Final = ("-wal", "-shm")
"""Files that SQLite writes beside the database: write-ahead log and its index."""

_MAX_ASIDE: Final = 2


class Unusable(ExporterError):
    """Nothing can be written at the path until a person removes the reason."""


class Busy(Unusable):
    """Another exporter writes to the file."""


class LockedFile:
    """The history's path, locked against other exporters. Made by claim()."""

    def __init__(self, path: Path, lock_fd: int) -> None:
        self.path = path
        self._lock_fd = lock_fd

    def is_same_file(self, identity: tuple[int, int]) -> bool:
        """identity: of the file that was opened."""
        try:
            return self.identity() == identity
        except OSError:
            return False

    def identity(self) -> tuple[int, int]:
        """Device and inode of the file at the path. Raises OSError if there is none."""
        found = os.lstat(self.path)
        return found.st_dev, found.st_ino

    def size_bytes(self) -> int:
        """The file and those that SQLite keeps beside it."""
        return sum(_size_bytes(path) for path in (self.path, *self._side_files()))

    def wal_bytes(self) -> int:
        """Size of the write-ahead log."""
        return _size_bytes(self._side_files()[0])

    def ensure_file(self) -> None:
        """Creates the file if there is none, and sets its mode and group. Raises Unusable."""
        for path in self._side_files():
            _refuse_foreign(path)
        _refuse_foreign(self.path)
        try:
            fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, FILE_MODE)
        except OSError as error:
            raise Unusable(f"cannot write {self.path}: {error.strerror}") from error
        try:
            os.fchmod(fd, FILE_MODE)
            _give_to_group(fd)
        finally:
            os.close(fd)

    def move_aside(self, now_unix_seconds: int) -> Path:
        """Renames a damaged file, and deletes the oldest of those renamed before. Raises OSError."""
        aside = self.path.with_name(f"{self.path.name}.corrupt-{now_unix_seconds}")
        self.path.rename(aside)
        for path in self._side_files():  # of no use without it
            path.unlink(missing_ok=True)
        earlier = sorted(self.path.parent.glob(f"{self.path.name}.corrupt-*"), key=lambda path: path.lstat().st_mtime)
        for path in earlier[:-_MAX_ASIDE]:
            if path != aside:
                path.unlink()
        return aside

    def release(self) -> None:
        """Another exporter may claim the path."""
        os.close(self._lock_fd)

    def _side_files(self) -> tuple[Path, ...]:
        return tuple(self.path.with_name(self.path.name + suffix) for suffix in SIDE_SUFFIXES)


def claim(path: Path) -> LockedFile:
    """Locks the path until release(). Raises Unusable."""
    _ensure_directory(path.parent)
    _refuse_foreign(path)
    lock = path.with_name(path.name + LOCK_SUFFIX)
    try:
        fd = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise Unusable(f"cannot write {lock}: {error.strerror}") from error
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        raise Busy(f"another exporter writes to {path}", remedy="set another --history.path for one of them") from None
    except OSError as error:
        os.close(fd)
        raise Unusable(f"cannot lock {lock}: {error.strerror}") from error
    return LockedFile(path, fd)


def join_reader_group() -> None:
    """Adds GROUP to this process's groups, if possible: the file can then be given to it without any capability."""
    with suppress(KeyError, PermissionError):
        os.setgroups([*os.getgroups(), grp.getgrnam(GROUP).gr_gid])


def check_writable(path: Path) -> None:
    """Checks what claim() needs, without creating anything. Raises Unusable."""
    directory = path.parent
    with _translated(directory):
        trust.refuse_unsafe(directory)
    nearest = next(parent for parent in (directory, *directory.parents) if parent.exists())
    if nearest == directory:
        _refuse_foreign(path)
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise Unusable(f"cannot write to {nearest}", remedy="set another --history.path")


def _ensure_directory(directory: Path) -> None:
    """Creates it if needed. Only its owner may write to it: others could put a link where SQLite will write."""
    with _translated(directory):
        if trust.make_directory(directory, DIRECTORY_MODE):
            _give_to_group(directory)


@contextmanager
def _translated(directory: Path) -> Iterator[None]:
    """Errors of the directory and of those above it."""
    try:
        yield
    except trust.UnsafePath as error:
        raise Unusable(
            f"the directory {error.filename} is {error.strerror}",
            remedy=f"use a directory of its own: --history.path={directory}/gpu-stall-exporter/history.sqlite"
            if error.filename == str(directory)
            else "choose a --history.path that root alone can change",
        ) from error
    except NotADirectoryError as error:
        raise Unusable(f"{error.filename} is not a directory") from error
    except OSError as error:
        raise Unusable(f"cannot use the directory {directory}: {error.strerror}") from error


def _refuse_foreign(path: Path) -> None:
    """At the path there is a file that only this user owns, or none."""
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return
    except OSError as error:
        raise Unusable(f"cannot read {path}: {error.strerror}") from error
    if stat.S_ISLNK(found.st_mode):
        raise Unusable(f"{path} is a symbolic link", remedy="set --history.path to the file that it points to")
    if not stat.S_ISREG(found.st_mode):
        raise Unusable(f"{path} is not a regular file")
    if found.st_uid != os.geteuid() or found.st_nlink != 1:
        raise Unusable(f"{path} belongs to another user or has a second hard link", remedy="remove it")


def _give_to_group(target: int | Path) -> None:
    """Sets the group to GROUP, if it exists and this process may."""
    with suppress(KeyError, PermissionError):
        os.chown(target, -1, grp.getgrnam(GROUP).gr_gid)


def _size_bytes(path: Path) -> int:
    try:
        return os.lstat(path).st_size
    except OSError:
        return 0
