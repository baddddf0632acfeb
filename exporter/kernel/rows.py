"""Kernel tables as rows: bytes in, named numbers out. The only place that knows which map holds what.

In: MapReaders by map name (or FakeMaps in tests). Out: a Reading and Accounts for a publication, Waits for a tick, all
cumulative since a process was first seen. Rows are unpacked again only when their sums have moved, their slots when asked for.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from exporter.kernel import abi
from exporter.kernel.abi import Api, Copy, EventKind, LossProgram, LossReason
from exporter.kernel.cadence_rows import CadenceRow, read_cadence
from exporter.kernel.disk_rows import (
    DiskUse,
    DiskUserKey,
    DiskWait,
    DiskWaitKey,
    read_disk_users,
    read_disk_waits,
)
from exporter.kernel.end_rows import (
    ExitKey,
    ExitRow,
    ForkKey,
    LastError,
    read_exits,
    read_forks,
    read_last_errors,
)
from exporter.kernel.gpu_rows import NO_GPU_ROWS, GpuRows, GraphRow, forget_gpu_rows, read_gpu_rows, read_graphs
from exporter.kernel.maps import MapReader
from exporter.kernel.operations import OPERATIONS
from exporter.kernel.output_rows import OutputRow, read_outputs
from exporter.kernel.progress_rows import ProgressKey, ProgressRow, forget_progress, read_progress
from exporter.kernel.thread_rows import (
    BlameKey,
    ChainKey,
    ChainRow,
    Exposure,
    ExposureKey,
    FeedingRow,
    IntervalKey,
    IntervalRow,
    Iterate,
    States,
    TailKey,
    TailRow,
    ThreadRow,
    ThreadTables,
    delete_of,
    feeding_place,
)
from exporter.totals import Call, Counts

TABLES = (
    "processes",
    "operations",
    "errors",
    "communicators",
    "allocations",
    "progress",
    "exposures",
    "intervals",
    "blame",
    "chains",
)
"""Maps with a capacity worth watching."""

STATES_AT = abi.OPERATION_SUMS.size
EXEMPLAR_AT = STATES_AT + abi.STATES.size
SLOTS_AT = EXEMPLAR_AT + abi.EXEMPLAR.size
"""Where the pieces of an operation row begin."""

_COUNT_BYTES = abi.COUNT.size
_READ_ALL_EVERY = 4  # ticks: one second


class OperationKey(NamedTuple):
    """Key of `operations`. communicator: ordinal from 1; 0 = none."""

    process: int
    operation: int
    communicator: int


class OperationRow:
    """Value of `operations`. slots: counts of an exponential histogram. timed: those calls; all but `untimed` is of them.

    The rest is unpacked anew each time it is asked for: twenty thousand rows are kept.
    """

    __slots__ = ("_raw", "slots", "timed")

    def __init__(self, raw: bytes) -> None:
        self._raw = raw[:SLOTS_AT]
        self.slots = _counts_of(raw[SLOTS_AT:])
        self.timed = self.slots.total

    def has_sums_of(self, raw: bytes) -> bool:
        """Whether nothing was added since; all sums count, because a call adds to one after the other."""
        return self._raw.startswith(raw[:EXEMPLAR_AT])

    @property
    def untimed(self) -> int:
        """Calls whose time was not taken."""
        return self._sums()[0]

    @property
    def total_ns(self) -> int:
        """Of the timed calls."""
        return self._sums()[1]

    @property
    def bytes(self) -> int:
        """That they moved."""
        return self._sums()[2]

    def _sums(self) -> tuple[int, int, int]:
        untimed, total_ns, moved = abi.OPERATION_SUMS.unpack_from(self._raw)
        return untimed, total_ns, moved

    @property
    def calls(self) -> int:
        """All calls that returned."""
        return self.untimed + self.timed

    @property
    def states_ns(self) -> States:
        """Nanoseconds by abi.ThreadState."""
        return abi.STATES.unpack_from(self._raw, STATES_AT)

    @property
    def slowest(self) -> Call | None:
        """Of the last window of 8.6 s in which there were calls; None when it was being written."""
        opening, *call, closing = abi.EXEMPLAR.unpack_from(self._raw, EXEMPLAR_AT)
        slowest = Call(*call)
        return slowest if slowest.ended_ns and opening == closing else None


def _counts_of(raw: bytes) -> Counts:
    """Of the slots of a row, without the zeros on either side."""
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


class ProcessRow(NamedTuple):
    """Value of `processes`. tgid: as the exporter sees it, 0 = not at all. copied_bytes: by abi.Copy.

    start_ns: CLOCK_BOOTTIME. peak_bytes: the most that was allocated and not freed at a time; managed_bytes: of what is allocated
    now; pinned_bytes: of the host's memory, in no other sum; refused_bytes: the last allocation that failed.
    unblamed_ns: waits for a CPU that the full table `blame` could charge to nobody.
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
    """Value of `communicators`. hash 0, rank -1, ranks 0: the making of it was not seen."""

    hash: int
    created_ns: int
    rank: int
    ranks: int
    ordinal: int


