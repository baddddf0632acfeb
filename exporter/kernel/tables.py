"""The kernel's maps, read and pruned by name.

In: MapReaders by map name (FakeMap in tests). Out: a Reading and Accounts for a snapshot, Waits for a tick.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Iterator, Mapping
from dataclasses import replace

from exporter.kernel import abi
from exporter.kernel.abi import DropProgram, DropReason
from exporter.kernel.awaited_rows import read_awaited
from exporter.kernel.cadence_rows import read_cadence
from exporter.kernel.call_site_rows import CallSiteKey, CallSiteRow, read_call_sites
from exporter.kernel.disk_rows import (
    DiskUse,
    DiskUserKey,
    DiskWait,
    DiskWaitKey,
    read_disk_users,
    read_disk_waits,
)
from exporter.kernel.end_rows import ExitKey, ExitRow, LastError, read_exits, read_forks, read_last_errors
from exporter.kernel.gpu_rows import GpuRows, GraphRow, forget_gpu_rows, read_gpu_rows, read_graphs
from exporter.kernel.maps import MapReader
from exporter.kernel.operation_rows import (
    ErrorKey,
    OperationKey,
    OperationRow,
    Operations,
    OperationTable,
    forget_errors,
    read_errors,
)
from exporter.kernel.output_rows import OutputRow, read_outputs
from exporter.kernel.process_rows import CommunicatorRow, ProcessRow, ProcessTable, read_communicators
from exporter.kernel.progress_rows import ProgressKey, ProgressRow, forget_arrivals, forget_progress, read_progress
from exporter.kernel.readings import Accounts, Reading, Waits
from exporter.kernel.share_rows import Shares
from exporter.kernel.thread_rows import (
    FeedingRow,
    Iterate,
    ThreadRow,
    ThreadTables,
    delete_of,
    feeding_place,
    holder_of_place,
)

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
    "wakeups",
)
"""Maps whose fill level is a metric."""

_READ_ALL_EVERY = 4  # ticks: one second
_NO_WAITS = Waits({}, {}, {}, {}, {}, {}, {}, {})


def _no_threads(_program: str) -> bytes:
    return b""


def _of_some(reading: Reading) -> Reading:
    """Without errors, communicators and progress of processes that are not in it: their maps are small, and read whole."""
    processes = reading.processes
    return replace(
        reading,
        errors={key: count for key, count in reading.errors.items() if key.process in processes},
        communicators={process: rows for process, rows in reading.communicators.items() if process in processes},
        progress={key: row for key, row in reading.progress.items() if key.process in processes},
    )


class Tables:
    """Reads and prunes the maps.

    iterate: runs a kernel iterator program by its name and returns its output; without it there are no living threads.
    shares: of the tables, by owner; None: there are none.
    """

    def __init__(
        self, maps: Mapping[str, MapReader], iterate: Iterate = _no_threads, shares: Shares | None = None
    ) -> None:
        self._maps = maps
        self.shares = shares or Shares({})
        self._processes = ProcessTable()
        self._operations = OperationTable(maps)
        self._time = ThreadTables(maps, iterate, self.shares)
        self._waits = _NO_WAITS
        self._ticks = 0
        self._entries: dict[str, int] = {}

    @property
    def entries(self) -> dict[str, int]:
        """Map name -> entries at the last reading."""
        return self._entries | {name: count for name, count in self._time.entries.items() if name in TABLES}

    def read(self, of: Mapping[int, ProcessRow] | None = None) -> Reading:
        """Everything that a snapshot needs. of: only these processes; large maps are then read key by key."""
        operations = self._read_operations() if of is None else self.read_operations_of(of)
        processes = self.read_processes() if of is None else of
        whole = Reading(
            operations=operations.calls,
            processes=processes,
            errors=self.read_errors(),
            communicators=self.read_communicators(),
            progress=self.read_progress(),
            nccl_waits=operations.nccl_waits,
            sees_completion="allocations" in self._maps,
            exits=self.read_exits(),
            forks=read_forks(self._maps.get("forks")),
            gpu=read_gpu_rows(self._maps, processes, of_few=of is not None),
        )
        return whole if of is None else _of_some(whole)

    def read_operations_of(self, processes: Collection[int]) -> Operations:
        """Operations of some processes, and their waits for collectives."""
        return self._operations.read_of(processes)

    def read_gpu_of(self, processes: Collection[int]) -> GpuRows:
        """Copies, graphs and launches of some processes."""
        return read_gpu_rows(self._maps, processes, of_few=True)

    def read_processes(self) -> dict[int, ProcessRow]:
        """Process number -> row."""
        rows = self._processes.read(self._maps.get("processes"))
        self._entries["processes"] = len(rows)
        self._entries["allocations"] = sum(row.live_allocations for row in rows.values())
        return rows

    def _read_operations(self) -> Operations:
        operations = self._operations.read()
        self._entries["operations"] = len(operations.calls) + len(operations.nccl_waits)
        return operations

    def read_progress(self) -> dict[ProgressKey, ProgressRow]:
        rows = read_progress(self._maps.get("progress"))
        self._entries["progress"] = len(rows)
        return rows

    def read_waits(self, processes: Iterable[int], *, is_urgent: bool = False) -> Waits:
        """Lost GPU time and its causes. processes: the living ones. Returns the last object again if nothing has changed.

        All lost time appears in the feeding timeline. While that does not change, nothing else is read, except every fourth
        time, because workers wait for CPUs without changing it. Exposures are read if a wait for the GPU has ended, which the
        timeline counts; beats are read for processes whose row has changed. The blame of a full node has thousands of rows,
        and once a second is enough: it is read every fourth time, or if it is urgent.
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
        disks, awaited = self._read_disks(), read_awaited(self._maps.get("awaited"))
        self._waits = Waits(exposures, feeding, self._time.wakeups(), blame, cadence, *disks, awaited)
        return self._waits

    def _read_disks(self) -> tuple[Mapping[DiskWaitKey, DiskWait], Mapping[DiskUserKey, DiskUse]]:
        """Waits for disks, then users of disks; the users only if the waits have changed since the last reading."""
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
        """All time of threads. processes: the living ones. operations: the reading just before; None: read now.

        with_threads: include living threads, which the last reading of an ended process does not need.

        Ended calls and threads are read before living ones: a call that ends in between is then missing once, instead of counted
        twice.
        """
        if operations is None:
            operations = self._read_operations().calls
        intervals, exposures = self._time.intervals(), self._time.exposures()
        feeding, wakeups, blame = self._time.feeding(processes), self._time.wakeups(), self._time.blame()
        cadence = read_cadence(self._maps.get("cadence"), feeding)
        disks, awaited = self._read_disks(), read_awaited(self._maps.get("awaited"))
        self._waits = Waits(exposures, feeding, wakeups, blame, cadence, *disks, awaited)
        threads = self._time.threads() if with_threads else []
        return Accounts(exposures, feeding, wakeups, blame, cadence, *disks, awaited, operations, intervals, threads)

    def read_threads(self, of: Container[int] | None = None) -> list[ThreadRow]:
        """Every living tracked thread, or those of some processes. Takes milliseconds on a full node: not for every tick."""
        return self._time.threads(of)

    @property
    def waits(self) -> Waits:
        """The last reading."""
        return self._waits

    def read_feeding(self, processes: Iterable[int]) -> dict[int, FeedingRow]:
        """The feeding timelines. processes: the living ones. Returns the last object of a row again if it has not changed."""
        return self._time.feeding(processes)

    def sample_launches(self, process: int, mask: int) -> None:
        """Time one launch in mask + 1 of the process, and count all of them, if no other holds its place. mask: 2**n - 1."""
        if "launch_sampling" in self._maps and holder_of_place(self._maps["feeding"], process) in (0, process):
            self._maps["launch_sampling"].put(feeding_place(process), abi.LAUNCH_SAMPLING.pack(process, mask))

    def read_outputs(self, processes: Iterable[int]) -> dict[int, OutputRow]:
        """The last outputs of some processes."""
        return read_outputs(self._maps.get("outputs"), processes)

    def read_communicators(self) -> dict[int, list[CommunicatorRow]]:
        """Process number -> its live communicators, in the order of their creation."""
        rows = read_communicators(self._maps.get("communicators"))
        self._entries["communicators"] = sum(map(len, rows.values()))
        return rows

    def read_errors(self) -> dict[ErrorKey, int]:
        """Failed calls by code."""
        rows = read_errors(self._maps.get("errors"))
        self._entries["errors"] = len(rows)
        return rows

    def read_exits(self) -> dict[ExitKey, ExitRow]:
        """Ends of traced processes and of those that worked for them, until forget()."""
        return read_exits(self._maps.get("exits"))

    def read_graphs(self) -> dict[int, GraphRow]:
        """Process number -> its row, for processes that use graphs."""
        return read_graphs(self._maps.get("graph_rows"))

    def traced_tgids(self) -> set[int]:
        """Processes that have made traced calls and have not ended, as the exporter's pid namespace shows them."""
        return {row.tgid for row in self.read_processes().values() if row.tgid}

    def read_call_sites(self) -> dict[CallSiteKey, CallSiteRow]:
        """Slow calls by stack of Python functions."""
        return read_call_sites(self._maps.get("call_sites"))

    def read_last_errors(self) -> dict[int, LastError]:
        """Process number -> the last error that CUDA or NCCL returned to it."""
        return read_last_errors(self._maps.get("last_errors"))

    def drops(self) -> dict[tuple[DropProgram, DropReason], int]:
        """Records dropped so far by program and reason, without healed events."""
        return {key: count for key, count in self._counts() if key[1] is not DropReason.HEALED}

    def healed(self) -> int:
        """Missed switches and wake-ups so far, reconstructed from the kernel's own clocks."""
        return sum(count for (_, reason), count in self._counts() if reason is DropReason.HEALED)

    def _counts(self) -> Iterator[tuple[tuple[DropProgram, DropReason], int]]:
        reasons = len(DropReason)
        table = self._maps.get("drops")
        for key, value in table.items() if table else ():
            program, reason = divmod(abi.NUMBER.unpack(key)[0], reasons)
            yield (DropProgram(program), DropReason(reason)), abi.COUNT.unpack(value)[0]

    def capacities(self) -> dict[str, int]:
        """Map name -> max_entries."""
        return {name: self._maps[name].capacity for name in TABLES if name in self._maps}

    def forget(self, processes: set[int], reading: Reading) -> None:
        """Delete all rows of processes that have ended. reading: their last."""
        self.shares.end(processes)
        self._operations.forget(processes, Operations(reading.operations, reading.nccl_waits))
        forget_errors(self._maps.get("errors"), processes, reading.errors)
        if processes & reading.communicators.keys():
            delete_of(self._maps["communicators"], abi.COMMUNICATOR_KEY, processes)
            rows_of = (reading.communicators.get(process, ()) for process in processes)
            forget_arrivals(self._maps.get("arrivals"), processes, {row.hash for rows in rows_of for row in rows})
        rows = [reading.processes[process] for process in processes if process in reading.processes]
        if any(row.live_allocations for row in rows):
            delete_of(self._maps["allocations"], abi.ALLOCATION_KEY, processes)
        forget_gpu_rows(self._maps, processes, have_pinned=any(row.pinned_blocks for row in rows))
        if any(progress.process in processes for progress in reading.progress):
            forget_progress(self._maps, processes)
        if "call_sites" in self._maps:
            delete_of(self._maps["call_sites"], abi.CALL_SITE_KEY, processes)
        self._time.forget(processes)
        for process in processes:
            self._maps["processes"].delete(abi.NUMBER.pack(process))
            for ring in ("cadence", "outputs"):
                if ring in self._maps:
                    self._maps[ring].delete(abi.NUMBER.pack(process))
