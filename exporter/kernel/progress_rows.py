"""How far each communicator has come, as rows: the table that bpf/lib/progress.bpf.h fills. Bytes in, numbers out.

In: MapReaders by map name. Out: counts since the communicator was made, times of CLOCK_MONOTONIC, all in nanoseconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from exporter.kernel import abi
from exporter.kernel.maps import MapReader
from exporter.kernel.thread_rows import delete_of


class ProgressKey(NamedTuple):
    """Key of `progress`. communicator: ordinal from 1; abi.COMMUNICATOR_OTHER = all beyond the sixteenth."""

    process: int
    communicator: int


class ProgressRow(NamedTuple):
    """Value of `progress`. enqueued: calls. completed: the highest number seen done; of abi.COMMUNICATOR_OTHER a mixture.

    collectives: of the enqueued ones those of all ranks. lag_ns: behind the node's first rank, over late_arrivals of them.
    """

    enqueued: int
    completed: int
    enqueued_ns: int
    completed_ns: int
    collectives: int
    lag_ns: int
    late_arrivals: int


def read_progress(table: MapReader | None) -> dict[ProgressKey, ProgressRow]:
    """Every communicator on which something was enqueued. None: the programs that fill the table did not load."""
    return {
        ProgressKey(*abi.PROGRESS_KEY.unpack(key)): ProgressRow(*abi.PROGRESS_ROW.unpack(value))
        for key, value in (table.items() if table else ())
    }


def forget_progress(maps: Mapping[str, MapReader], processes: set[int]) -> None:
    """Delete what is known of processes that have ended: theirs are few rows, but any number of streams and events."""
    for name, key_format in (("progress", abi.PROGRESS_KEY), ("frontiers", abi.FRONTIER_KEY)):
        if name in maps:
            delete_of(maps[name], key_format, processes)
