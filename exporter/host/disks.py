"""What are the disks of this machine called? In: device numbers. Out: names such as `nvme0n1`, as in /proc/diskstats."""

from __future__ import annotations

from pathlib import Path
from typing import Final

SYS_DEV_BLOCK: Final = Path("/sys/dev/block")
MAX_NAMES: Final = 64

OTHER: Final = "other"


class Disks:
    """Names by device number; at most MAX_NAMES, all later ones are `other`. A name stays, although the disk be gone."""

    def __init__(self, folder: Path = SYS_DEV_BLOCK) -> None:
        self._folder = folder
        self._names: dict[str, str] = {}

    def name(self, number: str) -> str:
        """Of `259:0`; the number itself for a disk that was gone before anybody asked, `other` when there are too many."""
        known = self._names.get(number)
        if known is None and len(self._names) < MAX_NAMES:
            known = self._names[number] = self._look_up(number)
        return known or OTHER

    def _look_up(self, number: str) -> str:
        try:
            return (self._folder / number).readlink().name
        except OSError:
            return number
