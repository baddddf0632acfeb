"""Reads pieces of a file that may be huge, cut short, hostile, or rewritten at the same time.

In: an open descriptor. Out: small pieces of bytes, or MalformedElf. Never mmap (a file that is cut short would kill
the exporter with SIGBUS), never more than PIECE_BYTES_MAX at once, never more reads than the budget given.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from typing import Final, NamedTuple

from exporter.errors import MalformedElf

PIECE_BYTES_MAX: Final = 64 * 1024


class FileState(NamedTuple):
    """What changes when a file is written to, or when the descriptor number is used for another file."""

    device: int
    inode: int
    size_bytes: int
    modified_ns: int


def file_state(fd: int) -> FileState:
    """The state of a regular file.

    Raises MalformedElf for a pipe, a directory, a device (reading those blocks or acts) and for a closed descriptor.
    """
    try:
        status = os.fstat(fd)
    except OSError as error:
        raise MalformedElf(f"cannot stat descriptor {fd}: {error.strerror}") from error
    if not stat.S_ISREG(status.st_mode):
        raise MalformedElf("not a regular file")
    return FileState(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


@dataclass(slots=True)
class BoundedFile:
    """Reads pieces of one file. The number of reads is limited, which bounds the time spent on a hostile file."""

    fd: int
    size_bytes: int
    reads_left: int

    def read(self, offset: int, length: int) -> bytes:
        """Exactly `length` bytes at `offset`; raises MalformedElf when the file does not have them."""
        piece = self.read_up_to(offset, length)
        if len(piece) != length:
            raise MalformedElf(f"{length} bytes at offset {offset} lie outside of the file ({self.size_bytes} bytes)")
        return piece

    def read_up_to(self, offset: int, length: int) -> bytes:
        """At most `length` bytes at `offset`, fewer at the end of the file, none beyond it."""
        if length > PIECE_BYTES_MAX:
            raise MalformedElf(f"a table of {length} bytes is longer than any real one")
        available = min(length, self.size_bytes - offset)
        if offset < 0 or available <= 0:
            return b""
        if self.reads_left <= 0:
            raise MalformedElf("needs more reads than any real library")
        self.reads_left -= 1
        try:
            return os.pread(self.fd, available, offset)
        except (OSError, OverflowError) as error:
            raise MalformedElf(f"cannot read at offset {offset}: {error}") from error
