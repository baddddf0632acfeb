"""Calls of every process by operation. Partner in C: bpf/lib/operation.bpf.h.

In: MapReaders by map name. Out: rows by key, cumulative since the first call of a process. A row is unpacked again only if its
sums have changed.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from exporter.kernel import abi
from exporter.kernel.abi import Api
from exporter.kernel.maps import MapReader
from exporter.kernel.operations import OPERATIONS
from exporter.kernel.progress_rows import ProgressKey
from exporter.kernel.thread_rows import States
from exporter.totals import Call, Counts

SUMS = abi.OPERATION_ROW.part("untimed", "bytes")
STATES = abi.OPERATION_ROW.part("states_ns")
SLOTS = abi.OPERATION_ROW.part("slots")
STATES_AT = abi.OPERATION_ROW.offset("states_ns")
EXEMPLAR_AT = abi.OPERATION_ROW.offset("slowest")
SLOTS_AT = abi.OPERATION_ROW.offset("slots")
"""The parts of an operation row; abi.EXEMPLAR is at EXEMPLAR_AT."""

_COUNT_BYTES = abi.COUNT.size


class OperationKey(NamedTuple):
    """Key of `operations`. communicator: ordinal from 1; 0: none."""

    process: int
    operation: int
    communicator: int


class OperationRow:
    """Value of `operations`. slots: durations of the timed calls, an exponential histogram. timed: their number.

    The other values are unpacked at each access, because twenty thousand rows are kept.
    """

    __slots__ = ("_raw", "slots", "timed")

    def __init__(self, raw: bytes) -> None:
        self._raw = raw[:SLOTS_AT]
        self.slots = _counts_of(raw[SLOTS_AT:])
        self.timed = self.slots.total

    def has_sums_of(self, raw: bytes) -> bool:
        """Whether nothing was added. Compares all sums, because a call adds to them one by one."""
        return self._raw.startswith(raw[:EXEMPLAR_AT])

    @property
    def untimed(self) -> int:
        """Calls without a duration."""
        return self._sums()[0]

    @property
    def total_ns(self) -> int:
        """Sum of the durations of timed calls."""
        return self._sums()[1]

    @property
    def bytes(self) -> int:
        """Bytes that the calls moved."""
        return self._sums()[2]

    def _sums(self) -> tuple[int, int, int]:
        untimed, total_ns, moved = SUMS.unpack_from(self._raw)
        return untimed, total_ns, moved

    @property
    def calls(self) -> int:
        """All calls that returned."""
        return self.untimed + self.timed

    @property
    def states_ns(self) -> States:
        """Nanoseconds by abi.ThreadState."""
        return STATES.unpack_from(self._raw, STATES_AT)

    @property
    def slowest(self) -> Call | None:
        """The slowest call of the last window of 8.6 s that had calls; None if it was being written."""
        opening, *call, closing = abi.EXEMPLAR.unpack_from(self._raw, EXEMPLAR_AT)
        slowest = Call(*call)
        return slowest if slowest.ended_ns and opening == closing else None


def _counts_of(raw: bytes) -> Counts:
    """The slots of a row without leading and trailing zeros."""
    end = (len(raw.rstrip(b"\0")) + _COUNT_BYTES - 1) // _COUNT_BYTES
    begin = (len(raw) - len(raw.lstrip(b"\0"))) // _COUNT_BYTES
    if not end:
        return Counts()
    return Counts(begin, struct.unpack_from(f"={end - begin}Q", raw, begin * _COUNT_BYTES))


class ErrorKey(NamedTuple):
    """Key of `errors`."""

    process: int
    operation: int
    code: int


_FEW: Final = 64
"""Processes for which looking up all possible operations costs less than reading all rows."""


class Operations(NamedTuple):
    """calls: rows that count each call once.

    nccl_waits: rows of the same map that count some of these calls a second time, by the communicator they waited for.
    """

    calls: Mapping[OperationKey, OperationRow]
    nccl_waits: Mapping[ProgressKey, OperationRow]


class OperationTable:
    """Reads and prunes `operations`. Keeps the last reading, so that only changed rows are unpacked."""

    def __init__(self, maps: Mapping[str, MapReader]) -> None:
        self._maps = maps
        self._last = Operations({}, {})

    def read(self) -> Operations:
        """Every operation of every process."""
        table = self._maps.get("operations")
        known, calls, waits = self._last, {}, {}
        for raw_key, value in table.items() if table else ():
            key = OperationKey(*abi.OPERATION_KEY.unpack(raw_key))
            if key.operation == abi.OPERATION_NCCL_WAIT:
                wait = ProgressKey(key.process, key.communicator)
                waits[wait] = _unpacked(value, known.nccl_waits.get(wait))
            else:
                calls[key] = _unpacked(value, known.calls.get(key))
        self._last = Operations(calls, waits)
        return self._last

    def read_of(self, processes: Collection[int]) -> Operations:
        """Operations of some processes. Of few they are read key by key: a full node has tens of thousands of operations."""
        calls: dict[OperationKey, OperationRow] = {}
        waits: dict[ProgressKey, OperationRow] = {}
        table = self._maps.get("operations")
        if table is None:
            return Operations(calls, waits)
        for key, value in self._rows_of(table, processes):
            if key.operation == abi.OPERATION_NCCL_WAIT:
                waits[ProgressKey(key.process, key.communicator)] = OperationRow(value)
            else:
                calls[key] = OperationRow(value)
        return Operations(calls, waits)

    def _rows_of(self, table: MapReader, processes: Collection[int]) -> Iterator[tuple[OperationKey, bytes]]:
        if len(processes) > _FEW:
            wanted = {abi.NUMBER.pack(process) for process in processes}
            for raw_key, value in table.items():
                if raw_key[: abi.NUMBER.size] in wanted:
                    yield OperationKey(*abi.OPERATION_KEY.unpack(raw_key)), value
            return
        for key in self._possible_of(processes):
            found = table.get(abi.OPERATION_KEY.pack(*key))
            if found is not None:
                yield key, found

    def _possible_of(self, processes: Iterable[int]) -> Iterator[OperationKey]:
        """All possible keys. NCCL operations have one for each communicator that the process has had, and one without."""
        table = self._maps.get("processes")
        for process in processes if table else ():
            value = table.get(abi.NUMBER.pack(process)) if table else None
            given = abi.PROCESS_ROW.unpack(value)[1] if value else 0
            ordinals = (*range(min(given, abi.COMMUNICATOR_ORDINALS) + 1), abi.COMMUNICATOR_OTHER)
            for number, operation in enumerate(OPERATIONS):
                for ordinal in ordinals if operation.api is Api.NCCL else (0,):
                    yield OperationKey(process, number, ordinal)
            for ordinal in ordinals:
                yield OperationKey(process, abi.OPERATION_NCCL_WAIT, ordinal)

    def forget(self, processes: Collection[int], read: Operations) -> None:
        """Delete the rows of processes that have ended. read: their last reading."""
        for key in read.calls:
            if key.process in processes:
                self._maps["operations"].delete(abi.OPERATION_KEY.pack(*key))
        for wait in read.nccl_waits:
            if wait.process in processes:
                key_of_wait = (wait.process, abi.OPERATION_NCCL_WAIT, wait.communicator)
                self._maps["operations"].delete(abi.OPERATION_KEY.pack(*key_of_wait))
        calls, waits = self._last
        self._last = Operations(
            {key: row for key, row in calls.items() if key.process not in processes},
            {key: row for key, row in waits.items() if key.process not in processes},
        )


def read_errors(table: MapReader | None) -> dict[ErrorKey, int]:
    """Failed calls by code. None: the programs that write the map are not loaded."""
    rows = {}
    for key, value in table.items() if table else ():
        process, operation, _, code, _ = abi.ERROR_KEY.unpack(key)
        rows[ErrorKey(process, operation, code)] = abi.COUNT.unpack(value)[0]
    return rows


def forget_errors(table: MapReader | None, processes: Collection[int], read: Iterable[ErrorKey]) -> None:
    """Delete the rows of processes that have ended. read: the keys of the last reading."""
    for key in read:
        if key.process in processes and table is not None:
            table.delete(abi.ERROR_KEY.pack(key.process, key.operation, 0, key.code, 0))


def _unpacked(value: bytes, known: OperationRow | None) -> OperationRow:
    """The known row itself if nothing was added."""
    return known if known is not None and known.has_sums_of(value) else OperationRow(value)
