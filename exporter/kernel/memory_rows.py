"""Direct reclaim and OOM kills of control groups, and page allocations of processes.

In: MapReaders. Out: counts that the kernel keeps until the row is deleted. Partners in C: bpf/memory.bpf.c, bpf/pages.bpf.c.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from exporter.kernel import abi
from exporter.kernel.abi import ShareTable
from exporter.kernel.maps import MapReader
from exporter.kernel.share_rows import Shares
from exporter.totals import Counts, HistogramTotal

_SUMS = abi.MEMORY_ROW.part("reclaim_ns", "names")
_SUMS_AT = abi.MEMORY_ROW.offset("reclaim_ns")
_SLOTS = abi.MEMORY_ROW.part("slots")
_SLOTS_AT = abi.MEMORY_ROW.offset("slots")


class MemoryRow(NamedTuple):
    """Value of `memory_groups`. path: of the group, the innermost directories. reclaims: direct reclaim, by duration."""

    path: str
    reclaims: HistogramTotal
    reclaimed_pages: int
    oom_kills: int


def read_memory(table: MapReader | None) -> Iterator[tuple[int, MemoryRow]]:
    """Number of a group and its row. None: the programs that write the map are not loaded."""
    for key, value in table.items() if table else ():
        reclaim_ns, pages, kills, names = _SUMS.unpack_from(value, _SUMS_AT)
        slots = Counts.of(_SLOTS.unpack_from(value, _SLOTS_AT))
        row = MemoryRow(_path_of(names), HistogramTotal(slots, reclaim_ns), pages, kills)
        yield abi.COUNT.unpack(key)[0], row


def forget_group(shares: Shares, number: int) -> None:
    shares.delete_of_group(ShareTable.MEMORY_GROUPS, abi.COUNT.pack(number))


def read_pages(table: MapReader | None) -> Iterator[tuple[int, int]]:
    """Process number and the pages allocated for it. None: pages are not counted."""
    for key, value in table.items() if table else ():
        yield abi.NUMBER.unpack(key)[0], abi.COUNT.unpack(value)[0]


def forget_pages(table: MapReader, process: int) -> None:
    table.delete(abi.NUMBER.pack(process))


def _path_of(names: bytes) -> str:
    """`step_0\\0...job_1\\0...` -> `/job_1/step_0`; `/` for the root."""
    width = abi.GROUP_NAME_BYTES
    parts = (names[at : at + width].split(b"\0", 1)[0] for at in range(0, len(names), width))
    folders = [part.decode("utf-8", "replace") for part in parts if part not in (b"", b"/")]
    return "/" + "/".join(reversed(folders))
