"""What control groups suffer for want of memory, and pages of processes, as rows: the tables that bpf/memory.bpf.c and
bpf/pages.bpf.c fill. Bytes in, numbers out.

In: MapReaders. Out: counts since the first of a group or process, which the kernel keeps until the row is deleted.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from exporter.kernel import abi
from exporter.kernel.maps import MapReader
from exporter.totals import Counts, HistogramTotal


class MemoryRow(NamedTuple):
    """Value of `memory_groups`. path: of the group, as far as the innermost folders tell it. reclaims: direct ones, by length."""

    path: str
    reclaims: HistogramTotal
    reclaimed_pages: int
    oom_kills: int


def read_memory(table: MapReader | None) -> Iterator[tuple[int, MemoryRow]]:
    """Number of a group and its row. None: the programs that fill the table did not load."""
    for key, value in table.items() if table else ():
        reclaim_ns, pages, kills, names = abi.MEMORY_SUMS.unpack_from(value)
        slots = Counts.of(abi.OPERATION_SLOTS.unpack_from(value, abi.MEMORY_SUMS.size))
        row = MemoryRow(_path_of(names), HistogramTotal(slots, reclaim_ns), pages, kills)
        yield abi.COUNT.unpack(key)[0], row


def forget_group(table: MapReader, number: int) -> None:
    """Its room can be used again."""
    table.delete(abi.COUNT.pack(number))


def read_pages(table: MapReader | None) -> Iterator[tuple[int, int]]:
    """Process number and the pages allocated for it. None: they are not counted."""
    for key, value in table.items() if table else ():
        yield abi.NUMBER.unpack(key)[0], abi.COUNT.unpack(value)[0]


def forget_pages(table: MapReader, process: int) -> None:
    """Its room can be used again."""
    table.delete(abi.NUMBER.pack(process))


def _path_of(names: bytes) -> str:
    """`step_0\\0...job_1\\0...` -> `/job_1/step_0`; `/` for the root."""
    width = abi.GROUP_NAME_BYTES
    parts = (names[at : at + width].split(b"\0", 1)[0] for at in range(0, len(names), width))
    folders = [part.decode("utf-8", "replace") for part in parts if part not in (b"", b"/")]
    return "/" + "/".join(reversed(folders))
