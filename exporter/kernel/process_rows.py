"""Traced processes and their communicators. Partners in C: bpf/lib/process.bpf.h, bpf/lib/communicator.bpf.h.

In: MapReaders, None for a map whose programs are not loaded. Out: rows by process number.
"""

from __future__ import annotations

from typing import NamedTuple

from exporter.kernel import abi
from exporter.kernel.abi import Copy
from exporter.kernel.maps import MapReader


class ProcessRow(NamedTuple):
    """Value of `processes`. tgid: in the exporter's pid namespace, 0: not in it. copied_bytes: by abi.Copy.

    start_ns: CLOCK_BOOTTIME. peak_bytes: highest value of allocated minus freed bytes. managed_bytes: live managed memory,
    part of the allocated bytes. pinned_bytes: live pinned host memory, part of no other sum. refused_bytes: the last
    allocation that failed. unblamed_ns: waits for a CPU for which the map `blame` was full.
    """

    tgid: int
    start_ns: int
    cgroup_id: int
    copied_bytes: tuple[int, ...]
    allocated_bytes: int
    freed_bytes: int
    unknown_frees: int
    live_allocations: int
    peak_bytes: int
    managed_bytes: int
    pinned_bytes: int
    pinned_blocks: int
    refused_bytes: int
    unblamed_ns: int
    comm: bytes


class CommunicatorRow(NamedTuple):
    """Value of `communicators`. hash 0, rank -1, ranks 0: its creation was not traced."""

    hash: int
    created_ns: int
    rank: int
    ranks: int
    ordinal: int


class ProcessTable:
    """Reads `processes`. Keeps the last reading, so that only changed rows are unpacked."""

    def __init__(self) -> None:
        self._last: dict[bytes, tuple[bytes, int, ProcessRow]] = {}

    def read(self, table: MapReader | None) -> dict[int, ProcessRow]:
        """Process number -> row."""
        known = self._last
        raw = dict(table.items()) if table else {}
        self._last = {key: _process_of(key, value, known.get(key)) for key, value in raw.items()}
        return {number: row for _, number, row in self._last.values()}


def read_communicators(table: MapReader | None) -> dict[int, list[CommunicatorRow]]:
    """Process number -> its live communicators, in the order of their creation."""
    rows: dict[int, list[CommunicatorRow]] = {}
    for key, value in table.items() if table else ():
        process = abi.COMMUNICATOR_KEY.unpack(key)[0]
        rows.setdefault(process, []).append(CommunicatorRow(*abi.COMMUNICATOR_ROW.unpack(value)[:5]))
    for communicators in rows.values():
        communicators.sort(key=lambda row: row.created_ns)
    return rows


def _process_of(
    raw_key: bytes, value: bytes, known: tuple[bytes, int, ProcessRow] | None
) -> tuple[bytes, int, ProcessRow]:
    """Its value, number and row; `known` itself if nothing has changed."""
    if known is not None and known[0] == value:
        return known
    tgid, _, start_ns, cgroup_id, *rest = abi.PROCESS_ROW.unpack(value)
    copied, sums, comm = rest[: len(Copy)], rest[len(Copy) : -1], rest[-1]
    row = ProcessRow._make((tgid, start_ns, cgroup_id, tuple(copied), *sums, comm.split(b"\0", 1)[0]))
    return value, abi.NUMBER.unpack(raw_key)[0], row