class Event(NamedTuple):
    """One record of the event ring. attachment: number of the surplus one; first: of the one that saw the call first."""

    kind: EventKind
    process: int
    attachment: int = 0
    first: int = 0


@dataclass(frozen=True, slots=True)
class Reading:
    """The tables as they were read, one after the other, within one publication.

    operations: calls; nccl_waits: the rows of the same table that count calls a second time, by what they waited for.
    sees_completion: the programs on CUDA's calls, which see what is done, are loaded.
    """

    processes: Mapping[int, ProcessRow]
    operations: Mapping[OperationKey, OperationRow]
    errors: Mapping[ErrorKey, int]
    communicators: Mapping[int, list[CommunicatorRow]]
    progress: Mapping[ProgressKey, ProgressRow]
    nccl_waits: Mapping[ProgressKey, OperationRow]
    sees_completion: bool
    exits: Mapping[ExitKey, ExitRow]
    forks: Mapping[ForkKey, int]
    gpu: GpuRows = NO_GPU_ROWS


@dataclass(frozen=True)
class Waits:
    """What cost the GPU time, and what explains it: little to read, for every tick.

    In the order of reading: what explains a loss is read after it, since it is written before.
    """

    exposures: Mapping[ExposureKey, Exposure]
    feeding: Mapping[int, FeedingRow]
    chains: Mapping[ChainKey, ChainRow]
    blame: Mapping[BlameKey, int]
    cadence: Mapping[int, CadenceRow]
    disk_waits: Mapping[DiskWaitKey, DiskWait]
    disk_users: Mapping[DiskUserKey, DiskUse]


@dataclass(frozen=True)
class Accounts(Waits):
    """Where all the time of threads went up to now: rows of what has ended, and the threads that are alive.

    A call that ended while the tables were read is in none of them, and in the operations of the next reading.
    """

    operations: Mapping[OperationKey, OperationRow]
    intervals: Mapping[IntervalKey, IntervalRow]
    threads: Sequence[ThreadRow]


_NO_WAITS = Waits({}, {}, {}, {}, {}, {}, {})


def _no_threads(_program: str) -> bytes:
    return b""


