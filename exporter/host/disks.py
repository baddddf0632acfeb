"""Names of disks. In: device numbers. Out: names such as `nvme0n1`, as in /proc/diskstats."""

from __future__ import annotations

from pathlib import Path
from typing import Final

SYS_DEV_BLOCK: Final = Path("/sys/dev/block")
MAX_NAMES: Final = 64

OTHER: Final = "other"


class Disks:
    """Names by device number; all beyond MAX_NAMES are `other`. A disk that is removed keeps its name."""

    def __init__(self, folder: Path = SYS_DEV_BLOCK) -> None:
        self._folder = folder
        self._names: dict[str, str] = {}

    def name(self, number: str) -> str:
        """The name of disk `259:0`, for example; the number itself for a disk that is gone already."""
        known = self._names.get(number)
        if known is None and len(self._names) < MAX_NAMES:
            known = self._names[number] = self._look_up(number)
        return known or OTHER

    def _look_up(self, number: str) -> str:
        try:
            return (self._folder / number).readlink().name
        except OSError:
            return number
