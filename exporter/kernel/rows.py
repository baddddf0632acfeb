"""Kernel tables as rows: bytes in, named numbers out. The only place that knows which map holds what.

In: MapReaders by map name (or FakeMaps in tests). Out: a Reading, cumulative since a process was first seen.
The slots of a row are unpacked again only when its sums have moved.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from exporter.kernel import abi
from exporter.kernel.abi import EventKind, LossProgram, LossReason
from exporter.kernel.maps import MapReader
from exporter.totals import Call

TABLES = ("processes", "operations", "errors", "communicators", "allocations")
"""Maps with a capacity worth watching."""

_SLOTS_AT = abi.OPERATION_SUMS.size + abi.EXEMPLAR.size


class OperationKey(NamedTuple):
    """Key of `operations`. communicator: ordinal from 1; 0 = none."""

    process: int
    operation: int
    communicator: int


class OperationRow(NamedTuple):
    """Value of `operations`. untimed: calls whose time was not taken. total_ns, timed, slots, slowest: of the others.

    slots: counts of an exponential histogram (units.SLOTS), summing up to `timed`; empty while no call was timed.
    slowest: of the last window of 8.6 s in which there were calls; None when it was being written.
    """

    untimed: int
    total_ns: int
    bytes: int
    timed: int
    slots: tuple[int, ...]
    slowest: Call | None = None

    @property
    def calls(self) -> int:
        """All calls that returned."""
        return self.untimed + self.timed


class ErrorKey(NamedTuple):
    """Key of `errors`."""

    process: int
    operation: int
    code: int


class ProcessRow(NamedTuple):
    """Value of `processes`. tgid: as the exporter sees it, 0 = not at all. copied_bytes: by abi.Copy.

    start_ns: CLOCK_BOOTTIME.
    """

    tgid: int
    start_ns: int
    cgroup_id: int
    copied_bytes: tuple[int, ...]
    allocated_bytes: int
    freed_bytes: int
    unknown_frees: int
    live_allocations: int
    comm: bytes


class CommunicatorRow(NamedTuple):
    """Value of `communicators`. hash 0, rank -1, ranks 0: the making of it was not seen."""

    hash: int
    created_ns: int
    rank: int
    ranks: int
    ordinal: int


class Event(NamedTuple):
    """One record of the event ring."""

    kind: EventKind
    process: int


@dataclass(frozen=True, slots=True)
class Reading:
    """The tables as they were read, one after the other, within one publication."""

    processes: Mapping[int, ProcessRow]
    operations: Mapping[OperationKey, OperationRow]
    errors: Mapping[ErrorKey, int]
    communicators: Mapping[int, list[CommunicatorRow]]


class Tables:
    """Reads and prunes the tables. Keeps the operations of the last reading, so that only moved ones are unpacked."""

    def __init__(self, maps: Mapping[str, MapReader]) -> None:
        self._maps = maps
        self._operations: dict[OperationKey, OperationRow] = {}
        self.entries: dict[str, int] = {}

    def _rows(self, name: str) -> Iterator[tuple[bytes, bytes]]:
        """Entries of a table; none when the collector that fills it is switched off or did not load."""
        table = self._maps.get(name)
        return table.items() if table else iter(())

    def read(self) -> Reading:
        """Everything a publication needs."""
        return Reading(
            operations=self._read_operations(),
            processes=self.read_processes(),
            errors=self._read_errors(),
            communicators=self.read_communicators(),
        )

    def read_processes(self) -> dict[int, ProcessRow]:
        """Process number -> row."""
        rows: dict[int, ProcessRow] = {}
        for key, value in self._rows("processes"):
            tgid, _, start_ns, cgroup_id, *rest = abi.PROCESS_ROW.unpack(value)
            *copied, allocated, freed, unknown, live, comm = rest
            rows[abi.NUMBER.unpack(key)[0]] = ProcessRow(
                tgid, start_ns, cgroup_id, tuple(copied), allocated, freed, unknown, live, comm.split(b"\0", 1)[0]
            )
        self.entries["processes"] = len(rows)
        self.entries["allocations"] = sum(row.live_allocations for row in rows.values())
        return rows

    def _read_operations(self) -> dict[OperationKey, OperationRow]:
        """Count, time, bytes and histogram of every operation of every process."""
        unpack_key, unpack_sums = abi.OPERATION_KEY.unpack, abi.OPERATION_SUMS.unpack_from
        known, rows = self._operations, {}
        for raw_key, value in self._rows("operations"):
            key = OperationKey(*unpack_key(raw_key))
            untimed, total_ns, moved_bytes = sums = unpack_sums(value)
            row = known.get(key)
            if row is None or row[:3] != sums:  # all three: the bytes of a call are added after it was counted
                slots = abi.OPERATION_SLOTS.unpack_from(value, _SLOTS_AT) if total_ns else ()
                row = OperationRow(untimed, total_ns, moved_bytes, sum(slots), slots, _slowest(value))
            rows[key] = row
        self._operations = rows
        self.entries["operations"] = len(rows)
        return rows

    def read_communicators(self) -> dict[int, list[CommunicatorRow]]:
        """Process number -> its communicators alive, in the order of their making."""
        rows: dict[int, list[CommunicatorRow]] = {}
        count = 0
        for key, value in self._rows("communicators"):
            process = abi.COMMUNICATOR_KEY.unpack(key)[0]
            rows.setdefault(process, []).append(CommunicatorRow(*abi.COMMUNICATOR_ROW.unpack(value)[:5]))
            count += 1
        for communicators in rows.values():
            communicators.sort(key=lambda row: row.created_ns)
        self.entries["communicators"] = count
        return rows

    def _read_errors(self) -> dict[ErrorKey, int]:
        rows = {}
        for key, value in self._rows("errors"):
            process, operation, _, code, _ = abi.ERROR_KEY.unpack(key)
            rows[ErrorKey(process, operation, code)] = abi.COUNT.unpack(value)[0]
        self.entries["errors"] = len(rows)
        return rows

    def losses(self) -> dict[tuple[LossProgram, LossReason], int]:
        """Losses so far, by program and reason."""
        reasons = len(LossReason)
        return {
            (LossProgram(index // reasons), LossReason(index % reasons)): abi.COUNT.unpack(value)[0]
            for index, value in ((abi.NUMBER.unpack(key)[0], value) for key, value in self._rows("losses"))
        }

    def capacities(self) -> dict[str, int]:
        """Map name -> entries it has room for."""
        return {name: self._maps[name].capacity for name in TABLES if name in self._maps}

    def forget(self, processes: set[int], reading: Reading) -> None:
        """Delete every row of processes that have ended, so that their room can be used again. reading: their last."""
        for key in reading.operations:
            if key.process in processes:
                self._maps["operations"].delete(abi.OPERATION_KEY.pack(*key))
        for error in reading.errors:
            if error.process in processes:
                self._maps["errors"].delete(abi.ERROR_KEY.pack(error.process, error.operation, 0, error.code, 0))
        if processes & reading.communicators.keys():
            self._delete_of("communicators", abi.COMMUNICATOR_KEY, processes)
        rows = [reading.processes[process] for process in processes if process in reading.processes]
        if any(row.live_allocations for row in rows):
            self._delete_of("allocations", abi.ALLOCATION_KEY, processes)
        for process in processes:
            self._maps["processes"].delete(abi.NUMBER.pack(process))

    def _delete_of(self, name: str, key_format: struct.Struct, processes: set[int]) -> None:
        """Walk a whole table for the keys of `processes`, the first member of a key."""
        table = self._maps[name]
        for key in [key for key, _ in table.items() if key_format.unpack(key)[0] in processes]:
            table.delete(key)


def _slowest(operation: bytes) -> Call | None:
    opening, *call, closing = abi.EXEMPLAR.unpack_from(operation, abi.OPERATION_SUMS.size)
    slowest = Call(*call)
    return slowest if slowest.ended_ns and opening == closing else None


def event_of(record: bytes) -> Event:
    """A record of the event ring."""
    kind, process = abi.EVENT.unpack(record[: abi.EVENT.size])
    return Event(EventKind(kind), process)