class Tables:
    """Reads and prunes the tables. Keeps the operations of the last reading, so that only moved ones are unpacked.

    iterate: runs a kernel iterator program by its name and returns its output; without it no living thread is known.
    """

    def __init__(self, maps: Mapping[str, MapReader], iterate: Iterate = _no_threads) -> None:
        self._maps = maps
        self._time = ThreadTables(maps, iterate)
        self._processes: dict[bytes, tuple[bytes, int, ProcessRow]] = {}
        self._operations: dict[OperationKey, OperationRow] = {}
        self._nccl_waits: dict[ProgressKey, OperationRow] = {}
        self._waits = _NO_WAITS
        self._ticks = 0
        self._entries: dict[str, int] = {}

    @property
    def entries(self) -> dict[str, int]:
        """Map name -> entries when it was last read."""
        return self._entries | {name: count for name, count in self._time.entries.items() if name in TABLES}

    def _rows(self, name: str) -> Iterator[tuple[bytes, bytes]]:
        """Entries of a table; none when the collector that fills it is switched off or did not load."""
        table = self._maps.get(name)
        return table.items() if table else iter(())

    def read(self) -> Reading:
        """Everything a publication needs."""
        operations = self._read_operations()
        processes = self.read_processes()
        return Reading(
            operations=operations,
            processes=processes,
            errors=self.read_errors(),
            communicators=self.read_communicators(),
            progress=self.read_progress(),
            nccl_waits=self._nccl_waits,
            sees_completion=self._sees_completion,
            exits=self.read_exits(),
            forks=read_forks(self._maps.get("forks")),
            gpu=read_gpu_rows(self._maps, processes),
        )

    def read_of(self, processes: Mapping[int, ProcessRow]) -> Reading:
        """The same of these processes only, key by key: a full node has tens of thousands of operations."""
        operations, waits = self.read_operations_of(processes)
        communicators, progress = self.read_communicators(), self.read_progress()
        return Reading(
            operations=operations,
            processes=processes,
            errors={key: count for key, count in self.read_errors().items() if key.process in processes},
            communicators={process: communicators[process] for process in processes if process in communicators},
            progress={key: row for key, row in progress.items() if key.process in processes},
            nccl_waits=waits,
            sees_completion=self._sees_completion,
            exits=self.read_exits(),
            forks=read_forks(self._maps.get("forks")),
            gpu=self.read_gpu_of(processes),
        )

    def read_operations_of(
        self, processes: Collection[int]
    ) -> tuple[dict[OperationKey, OperationRow], dict[ProgressKey, OperationRow]]:
        """Operations of these processes, and their waits for collectives."""
        operations: dict[OperationKey, OperationRow] = {}
        waits: dict[ProgressKey, OperationRow] = {}
        table = self._maps.get("operations")
        for key in self._possible_operations(processes) if table else ():
            value = table.get(abi.OPERATION_KEY.pack(*key)) if table else None
            if value is None:
                continue
            if key.operation == abi.OPERATION_NCCL_WAIT:
                waits[ProgressKey(key.process, key.communicator)] = OperationRow(value)
            else:
                operations[key] = OperationRow(value)
        return operations, waits

    def read_gpu_of(self, processes: Collection[int]) -> GpuRows:
        """What these processes copy, capture and launch."""
        return read_gpu_rows(self._maps, processes, of_few=True)

    def _possible_operations(self, processes: Iterable[int]) -> Iterator[OperationKey]:
        """Those of NCCL once for each communicator that the process has had, and once without one."""
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

    @property
    def _sees_completion(self) -> bool:
        return "allocations" in self._maps

    def read_processes(self) -> dict[int, ProcessRow]:
        """Process number -> row."""
        known = self._processes
        raw = dict(self._rows("processes"))
        self._processes = found = {key: _process_of(key, value, known.get(key)) for key, value in raw.items()}
        rows = {number: row for _, number, row in found.values()}
        self._entries["processes"] = len(rows)
        self._entries["allocations"] = sum(row.live_allocations for row in rows.values())
        return rows

    def _read_operations(self) -> dict[OperationKey, OperationRow]:
        """Count, time, bytes and histogram of every operation of every process."""
        known, rows = self._operations, {}
        known_waits, waits = self._nccl_waits, {}
        for raw_key, value in self._rows("operations"):
            key = OperationKey(*abi.OPERATION_KEY.unpack(raw_key))
            if key.operation == abi.OPERATION_NCCL_WAIT:
                wait = ProgressKey(key.process, key.communicator)
                waits[wait] = _unpacked(value, known_waits.get(wait))
            else:
                rows[key] = _unpacked(value, known.get(key))
        self._operations, self._nccl_waits = rows, waits
        self._entries["operations"] = len(rows) + len(waits)
        return rows

    def read_progress(self) -> dict[ProgressKey, ProgressRow]:
        """How far each communicator has come."""
        rows = read_progress(self._maps.get("progress"))
        self._entries["progress"] = len(rows)
        return rows

    def read_waits(self, processes: Iterable[int], *, is_urgent: bool = False) -> Waits:
        """What cost the GPU time. processes: those alive. The very object of the last time where nothing has moved.

        Every loss shows in the feeding timeline, and nothing else is read while that stands still; but for every fourth time,
        because workers wait for CPUs without it. Exposures are read when a wait for the GPU has ended, which the timeline
        counts, and beats of the processes whose calls it has counted. The blame of a full node has thousands of rows, and shares
        of a second do as well: it is read at every fourth time, or when it is urgent.
        """
        feeding = self._time.feeding(processes)
        is_due = is_urgent or self._ticks % _READ_ALL_EVERY == 0
        self._ticks += 1
        if not is_due and feeding == self._waits.feeding:
            return self._waits
        before = self._waits.feeding
        moved = [process for process, row in feeding.items() if row is not before.get(process)]
        has_waited = any(feeding[process].waits != before[process].waits for process in moved if process in before)
        exposures = self._time.exposures() if has_waited or feeding.keys() - before.keys() else self._waits.exposures
        blame = self._time.blame() if is_due else self._waits.blame
        cadence = read_cadence(self._maps.get("cadence"), moved)
        self._waits = Waits(exposures, feeding, self._time.chains(), blame, cadence, *self._read_disks())
        return self._waits

    def _read_disks(self) -> tuple[Mapping[DiskWaitKey, DiskWait], Mapping[DiskUserKey, DiskUse]]:
        """Who waited, then who used disks; the latter only when somebody waited since the last time."""
        waits = read_disk_waits(self._maps.get("disk_waits"))
        if waits == self._waits.disk_waits:
            return self._waits.disk_waits, self._waits.disk_users
        return waits, read_disk_users(self._maps.get("disk_users"))

    def read_accounts(
        self,
        processes: Iterable[int],
        operations: Mapping[OperationKey, OperationRow] | None = None,
        *,
        with_threads: bool = True,
    ) -> Accounts:
        """Where all the time went. processes: those alive. operations: as they were read just before; None reads them.

        with_threads: also that of living threads, which those that have ended do not need.

        What has ended is read before what goes on: a call that ends in between is then missing for a moment, and not
        counted twice.
        """
        if operations is None:
            operations = self._read_operations()
        intervals, exposures = self._time.intervals(), self._time.exposures()
        feeding, chains, blame = self._time.feeding(processes), self._time.chains(), self._time.blame()
        cadence = read_cadence(self._maps.get("cadence"), feeding)
        disks = self._read_disks()
        self._waits = Waits(exposures, feeding, chains, blame, cadence, *disks)
        threads = self._time.threads() if with_threads else []
        return Accounts(exposures, feeding, chains, blame, cadence, *disks, operations, intervals, threads)

    def read_threads(self, of: Container[int] | None = None) -> list[ThreadRow]:
        """Every living thread that is tracked, or those of some processes: milliseconds on a full node, not for every tick."""
        return self._time.threads(of)

    @property
    def waits(self) -> Waits:
        """As they were read last."""
        return self._waits

    def read_feeding(self, processes: Iterable[int]) -> dict[int, FeedingRow]:
        """The feeding timelines. processes: those alive; a row that has not moved is the very object of the last time."""
        return self._time.feeding(processes)

    def sample_launches(self, process: int, mask: int) -> None:
        """From here on one launch in mask + 1 of the process is timed; all are counted. mask: 2**n - 1."""
        if "launch_sampling" in self._maps:
            self._maps["launch_sampling"].put(feeding_place(process), abi.LAUNCH_SAMPLING.pack(process, mask))

    def read_outputs(self, processes: Iterable[int]) -> dict[int, OutputRow]:
        """The last outputs of these processes."""
        return read_outputs(self._maps.get("outputs"), processes)

    def read_tail(self) -> dict[TailKey, TailRow]:
        """What long calls waited for. Thousands of rows: not for every tick."""
        return self._time.tail()

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
        self._entries["communicators"] = count
        return rows

    def read_errors(self) -> dict[ErrorKey, int]:
        """Calls that failed, by code."""
        rows = {}
        for key, value in self._rows("errors"):
            process, operation, _, code, _ = abi.ERROR_KEY.unpack(key)
            rows[ErrorKey(process, operation, code)] = abi.COUNT.unpack(value)[0]
        self._entries["errors"] = len(rows)
        return rows

    def read_exits(self) -> dict[ExitKey, ExitRow]:
        """How traced processes, and those that worked for them, have ended; until the former are forgotten."""
        return read_exits(self._maps.get("exits"))

    def read_graphs(self) -> dict[int, GraphRow]:
        """Process number -> what it did with graphs."""
        return read_graphs(self._maps.get("graph_rows"))

    def read_last_errors(self) -> dict[int, LastError]:
        """Process number -> the last error that CUDA or NCCL gave it."""
        return read_last_errors(self._maps.get("last_errors"))

    def losses(self) -> dict[tuple[LossProgram, LossReason], int]:
        """Losses so far, by program and reason; what could be mended is none."""
        return {key: count for key, count in self._counts() if key[1] is not LossReason.HEALED}

    def healed(self) -> int:
        """Switches and wake-ups so far that the programs did not see, mended from the kernel's own clocks."""
        return sum(count for (_, reason), count in self._counts() if reason is LossReason.HEALED)

    def _counts(self) -> Iterator[tuple[tuple[LossProgram, LossReason], int]]:
        reasons = len(LossReason)
        for key, value in self._rows("losses"):
            program, reason = divmod(abi.NUMBER.unpack(key)[0], reasons)
            yield (LossProgram(program), LossReason(reason)), abi.COUNT.unpack(value)[0]

    def capacities(self) -> dict[str, int]:
        """Map name -> entries it has room for."""
        return {name: self._maps[name].capacity for name in TABLES if name in self._maps}

    def forget(self, processes: set[int], reading: Reading) -> None:
        """Delete every row of processes that have ended, so that their room can be used again. reading: their last."""
        for key in reading.operations:
            if key.process in processes:
                self._maps["operations"].delete(abi.OPERATION_KEY.pack(*key))
        for wait in reading.nccl_waits:
            if wait.process in processes:
                key_of_wait = (wait.process, abi.OPERATION_NCCL_WAIT, wait.communicator)
                self._maps["operations"].delete(abi.OPERATION_KEY.pack(*key_of_wait))
        for error in reading.errors:
            if error.process in processes:
                self._maps["errors"].delete(abi.ERROR_KEY.pack(error.process, error.operation, 0, error.code, 0))
        if processes & reading.communicators.keys():
            delete_of(self._maps["communicators"], abi.COMMUNICATOR_KEY, processes)
        rows = [reading.processes[process] for process in processes if process in reading.processes]
        if any(row.live_allocations for row in rows):
            delete_of(self._maps["allocations"], abi.ALLOCATION_KEY, processes)
        forget_gpu_rows(self._maps, processes, have_pinned=any(row.pinned_blocks for row in rows))
        if any(progress.process in processes for progress in reading.progress):
            forget_progress(self._maps, processes)
        self._time.forget(processes)
        self._operations = {key: row for key, row in self._operations.items() if key.process not in processes}
        self._nccl_waits = {key: row for key, row in self._nccl_waits.items() if key.process not in processes}
        for process in processes:
            self._maps["processes"].delete(abi.NUMBER.pack(process))
            for ring in ("cadence", "outputs"):
                if ring in self._maps:
                    self._maps[ring].delete(abi.NUMBER.pack(process))


def _process_of(
    raw_key: bytes, value: bytes, known: tuple[bytes, int, ProcessRow] | None
) -> tuple[bytes, int, ProcessRow]:
    """Its value, number and row; what is known, where nothing has moved since."""
    if known is not None and known[0] == value:
        return known
    tgid, _, start_ns, cgroup_id, *rest = abi.PROCESS_ROW.unpack(value)
    copied, sums, comm = rest[: len(Copy)], rest[len(Copy) : -1], rest[-1]
    row = ProcessRow._make((tgid, start_ns, cgroup_id, tuple(copied), *sums, comm.split(b"\0", 1)[0]))
    return value, abi.NUMBER.unpack(raw_key)[0], row


def _unpacked(value: bytes, known: OperationRow | None) -> OperationRow:
    """The known row itself, where nothing was added since."""
    return known if known is not None and known.has_sums_of(value) else OperationRow(value)


def event_of(record: bytes) -> Event:
    """A record of the event ring."""
    kind, *about = abi.EVENT.unpack(record[: abi.EVENT.size])
    return Event(EventKind(kind), *about)
