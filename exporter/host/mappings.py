r"""Files that a process runs code from.

In: the bytes of /proc/TGID/maps, in which a process chooses the paths and the length. Out: its file-backed executable
mappings. Source: show_map_vma() in the kernel's fs/proc/task_mmu.c. A newline in a path is written "\012" and a
backslash as itself, so a path that really holds "\012" is misread, and opening it fails.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from exporter.text.printable import printable_bytes

PATH_CHARACTERS_MAX: Final = 4096
_DELETED: Final = b" (deleted)"
# start-end, permissions with x, offset, major:minor, inode, path; the newline keeps out a line cut at a limit
_EXECUTABLE_FILE: Final = re.compile(
    rb"^([0-9a-f]{1,16})-([0-9a-f]{1,16}) ..x. ([0-9a-f]{1,16}) "
    rb"([0-9a-f]{1,3}):([0-9a-f]{1,5}) ([0-9]{1,20}) +(/[^\n]*)\n",
    re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class Mapping:
    """One executable mapping of a file.

    start, end: addresses in the process. path: bytes, as the process sees it, without " (deleted)".
    device: as in os.stat(). is_deleted: the file has no name any more, or never had one (memfd).
    offset: of the mapping in the file, in bytes.
    """

    start: int
    end: int
    path: bytes
    device: int
    inode: int
    is_deleted: bool
    offset: int = 0

    @property
    def shown_path(self) -> str:
        """The path, printable; for display, not for opening."""
        return printable_bytes(self.path, PATH_CHARACTERS_MAX)


def parse_executable_mappings(maps: bytes) -> Iterator[Mapping]:
    r"""Mappings in the order of the file; lines of any other form are skipped.

    Before: b"7f00-7f10 r-xp 00000000 fe:00 26      /lib/x\012y.so (deleted)\n".
    After: Mapping(0x7F00, 0x7F10, b"/lib/x\ny.so", os.makedev(0xFE, 0), 26, True, 0).
    """
    for found in _EXECUTABLE_FILE.finditer(maps):
        start, end, offset, major, minor, inode, path = found.groups()
        if int(inode) == 0:
            continue
        yield Mapping(
            start=int(start, 16),
            end=int(end, 16),
            path=path.removesuffix(_DELETED).replace(b"\\012", b"\n"),
            device=os.makedev(int(major, 16), int(minor, 16)),
            inode=int(inode),
            is_deleted=path.endswith(_DELETED),
            offset=int(offset, 16),
        )
