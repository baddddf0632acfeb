"""The files that processes really run code from: the inodes that uprobes are bound to.

In: a loaded Kernel; a process. Out: inodes as the kernel identifies them. On an overlay,
/proc and stat(2) cannot show whether two names are one file for uprobes: a file of one layer has a different device in each
container, and the same inode number and path before and after it is copied up. Partner in C: bpf/mappings.bpf.c.
"""

from __future__ import annotations

import os
from typing import NamedTuple

from exporter.errors import KernelRefused
from exporter.kernel import abi
from exporter.kernel.loader import Kernel

PROGRAM = "mappings_read"


class RealFile(NamedTuple):
    """An inode below every overlay. A dictionary key, not for display.

    address: of the kernel's inode. An attachment holds the inode, so the address stays its own. Without an attachment, the other
    members distinguish it from a later inode at the same address. file_system: its magic number. is_in_user_namespace: whether it
    was mounted in a user namespace.
    """

    address: int
    inode: int
    generation: int
    device: int
    file_system: int = 0
    is_in_user_namespace: bool = False


class FileStamp(NamedTuple):
    """Differs after a file was written to. changed_ns: last change of content or metadata, time of day."""

    size_bytes: int
    changed_ns: int


class MappedFile(NamedTuple):
    """A file, and what it was when its mapping was read."""

    file: RealFile
    stamp: FileStamp


Range = tuple[int, int]  # first address of a mapping, and first address behind it


class MappedFiles:
    """Reads mappings. Empty if the program is not loaded, or the kernel cannot iterate one process (before 6.1)."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        try:
            rows = rows_of(kernel.iterate_thread(PROGRAM, os.getpid()))
        except KernelRefused:
            rows = []
        self.is_possible = bool(rows) and all(is_own for _, _, is_own in rows)

    def of_process(self, tgid: int) -> dict[Range, MappedFile]:
        """The files of a process's executable mappings; empty if it has ended."""
        if not self.is_possible:
            return {}
        try:
            return {place: file for place, file, _ in rows_of(self._kernel.iterate_thread(PROGRAM, tgid))}
        except KernelRefused:
            return {}

    def at(self, tgid: int, address: int) -> MappedFile | None:
        """The file that the exporter, or a child of it, has mapped at an address; None if it is unknown."""
        return next((file for (first, end), file in self.of_process(tgid).items() if first <= address < end), None)


def rows_of(written: bytes) -> list[tuple[Range, MappedFile, bool]]:
    """Address range, file, and whether it is of the reading process, for each row of output."""
    rows = []
    for (
        start,
        end,
        address,
        inode,
        size_bytes,
        changed_ns,
        generation,
        device,
        is_own,
        is_in_user_namespace,
        magic,
    ) in abi.MAPPING_ROW.iter_unpack(written):
        file = RealFile(address, inode, generation, device, magic, bool(is_in_user_namespace))
        rows.append(((start, end), MappedFile(file, FileStamp(size_bytes, changed_ns)), bool(is_own)))
    return rows
