"""Opens, reads, copies and replaces regular files.

In: paths. Out: descriptors and bytes, or an OSError whose strerror says what is wrong. A pipe never blocks and a device is never
opened: a file is looked at before it is opened.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

READABLE: Final = 0o644
"""Mode of a replaced file that other users may read."""

_PIECE_BYTES: Final = 1 << 20


def close(fd: int) -> None:
    """Closes a file that was only read: nothing is lost when the file system reports an error, as a FUSE that has died does.

    The descriptor is free all the same, and may belong to another file by now: it must not be closed again. Source: close(2).
    """
    with suppress(OSError):
        os.close(fd)


def open_regular(path: str | bytes | Path, *, follow_links: bool = False) -> int:
    """A descriptor to read a regular file. follow_links: the path may end in a symbolic link. Raises OSError."""
    flags = os.O_PATH | os.O_CLOEXEC | (0 if follow_links else os.O_NOFOLLOW)
    handle = os.open(path, flags)  # touches nothing: opening a pipe may wait, and opening a device may act
    try:
        _refuse_irregular(os.fstat(handle).st_mode, path)
        return os.open(f"/proc/self/fd/{handle}", os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    finally:
        close(handle)


def read(path: str | bytes | Path, bytes_max: int, *, follow_links: bool = False) -> bytes:
    """The content of a regular file. Raises OSError, also for a file that is larger."""
    fd = open_regular(path, follow_links=follow_links)
    try:
        content = read_up_to(fd, bytes_max + 1)
    finally:
        close(fd)
    if len(content) > bytes_max:
        raise OSError(errno.EFBIG, f"larger than {_spoken(bytes_max)}", os.fsdecode(path))
    return content


def read_up_to(fd: int, bytes_max: int) -> bytes:
    """What is left of an open file, at most so much of it. Raises OSError."""
    pieces: list[bytes] = []
    while bytes_max > 0 and (piece := os.read(fd, min(bytes_max, _PIECE_BYTES))):
        pieces.append(piece)
        bytes_max -= len(piece)
    return b"".join(pieces)


def copy(fd: int, path: Path, bytes_max: int) -> None:
    """Writes what is left of an open file to a new file of this user. Raises OSError, also for a larger one."""
    target = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        left_bytes = bytes_max
        while piece := os.read(fd, _PIECE_BYTES):
            left_bytes -= len(piece)
            if left_bytes < 0:
                raise OSError(errno.EFBIG, f"larger than {_spoken(bytes_max)}")
            rest = memoryview(piece)
            while rest:
                rest = rest[os.write(target, rest) :]
    finally:
        os.close(target)


def replace(path: Path, pieces: Iterable[bytes], mode: int = READABLE) -> None:
    """Writes a file at once: a reader sees the old content or the new one. Raises OSError.

    What stands at the path must be a regular file or nothing: a link is not followed, and a device not replaced. The temporary
    file has a name that cannot be guessed, and is removed if it cannot be completed.
    """
    name, temporary = path.name, f".{path.name[:64]}.{os.urandom(8).hex()}"
    if not name:
        raise OSError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    directory = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        _refuse_other_target(directory, name, path)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(temporary, flags, mode, dir_fd=directory)
        try:
            with os.fdopen(fd, "wb") as file:
                file.writelines(pieces)
                file.flush()
                os.fsync(file.fileno())
            os.rename(temporary, name, src_dir_fd=directory, dst_dir_fd=directory)
        except BaseException:
            os.unlink(temporary, dir_fd=directory)
            raise
    finally:
        os.close(directory)


def _refuse_irregular(mode: int, path: str | bytes | Path) -> None:
    if stat.S_ISLNK(mode):
        raise OSError(errno.ELOOP, "a symbolic link: name the file that it leads to", os.fsdecode(path))
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fsdecode(path))
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "not a regular file", os.fsdecode(path))


def _refuse_other_target(directory: int, name: str, path: Path) -> None:
    try:
        found = os.stat(name, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return
    _refuse_irregular(found.st_mode, path)


def _spoken(size_bytes: int) -> str:
    if size_bytes < 1 << 10:
        return f"{size_bytes} bytes"
    return f"{size_bytes >> 20} MiB" if size_bytes >= 1 << 20 else f"{size_bytes >> 10} KiB"
