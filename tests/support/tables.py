"""Kernel maps without a kernel: FakeMap replaces KernelMap, FakeTables packs rows into it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from exporter.kernel import abi
from exporter.kernel.gpu_rows import GraphRow
from exporter.kernel.operation_rows import EXEMPLAR_AT, SLOTS, SLOTS_AT, STATES, STATES_AT, SUMS
from exporter.kernel.operations import NUMBERS
from exporter.kernel.thread_rows import THREADS_READ, feeding_place
from exporter.units import slot_of

By = Mapping[abi.ThreadState, int]
"""Nanoseconds by state; the others are 0."""

NCCL_WAIT = "NCCL wait"
"""The name of abi.OPERATION_NCCL_WAIT in this module."""

_NOTHING: By = {}


def states_of(states_ns: By) -> tuple[int, ...]:
    """In the order of a row."""
    return tuple(states_ns.get(state, 0) for state in abi.ThreadState)


def _number_of(operation: str) -> int:
    return abi.OPERATION_NCCL_WAIT if operation == NCCL_WAIT else NUMBERS[operation]


class FakeMap:
    """A MapReader over a dict. times_read: calls of items()."""

    def __init__(self, capacity: int = 64) -> None:
        self.rows: dict[bytes, bytes] = {}
        self.times_read = 0
        self._capacity = capacity

    @property
    def capacity(self) -> int:
        """max_entries."""
        return self._capacity

    def items(self) -> Iterator[tuple[bytes, bytes]]:
        """Every entry once, in no particular order."""
        self.times_read += 1
        yield from list(self.rows.items())

    def get(self, key: bytes) -> bytes | None:
        """The value of one key."""
        return self.rows.get(key)

    def put(self, key: bytes, value: bytes) -> None:
        """Insert or replace."""
        self.rows[key] = value

    def delete(self, key: bytes) -> None:
        """Remove one key; it may be gone already."""
        self.rows.pop(key, None)


class FakeTables:
    """Builds the maps of exporter.kernel.tables.Tables. Calls add up, as in the kernel."""

    def __init__(self) -> None:
        names = (
            "processes",
            "operations",
            "errors",
            "communicators",
            "allocations",
            "process_numbers",
            "drops",
            "exposures",
        )
        names_of_progress = ("progress", "frontiers")
        names_of_ends = ("exits", "forks", "last_errors")
        names_of_disks = ("disks", "disk_users", "disk_waits")
        names_of_memory = ("page_allocations", "memory_groups")
        names_of_gpu = ("copies", "graph_rows", "graphs", "geometries", "pinned")
        names_of_time = (
            "intervals",
            "blame",
            "feeding",
            "groups",
            "wakeups",
            "awaited",
            "cadence",
            "outputs",
            "exposures",
        )
        self.maps: dict[str, FakeMap] = {
            name: FakeMap()
            for names_of_subject in (
                names,
                names_of_progress,
                names_of_time,
                names_of_ends,
                names_of_disks,
                names_of_memory,
                names_of_gpu,
            )
            for name in names_of_subject
        }
        self.threads: dict[int, bytes] = {}

    def iterate(self, program: str) -> bytes:
        """Output of the kernel's iterator over threads."""
        return b"".join(self.threads.values()) if program == THREADS_READ else b""

    def process(
        self,
        number: int,
        *,
        tgid: int = 100,
        comm: bytes = b"python",
        start_ns: int = 47_110_000_000,
        cgroup_id: int = 7,
        copied_bytes: Mapping[abi.Copy, int] | None = None,
        allocated_bytes: int = 0,
        freed_bytes: int = 0,
        unknown_frees: int = 0,
        live_allocations: int = 0,
        peak_bytes: int = 0,
        managed_bytes: int = 0,
        pinned_bytes: int = 0,
        pinned_blocks: int = 0,
        refused_bytes: int = 0,
        unblamed_ns: int = 0,
        communicators: int = 0,
    ) -> None:
        """A row of `processes`; replaces the row. The default start is tick 4711, as in host/process_tree.py."""
        copied = [(copied_bytes or {}).get(direction, 0) for direction in abi.Copy]
        of_memory = (peak_bytes, managed_bytes, pinned_bytes, pinned_blocks, refused_bytes)
        sums = (allocated_bytes, freed_bytes, unknown_frees, live_allocations, *of_memory, unblamed_ns)
        self.maps["processes"].rows[abi.NUMBER.pack(number)] = abi.PROCESS_ROW.pack(
            tgid, communicators, start_ns, cgroup_id, *copied, *sums, comm
        )

    def forked(self, process: int, *, processes: int = 0, threads: int = 0) -> None:
        """Forks of a job so far."""
        for is_thread, count in ((0, processes), (1, threads)):
            self.maps["forks"].rows[abi.FORK_KEY.pack(process, is_thread)] = abi.COUNT.pack(count)

    def ended(
        self, process: int, *, status: int, is_worker: bool = False, is_victim: bool = False, at_ns: int = 0
    ) -> None:
        """One more process has ended. status: as wait(2) returns it."""
        key = abi.EXIT_KEY.pack(process, status, is_worker, is_victim)
        count = abi.EXIT_ROW.unpack(self.maps["exits"].rows.get(key, bytes(abi.EXIT_ROW.size)))[0]
        self.maps["exits"].rows[key] = abi.EXIT_ROW.pack(count + 1, at_ns)

    def call(
        self,
        process: int,
        operation: str,
        *,
        durations_ns: Sequence[int] = (),
        untimed: int = 0,
        moved_bytes: int = 0,
        communicator: int = 0,
        states_ns: By = _NOTHING,
    ) -> None:
        """Calls that returned: one per duration, and `untimed` ones. operation: a name, or NCCL_WAIT."""
        key = abi.OPERATION_KEY.pack(process, _number_of(operation), communicator)
        before = self.maps["operations"].rows.get(key, bytes(abi.OPERATION_ROW.size))
        untimed_before, total_ns, bytes_before = SUMS.unpack_from(before)
        slots = list(SLOTS.unpack_from(before, SLOTS_AT))
        for duration_ns in durations_ns:
            slots[slot_of(duration_ns)] += 1
        sums = SUMS.pack(untimed_before + untimed, total_ns + sum(durations_ns), bytes_before + moved_bytes)
        time = STATES.pack(*map(int.__add__, STATES.unpack_from(before, STATES_AT), states_of(states_ns)))
        exemplar = before[EXEMPLAR_AT:SLOTS_AT]
        self.maps["operations"].rows[key] = sums + time + exemplar + SLOTS.pack(*slots)

    def memory_group(
        self,
        number: int,
        *,
        path: Sequence[str] = (),
        reclaims_ns: Sequence[int] = (),
        reclaimed_pages: int = 0,
        oom_kills: int = 0,
    ) -> None:
        """A row of `memory_groups`. path: directories of the group, the outermost first."""
        slots = [0] * abi.HIST_SLOTS
        for duration_ns in reclaims_ns:
            slots[slot_of(duration_ns)] += 1
        names = b"".join(name.encode().ljust(abi.GROUP_NAME_BYTES, b"\0") for name in reversed(path))
        row = abi.MEMORY_ROW.pack(0, 0, sum(reclaims_ns), reclaimed_pages, oom_kills, names, *slots)
        self.maps["memory_groups"].rows[abi.COUNT.pack(number)] = row

    def page_allocations(self, process: int, pages: int) -> None:
        """A row of `page_allocations`."""
        self.maps["page_allocations"].rows[abi.NUMBER.pack(process)] = abi.COUNT.pack(pages)

    def exposure(
        self,
        process: int,
        operation: str,
        *,
        work: int = 0,
        exact_ns: int = 0,
        bounded: tuple[int, int, int] = (0, 0, 0),
        clean: tuple[int, int] = (0, 0),
        throttled_ns: tuple[int, int] = (0, 0),
        stopped_ns: int = 0,
        late_ns: int = 0,
    ) -> None:
        """More waits for the GPU. bounded: their number, their time, the bound. clean: number and time.

        throttled_ns: of exact_ns, and of the bound. late_ns: late stalls before the bounded ones.
        """
        key = abi.EXPOSURE_KEY.pack(process, NUMBERS[operation], work)
        calls, total_ns, max_ns = bounded
        more = (exact_ns, throttled_ns[0], calls, total_ns, late_ns, max_ns, throttled_ns[1], stopped_ns, *clean)
        before = abi.EXPOSURE.unpack(self.maps["exposures"].rows.get(key, bytes(abi.EXPOSURE.size)))
        self.maps["exposures"].rows[key] = abi.EXPOSURE.pack(*map(int.__add__, before, more))

    def slowest(
        self,
        process: int,
        operation: str,
        *,
        duration_ns: int,
        ended_ns: int,
        tid: int = 4711,
        tgid: int = 4700,
        communicator: int = 0,
        is_being_written: bool = False,
    ) -> None:
        """The exemplar of an operation that has calls. is_being_written: half written."""
        key = abi.OPERATION_KEY.pack(process, _number_of(operation), communicator)
        row = self.maps["operations"].rows[key]
        exemplar = abi.EXEMPLAR.pack(2, tid, duration_ns, ended_ns, tgid, 3 if is_being_written else 2)
        self.maps["operations"].rows[key] = row[:EXEMPLAR_AT] + exemplar + row[EXEMPLAR_AT + len(exemplar) :]

    def error(self, process: int, operation: str, *, code: int, count: int = 1) -> None:
        """Calls that failed with `code`."""
        key = abi.ERROR_KEY.pack(process, NUMBERS[operation], 0, code, 0)
        (before,) = abi.COUNT.unpack(self.maps["errors"].rows.get(key, bytes(abi.COUNT.size)))
        self.maps["errors"].rows[key] = abi.COUNT.pack(before + count)

    def communicator(
        self,
        process: int,
        *,
        address: int = 0xC0,
        digest: int = 0xABCDEF,
        created_ns: int = 1,
        rank: int = 0,
        ranks: int = 2,
        ordinal: int = 1,
    ) -> None:
        """A live communicator. digest 0, rank -1, ranks 0: its creation was not traced."""
        key = abi.COMMUNICATOR_KEY.pack(process, 0, address)
        self.maps["communicators"].rows[key] = abi.COMMUNICATOR_ROW.pack(digest, created_ns, rank, ranks, ordinal, 0)

    def progress(
        self,
        process: int,
        *,
        communicator: int = 1,
        enqueued: int = 0,
        completed: int = 0,
        enqueued_ns: int = 0,
        completed_ns: int = 0,
        collectives: int = 0,
        lag_ns: int = 0,
        late_arrivals: int = 0,
    ) -> None:
        """Progress of a communicator; replaces the row."""
        sums = (enqueued, completed, enqueued_ns, completed_ns, collectives, lag_ns, late_arrivals)
        self.maps["progress"].rows[abi.PROGRESS_KEY.pack(process, communicator)] = abi.PROGRESS_ROW.pack(*sums)

    def frontier(self, process: int, *, address: int, kind: abi.FrontierKind = abi.FrontierKind.EVENT) -> None:
        """A stream or event with operations ahead of it."""
        self.maps["frontiers"].rows[abi.FRONTIER_KEY.pack(process, kind, address)] = bytes(24)

    def allocation(self, process: int, *, address: int, size_bytes: int) -> None:
        """Memory allocated and not yet freed."""
        self.maps["allocations"].rows[abi.ALLOCATION_KEY.pack(process, 0, address)] = abi.ALLOCATION.pack(
            size_bytes, 0, 0
        )

    def copied(
        self,
        process: int,
        direction: abi.Copy,
        memory: abi.HostMemory,
        *,
        copies: int,
        copied_bytes: int,
        total_ns: int,
        is_blocking: bool = True,
    ) -> None:
        """Copies between host and GPU so far; replaces the row."""
        key = abi.COPY_KEY.pack(process, direction, memory, is_blocking, 0)
        self.maps["copies"].rows[key] = abi.COPY_ROW.pack(copies, copied_bytes, total_ns)

    def graphs(self, process: int, row: GraphRow) -> None:
        """Graphs of a process so far; replaces the row."""
        self.maps["graph_rows"].rows[abi.NUMBER.pack(process)] = abi.GRAPH_ROW.pack(*row)

    def geometry(self, process: int, *, grid: int, block: int, launches: int) -> None:
        """Launches of one size so far. grid, block: their classes."""
        rows, place = self.maps["geometries"].rows, feeding_place(process)
        _, _, *counts = abi.GEOMETRY_ROW.unpack(rows.get(place, bytes(abi.GEOMETRY_ROW.size)))
        counts[grid * abi.BLOCK_CLASSES + block] = launches
        rows[place] = abi.GEOMETRY_ROW.pack(process, 0, *counts)

    def dropped(self, program: abi.DropProgram, reason: abi.DropReason, count: int) -> None:
        """Records that a program has dropped so far."""
        index = program * len(abi.DropReason) + reason
        self.maps["drops"].rows[abi.NUMBER.pack(index)] = abi.COUNT.pack(count)

    def interval(
        self, process: int, kind: abi.IntervalKind, states_ns: By, *, voluntary: int = 0, involuntary: int = 0
    ) -> None:
        """Time outside calls of threads that have ended; replaces the row."""
        value = abi.INTERVAL_ROW.pack(*states_of(states_ns), voluntary, involuntary)
        self.maps["intervals"].rows[abi.INTERVAL_KEY.pack(process, kind)] = value

    def blame(
        self,
        process: int,
        waited_ns: int,
        *,
        victim: abi.Victim = abi.Victim.STEP,
        culprit: abi.Culprit = abi.Culprit.TASK,
        comm: bytes = b"hog",
        tgid: int = 666,
        cgroup_id: int = 7,
        ancestor: tuple[int, bytes] = (0, b""),
    ) -> None:
        """Waits for a CPU that a culprit held; they add up. ancestor: tgid and name, of a short-lived one."""
        key = abi.BLAME_KEY.pack(process, victim, culprit, tgid, ancestor[0], cgroup_id, comm, ancestor[1])
        (before,) = abi.COUNT.unpack(self.maps["blame"].rows.get(key, bytes(abi.COUNT.size)))
        self.maps["blame"].rows[key] = abi.COUNT.pack(before + waited_ns)

    def feeding(
        self,
        process: int,
        *,
        dry_ns: By = _NOTHING,
        late_ns: By = _NOTHING,
        waits: int = 0,
        hits: tuple[int, int, int] = (0, 0, 0),
        kernels: int = 0,
        open_captures: int = 0,
        stalled_since_ns: int = 0,
        is_dry: bool = False,
        place: int | None = None,
    ) -> None:
        """The feeding timeline. hits: timed calls, counted ones, launches left out of the timing."""
        sums = (*states_of(dry_ns), *states_of(late_ns), 0, 0, waits, *hits, kernels)
        value = abi.FEEDING_ROW.pack(process, 0, stalled_since_ns, is_dry, 0, *sums, open_captures, 0)
        self.maps["feeding"].rows[feeding_place(process if place is None else place)] = value

    def beats(self, process: int, beats: Sequence[tuple[int, int]], *, before: int = 0) -> None:
        """(at_ns, signature) of the last beats, after `before` earlier ones; replaces the row."""
        ring = [0] * (2 * abi.BEATS)
        for number, beat in enumerate(beats, before):
            ring[number % abi.BEATS * 2 : number % abi.BEATS * 2 + 2] = beat
        value = abi.CADENCE_ROW.pack(before + len(beats), *ring)
        self.maps["cadence"].rows[abi.NUMBER.pack(process)] = value

    def outputs(
        self,
        process: int,
        outputs: Sequence[tuple[int, int]],
        *,
        before: int = 0,
        is_open: int = 0,
        work_ns: int = 0,
        quiet_ns: int = 0,
        paused_ns: int = 0,
    ) -> None:
        """(at_ns, paused_ns) of the last outputs, after `before` earlier ones; replaces the row. is_open: not complete."""
        ring = [0] * (2 * abi.OUTPUTS)
        for number, output in enumerate(outputs, before):
            ring[number % abi.OUTPUTS * 2 : number % abi.OUTPUTS * 2 + 2] = output
        so_far = before + len(outputs)
        value = abi.OUTPUT_ROW.pack(so_far, so_far + is_open, work_ns, quiet_ns, paused_ns, *ring)
        self.maps["outputs"].rows[abi.NUMBER.pack(process)] = value

    def wakeup(
        self,
        process: int,
        state: abi.ThreadState,
        states_ns: By,
        *,
        victim: abi.Victim = abi.Victim.STEP,
        waker: abi.Waker = abi.Waker.PROCESS,
        windows: int = 1,
        abstained_ns: int = 0,
    ) -> None:
        """What wakers did while threads slept in `state`; replaces the row."""
        resolved_ns = sum(states_ns.values())
        value = abi.WAKEUP_ROW.pack(windows, resolved_ns, abstained_ns, *states_of(states_ns))
        self.maps["wakeups"].rows[abi.WAKEUP_KEY.pack(process, victim, state, waker, 0)] = value

    def awaited(
        self, process: int, state: abi.ThreadState, *, by: tuple[int, abi.Awaited, bytes], slept_ns: int
    ) -> None:
        """A row of `awaited`; replaces the row. by: tgid, kind and comm."""
        self.maps["awaited"].rows[abi.AWAITED_KEY.pack(process, state, *by)] = abi.COUNT.pack(slept_ns)

    def thread(
        self,
        process: int,
        tid: int,
        *,
        tgid: int = 100,
        victim: abi.Victim = abi.Victim.STEP,
        state: abi.ThreadState = abi.ThreadState.ON_CPU,
        operation: str = "",
        read_ns: int = 0,
        opened_ns: int = 0,
        calls: int = 0,
        voluntary: int = 0,
        involuntary: int = 0,
        wakes: int = 0,
        run_delay_ns: int = 0,
        open_ns: By = _NOTHING,
        gaps_ns: By = _NOTHING,
        idle_ns: By = _NOTHING,
        booked_ns: By = _NOTHING,
        comm: bytes = b"python",
        reader: tuple[int, abi.Awaited, bytes] = (0, abi.Awaited.UNKNOWN, b""),
    ) -> None:
        """A living thread; replaces the row with the same tid. operation: "" in a gap."""
        number = NUMBERS[operation] if operation else abi.OPERATION_NONE
        counts = (calls, voluntary, involuntary, wakes, run_delay_ns)
        times = [one for by in (open_ns, gaps_ns, idle_ns, booked_ns) for one in states_of(by)]
        self.threads[tid] = abi.THREAD_ROW.pack(
            process, tid, tgid, victim, state, number, read_ns, opened_ns, *counts, *times, comm, *reader
        )
