"""The files that processes really run code from: the inodes that uprobes are bound to.

In: a loaded Kernel; a process, or a descriptor of the exporter. Out: inodes as the kernel identifies them. On an overlay,
/proc and stat(2) cannot show whether two names are one file for uprobes: a file of one layer has a different device in each
container, and the same inode number and path before and after it is copied up. Partner in C: bpf/mappings.bpf.c.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from typing import NamedTuple

from exporter.errors import KernelRefused
from exporter.kernel import abi
from exporter.kernel.loader import Kernel

PROGRAM = "mappings_read"
_MAP_FAILED = ctypes.c_void_p(-1).value
_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.mmap.restype = ctypes.c_void_p
_LIBC.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long)
_LIBC.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)


class RealFile(NamedTuple):
    """An inode below every overlay. A dictionary key, not for display.

    address: of the kernel's inode. An attachment holds the inode, so the address stays its own. Without an attachment, the other
    members distinguish it from a later inode at the same address.
    """

    address: int
    inode: int
    generation: int
    device: int


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

    def of_process(self, tgid: int) -> dict[Range, RealFile]:
        """The files of a process's executable mappings; empty if it has ended."""
        if not self.is_possible:
            return {}
        try:
            return {place: file for place, file, _ in rows_of(self._kernel.iterate_thread(PROGRAM, tgid))}
        except KernelRefused:
            return {}

    def of_descriptor(self, fd: int) -> RealFile | None:
        """The inode that a uprobe on an open file would be placed in; None if it is unknown.

        Maps the first page without touching it.
        """
        if not self.is_possible:
            return None
        start = _LIBC.mmap(None, mmap.PAGESIZE, mmap.PROT_READ, mmap.MAP_PRIVATE, fd, 0)
        if start == _MAP_FAILED:
            return None
        try:
            mapped = self.of_process(os.getpid())
        finally:
            _LIBC.munmap(start, mmap.PAGESIZE)
        # Neighbouring pages of one file may form one mapping.
        return next((file for (first, end), file in mapped.items() if first <= start < end), None)


def rows_of(written: bytes) -> list[tuple[Range, RealFile, bool]]:
    """Address range, file, and whether it is of the reading process, for each row of output."""
    rows = []
    for start, end, address, inode, generation, device, is_own, _ in abi.MAPPING_ROW.iter_unpack(written):
        rows.append(((start, end), RealFile(address, inode, generation, device), bool(is_own)))
    return rows
