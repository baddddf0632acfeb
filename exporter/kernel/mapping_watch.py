"""Processes that map a file with a CUDA-like name, machine-wide and as it happens.

Reads the side-band records that perf uses to track shared libraries: one dummy software event per CPU, with a record for every
executable mapping (perf_event_open(2), PERF_RECORD_MMAP2). The traced processes are not touched. Records dropped by a full
ring are counted; the caller then walks through /proc.
"""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

from exporter.errors import KernelRefused
from exporter.kernel import perf_events
from exporter.kernel.event_source import OWN_EVENTS, EventSource

_FLAG_MMAP, _FLAG_WATERMARK, _FLAG_MMAP2 = 1 << 8, 1 << 14, 1 << 23

_DATA_PAGES = 4
_HEAD_OFFSET, _TAIL_OFFSET = 1024, 1032  # struct perf_event_mmap_page
_HEADER = struct.Struct("=IHH")  # type, misc, size
_TYPE_LOST, _TYPE_MMAP2 = 2, 10
_TGID = struct.Struct("=I")
_FILE = struct.Struct("=IIQQ")  # major, minor, inode, its generation
_FILE_OFFSET, _FILENAME_OFFSET = 40, 72  # struct of PERF_RECORD_MMAP2
_MINOR_BITS = 20  # MINORBITS of include/linux/kdev_t.h


class Mapped(NamedTuple):
    """A new mapping. tgid: in the exporter's pid namespace. path: as in /proc/TGID/maps. The others: as in RealFile."""

    tgid: int
    inode: int
    path: bytes
    device: int = 0
    generation: int = 0


class MappingWatch:
    """Open on every CPU that was online at follow_cpus(). The descriptors become readable after a mapping; close() when done.

    marks: byte strings, one of which must be in the file's path. Raises KernelRefused if perf_event_open(2) is denied.
    """

    def __init__(
        self, marks: tuple[bytes, ...], *, event_source: EventSource = OWN_EVENTS, cpus: Path = perf_events.CPUS
    ) -> None:
        self._marks = marks
        self._left: set[Mapped] = set()
        self.lost = 0
        self._rings = perf_events.PerCpu(partial(_Ring, event_source), _Ring.close, cpus)

    def filenos(self) -> list[int]:
        """Descriptors for epoll, one per CPU."""
        return [ring.fd for ring in self._rings.opened()]

    def follow_cpus(self) -> list[int]:
        """Open on CPUs that have come online; returns their descriptors for epoll. What was mapped there before is not reported.

        Raises KernelRefused, once for each time a CPU comes online.
        """
        self._left |= self._drain()  # a ring goes with its CPU
        return [ring.fd for ring in self._rings.follow()]

    def drain(self) -> set[Mapped]:
        """Mappings of such files since the last call, by processes in the exporter's pid namespace."""
        found, self._left = self._left | self._drain(), set()
        return found

    def _drain(self) -> set[Mapped]:
        found: set[Mapped] = set()
        for ring in self._rings.opened():
            for kind, record in ring.records():
                if kind == _TYPE_MMAP2:
                    path = record[_FILENAME_OFFSET:].split(b"\0", 1)[0]
                    tgid = _TGID.unpack_from(record, _HEADER.size)[0]
                    if tgid and any(mark in path for mark in self._marks):
                        major, minor, inode, generation = _FILE.unpack_from(record, _FILE_OFFSET)
                        found.add(Mapped(tgid, inode, path, major << _MINOR_BITS | minor, generation))
                elif kind == _TYPE_LOST:
                    self.lost += int.from_bytes(record[16:24], "little")
        return found

    def close(self) -> None:
        """Unmap and close every ring."""
        self._rings.close()


class _Ring:
    """The event of one CPU and its ring of records."""

    def __init__(self, event_source: EventSource, cpu: int) -> None:
        self.fd = event_source.software(
            perf_events.DUMMY, cpu, flags=_FLAG_MMAP | _FLAG_MMAP2 | _FLAG_WATERMARK, watermark=1
        )
        try:
            self._pages = mmap.mmap(self.fd, (1 + _DATA_PAGES) * mmap.PAGESIZE)
        except OSError as error:
            os.close(self.fd)
            raise KernelRefused(f"cannot map the ring of CPU {cpu}: {error.strerror}") from error

    def records(self) -> Iterator[tuple[int, bytes]]:
        """(type, whole record) of everything written since the last call; frees their space at the end."""
        head, tail = struct.unpack_from("=QQ", self._pages, _HEAD_OFFSET)
        data_bytes = _DATA_PAGES * mmap.PAGESIZE
        while tail < head:
            kind, _misc, size = _HEADER.unpack(self._read(tail, _HEADER.size, data_bytes))
            if size < _HEADER.size:  # invalid, and would loop forever
                break
            yield kind, self._read(tail, size, data_bytes)
            tail += size
        struct.pack_into("=Q", self._pages, _TAIL_OFFSET, head)

    def _read(self, position: int, size: int, data_bytes: int) -> bytes:
        start = position % data_bytes
        first = self._pages[mmap.PAGESIZE + start : mmap.PAGESIZE + min(start + size, data_bytes)]
        return first + self._pages[mmap.PAGESIZE : mmap.PAGESIZE + size - len(first)]

    def close(self) -> None:
        self._pages.close()
        os.close(self.fd)
