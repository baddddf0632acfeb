"""Progress of the NCCL operations of each communicator. Partner in C: bpf/lib/progress.bpf.h.

In: MapReaders by map name. Out: counts since the communicator was created; times are CLOCK_MONOTONIC.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from exporter.kernel import abi
from exporter.kernel.maps import MapReader
from exporter.kernel.thread_rows import delete_of


class ProgressKey(NamedTuple):
    """Key of `progress`. communicator: ordinal from 1; abi.COMMUNICATOR_OTHER: all beyond the sixteenth."""

    process: int
    communicator: int


class ProgressRow(NamedTuple):
    """Value of `progress`. enqueued: calls. completed: highest number known to be complete; mixed for abi.COMMUNICATOR_OTHER.

    collectives: enqueued operations of all ranks. lag_ns: delay behind the node's first rank, summed over late_arrivals of them.
    """

    enqueued: int
    completed: int
    enqueued_ns: int
    completed_ns: int
    collectives: int
    lag_ns: int
    late_arrivals: int


def read_progress(table: MapReader | None) -> dict[ProgressKey, ProgressRow]:
    """Every communicator with enqueued operations. None: the programs that write the map are not loaded."""
    return {
        ProgressKey(*abi.PROGRESS_KEY.unpack(key)): ProgressRow(*abi.PROGRESS_ROW.unpack(value))
        for key, value in (table.items() if table else ())
    }


def forget_progress(maps: Mapping[str, MapReader], processes: set[int]) -> None:
    """Delete the rows of processes that have ended, and their streams and events, of which there may be many."""
    for name, key_format in (("progress", abi.PROGRESS_KEY), ("frontiers", abi.FRONTIER_KEY)):
        if name in maps:
            delete_of(maps[name], key_format, processes)


def forget_arrivals(table: MapReader | None, processes: set[int], hashes: Iterable[int]) -> None:
    """Delete the rows that these processes made, which have ended. hashes: of their communicators.

    A row that another rank made stays: it is in use.
    """
    if table is None:
        return
    for one in hashes:
        key = abi.COUNT.pack(one)
        value = table.get(key)
        if value is not None and abi.NUMBER.unpack_from(value)[0] in processes:
            table.delete(key)
