"""Which file does a process really run code from?

In: a loaded Kernel; a process, or a descriptor of our own. Out: the inodes that uprobes are bound to, as the kernel knows them.
On an overlay a file of one layer has another device for each container, the same inode number and path before and after it is
copied up, and is one file for uprobes or two: nothing that /proc or stat(2) tell decides it. Partner in C: bpf/mappings.bpf.c.
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
    """An inode below every overlay. A dictionary key, not for showing.

    address: of the kernel's inode, which it compares itself; an attachment holds the inode, so that it stays its own. The
    others tell a later inode at the same address from it, where nothing is attached.
    """

    address: int
    inode: int
    generation: int
    device: int


Range = tuple[int, int]  # first address of a mapping, and the first one behind it


class MappedFiles:
    """Asks the kernel. Knows nothing where the program is not loaded, or the kernel cannot ask about one process (before 6.1)."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        try:
            rows = rows_of(kernel.iterate_thread(PROGRAM, os.getpid()))
        except KernelRefused:
            rows = []
        self.is_possible = bool(rows) and all(is_own for _, _, is_own in rows)

    def of_process(self, tgid: int) -> dict[Range, RealFile]:
        """What the executable mappings of a process are of; empty for one that ended."""
        if not self.is_possible:
            return {}
        try:
            return {place: file for place, file, _ in rows_of(self._kernel.iterate_thread(PROGRAM, tgid))}
        except KernelRefused:
            return {}

    def of_descriptor(self, fd: int) -> RealFile | None:
        """What a uprobe on an open file would be put into now; None when it cannot be told.

        Its first page is mapped and not touched.
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
        # Two pages of one file that happen to be neighbours are one mapping.
        return next((file for (first, end), file in mapped.items() if first <= start < end), None)


def rows_of(written: bytes) -> list[tuple[Range, RealFile, bool]]:
    """What the program wrote: where, which file, and whether it is of the reader's own process."""
    rows = []
    for start, end, address, inode, generation, device, is_own, _ in abi.MAPPING_ROW.iter_unpack(written):
        rows.append(((start, end), RealFile(address, inode, generation, device), bool(is_own)))
    return rows
