"""Where is the history, and is it safe to write there as root? Looks at files, makes the directory, the file and its lock.

In: a path. Out: a Place that nobody else writes to, or an Unusable that says in one line why not. No link is followed at the
file, and none of the files that SQLite puts beside it may be one: their names are known to everybody.
"""

from __future__ import annotations

import fcntl
import grp
import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final

from exporter.errors import ExporterError

GROUP: Final = "adm"
"""Who reads the logs of a machine reads this, too."""

DIRECTORY_MODE: Final = 0o750
FILE_MODE: Final = 0o640
LOCK_SUFFIX: Final = "-lock"
BESIDE: Final = ("-wal", "-shm")
"""What SQLite writes beside its file."""

_MAX_ASIDE: Final = 2


class Unusable(ExporterError):
    """Nothing can be written there, for a reason that somebody has to remove."""


class Busy(Unusable):
    """Another exporter writes there."""


class LockedFile:
    """A file of ours in a directory of ours, locked. Made by claim()."""

    def __init__(self, path: Path, lock_fd: int) -> None:
        self.path = path
        self._lock_fd = lock_fd

    def is_same_file(self, identity: tuple[int, int]) -> bool:
        """Whether the file that was opened still has its name."""
        try:
            return self.identity() == identity
        except OSError:
            return False

    def identity(self) -> tuple[int, int]:
        """Of the file that has the name now: device and inode. Raises OSError when there is none."""
        found = os.lstat(self.path)
        return found.st_dev, found.st_ino

    def size_bytes(self) -> int:
        """The file and what SQLite has beside it."""
        return sum(_size_bytes(path) for path in (self.path, *self._beside()))

    def wal_bytes(self) -> int:
        """What is still to be moved into the file."""
        return _size_bytes(self._beside()[0])

    def ensure_file(self) -> None:
        """The file, with its mode and group; a new one where there is none. Raises Unusable."""
        for path in self._beside():
            _refuse_strange(path)
        _refuse_strange(self.path)
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
        """The file is of no use: it gets another name, and the oldest such files go. Raises OSError."""
        aside = self.path.with_name(f"{self.path.name}.corrupt-{now_unix_seconds}")
        self.path.rename(aside)
        for path in self._beside():  # they belong to no other file
            path.unlink(missing_ok=True)
        earlier = sorted(self.path.parent.glob(f"{self.path.name}.corrupt-*"), key=lambda path: path.lstat().st_mtime)
        for path in earlier[:-_MAX_ASIDE]:
            if path != aside:
                path.unlink()
        return aside

    def release(self) -> None:
        """Somebody else may write there."""
        os.close(self._lock_fd)

    def _beside(self) -> tuple[Path, ...]:
        return tuple(self.path.with_name(self.path.name + suffix) for suffix in BESIDE)


def claim(path: Path) -> LockedFile:
    """The place, ours until release(). Raises Unusable."""
    _ensure_directory(path.parent)
    _refuse_strange(path)
    lock = path.with_name(path.name + LOCK_SUFFIX)
    try:
        fd = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise Unusable(f"cannot write {lock}: {error.strerror}") from error
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        raise Busy(f"another exporter writes {path}", remedy="give each its own --history.path") from None
    except OSError as error:
        os.close(fd)
        raise Unusable(f"cannot lock {lock}: {error.strerror}") from error
    return LockedFile(path, fd)


def join_readers() -> None:
    """Be of the group that reads, where there is one and we may: a file can be given to it later without any capability."""
    with suppress(KeyError, PermissionError):
        os.setgroups([*os.getgroups(), grp.getgrnam(GROUP).gr_gid])


def check_writable(path: Path) -> None:
    """Checks what claim() needs, without creating anything. Raises Unusable."""
    directory = path.parent
    nearest = next(parent for parent in (directory, *directory.parents) if parent.exists())
    if nearest == directory:
        _refuse_unsafe(directory)
        _refuse_strange(path)
    if not os.access(nearest, os.W_OK | os.X_OK):
        raise Unusable(f"cannot write to {nearest}", remedy="name another file in --history.path")


def _ensure_directory(directory: Path) -> None:
    """It exists, and only its owner writes there: whoever else did could put a link where SQLite will write."""
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        try:
            directory.mkdir(DIRECTORY_MODE)
        except FileExistsError:
            pass
        else:
            _give_to_group(directory)
    except OSError as error:
        raise Unusable(f"cannot make the directory {directory}: {error.strerror}") from error
    _refuse_unsafe(directory)


def _refuse_unsafe(directory: Path) -> None:
    """It is one, and nobody else writes there."""
    try:
        found = directory.stat()
    except OSError as error:
        raise Unusable(f"cannot look at {directory}: {error.strerror}") from error
    if not stat.S_ISDIR(found.st_mode):
        raise Unusable(f"{directory} is no directory")
    if found.st_uid not in (0, os.geteuid()) or found.st_mode & 0o022:
        raise Unusable(
            f"others may write to the directory {directory}",
            remedy=f"give the history a directory of its own: --history.path={directory}/gpu-stall-exporter/history.sqlite",
        )


def _refuse_strange(path: Path) -> None:
    """What is there is a file of ours, or nothing."""
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return
    except OSError as error:
        raise Unusable(f"cannot look at {path}: {error.strerror}") from error
    if stat.S_ISLNK(found.st_mode):
        raise Unusable(f"{path} is a link, which is not followed", remedy="name the file itself in --history.path")
    if not stat.S_ISREG(found.st_mode):
        raise Unusable(f"{path} is no file")
    if found.st_uid != os.geteuid() or found.st_nlink != 1:
        raise Unusable(f"{path} belongs to somebody else, or has a second name", remedy="remove it")


def _give_to_group(target: int | Path) -> None:
    """The readers' group, where there is one and we may."""
    with suppress(KeyError, PermissionError):
        os.chown(target, -1, grp.getgrnam(GROUP).gr_gid)


def _size_bytes(path: Path) -> int:
    try:
        return os.lstat(path).st_size
    except OSError:
        return 0
