"""Copies, graphs and kernel launches of processes. Partner in C: bpf/cuda.bpf.c.

In: MapReaders by map name; a missing map counts as empty. Out: rows by key.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, product
from typing import NamedTuple

from exporter.kernel import abi
from exporter.kernel.abi import Copy, HostMemory
from exporter.kernel.maps import MapReader
from exporter.kernel.thread_rows import delete_of, rows_at_places

_KERNELS_AT = abi.FEEDING_ROW.offset("kernels")

GRID_LIMITS = (1, 8, 64, 512, 4096)
BLOCK_LIMITS = (32, 64, 128, 256, 512)
"""The largest size of each class except the last. Source: grid_class() and block_class() in bpf/lib/geometry.bpf.h."""

BETWEEN_HOST_AND_DEVICE = (Copy.HOST_TO_DEVICE, Copy.DEVICE_TO_HOST)
"""Directions that have rows in `copies`."""


class CopyKey(NamedTuple):
    """Key of `copies`. is_blocking: the call returns when the host's memory has been read or written."""

    process: int
    direction: Copy
    memory: HostMemory
    is_blocking: int


class CopyRow(NamedTuple):
    """Value of `copies`. total_ns: duration of the calls, which for blocking copies is the time of the copies."""

    copies: int
    bytes: int
    total_ns: int


class GraphRow(NamedTuple):
    """Value of `graph_rows`. began_ns: of the last capture, CLOCK_MONOTONIC. kernels: in the launched graphs.

    first_launches, dropped: executable graphs that were launched for the first time, or destroyed before that.
    """

    captures: int = 0
    captured: int = 0
    failed: int = 0
    capture_ns: int = 0
    began_ns: int = 0
    instantiated: int = 0
    instantiate_ns: int = 0
    first_launches: int = 0
    dropped: int = 0
    launches: int = 0
    kernels: int = 0

    @property
    def open_captures(self) -> int:
        """Begun and not ended."""
        return max(self.captures - self.captured - self.failed, 0)

    @property
    def never_launched(self) -> int:
        """Executable graphs that have not been launched yet."""
        return max(self.instantiated - self.first_launches - self.dropped, 0)


Geometry = tuple[int, ...]
"""Timed launches by size: grid class * BLOCK_CLASSES + block class."""


@dataclass(frozen=True, slots=True)
class GpuRows:
    """By process, except copies. kernels: launched one by one, neither into a graph nor by one."""

    copies: Mapping[CopyKey, CopyRow]
    graphs: Mapping[int, GraphRow]
    kernels: Mapping[int, int]
    geometries: Mapping[int, Geometry]


NO_GPU_ROWS = GpuRows({}, {}, {}, {})


def read_gpu_rows(maps: Mapping[str, MapReader], processes: Collection[int], *, of_few: bool = False) -> GpuRows:
    """Rows of all processes. processes: whose kernels are read. of_few: reads only rows of `processes`, key by key."""
    feeding = rows_at_places(maps.get("feeding"), processes)
    kernels = {process: abi.COUNT.unpack_from(value, _KERNELS_AT)[0] for process, value in feeding}
    sizes = rows_at_places(maps.get("geometries"), processes)
    geometries = {process: abi.GEOMETRY_ROW.unpack(value)[2:] for process, value in sizes}
    of = processes if of_few else None
    return GpuRows(read_copies(maps.get("copies"), of), read_graphs(maps.get("graph_rows"), of), kernels, geometries)


def read_copies(table: MapReader | None, of: Iterable[int] | None = None) -> dict[CopyKey, CopyRow]:
    """Copies between host and GPU, of all processes or of some."""
    rows = {}
    for key, value in _all_or_some(table, of, _copy_keys):
        process, direction, memory, is_blocking, _ = abi.COPY_KEY.unpack(key)
        copied = CopyKey(process, Copy(direction), HostMemory(memory), is_blocking)
        rows[copied] = CopyRow(*abi.COPY_ROW.unpack(value))
    return rows


def _copy_keys(process: int) -> Iterator[bytes]:
    for direction, memory, is_blocking in product(BETWEEN_HOST_AND_DEVICE, HostMemory, (0, 1)):
        yield abi.COPY_KEY.pack(process, direction, memory, is_blocking, 0)


def read_graphs(table: MapReader | None, of: Iterable[int] | None = None) -> dict[int, GraphRow]:
    """Process number -> its row, for processes that use graphs."""
    rows = _all_or_some(table, of, lambda process: (abi.NUMBER.pack(process),))
    return {abi.NUMBER.unpack(key)[0]: GraphRow(*abi.GRAPH_ROW.unpack(value)) for key, value in rows}


def _all_or_some(
    table: MapReader | None, of: Iterable[int] | None, keys_of: Callable[[int], Iterable[bytes]]
) -> Iterator[tuple[bytes, bytes]]:
    """Every row, or the existing rows of some processes."""
    if table is None:
        return
    if of is None:
        yield from table.items()
        return
    for key in chain.from_iterable(map(keys_of, of)):
        value = table.get(key)
        if value is not None:
            yield key, value


def forget_gpu_rows(maps: Mapping[str, MapReader], processes: set[int], *, have_pinned: bool) -> None:
    """Delete the rows of processes that have ended. have_pinned: one of them has rows in `pinned`."""
    graphs = maps.get("graph_rows")
    if graphs is not None and processes & read_graphs(graphs).keys():
        delete_of(maps["graphs"], abi.GRAPH_KEY, processes)
        delete_of(graphs, abi.NUMBER, processes)
    if "capturing" in maps:
        delete_of(maps["capturing"], abi.FRONTIER_KEY, processes)
    if "copies" in maps:
        delete_of(maps["copies"], abi.COPY_KEY, processes)
    if have_pinned:
        numbers = {process.to_bytes(4, "big") for process in processes}
        gone = [key for key, _ in maps["pinned"].items() if key[4:8] in numbers]
        for key in gone:
            maps["pinned"].delete(key)
