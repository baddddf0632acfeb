"""The folder of a store: its lock, and the segments that it has by their names.

One program writes to a store. It holds the lock of the folder; readers need none, since sealed segments do not change.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from pathlib import Path
from typing import Final

from exporter.cluster.segment_name import SegmentName
from exporter.errors import NotPossibleHere

LOCK: Final = "lock"
LOG_SUFFIX: Final = ".wal"
"""DuckDB's log of an open segment: the name of the segment with this."""
DAMAGED_SUFFIX: Final = ".damaged"
_FOLDER_MODE: Final = 0o750


class StoreFolder:
    """Locked until close(). Raises NotPossibleHere when another program writes to it, or when it cannot be used."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            path.mkdir(_FOLDER_MODE, parents=True, exist_ok=True)
            self._lock_fd = os.open(path / LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise NotPossibleHere(
                f"cannot use the store at {path}: {error.strerror}",
                remedy="set --store.path to a folder that this user can write to",
            ) from None
        try:
            fcntl.flock(self._lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._lock_fd)
            is_busy = isinstance(error, BlockingIOError)
            reason = "another process writes to it" if is_busy else f"cannot lock it: {error.strerror}"
            raise NotPossibleHere(
                f"cannot use the store at {path}: {reason}",
                remedy="stop `gpu-stall-exporter cluster`, or set another --store.path" if is_busy else "",
            ) from None

    def segments(self) -> list[SegmentName]:
        """In the order in which they were begun. Raises OSError."""
        return sorted(found for one in self.path.iterdir() if (found := SegmentName.parsed(one.name)))

    def path_of(self, name: SegmentName) -> Path:
        return self.path / str(name)

    def size_bytes(self, name: SegmentName) -> int:
        """The size of a sealed segment. Raises OSError."""
        return self.path_of(name).stat().st_size

    def remove(self, name: SegmentName) -> None:
        """Raises OSError."""
        self.path_of(name).unlink()

    def put_aside(self, name: SegmentName) -> Path:
        """Renames a damaged segment, so that it is no longer one of the store. Raises OSError."""
        path = self.path_of(name)
        aside = path.with_name(path.name + DAMAGED_SUFFIX)
        log = path.with_name(path.name + LOG_SUFFIX)
        if log.exists():
            log.rename(aside.with_name(aside.name + LOG_SUFFIX))
        path.rename(aside)
        return aside

    def free_bytes(self) -> int:
        """What this user can still write. Raises OSError."""
        return shutil.disk_usage(self.path).free

    def close(self) -> None:
        os.close(self._lock_fd)


def sync_folder(path: Path) -> None:
    """Names of files in the folder are on the disk when it returns. Raises OSError."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
