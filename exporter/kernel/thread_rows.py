"""The time of threads. Partners in C: bpf/sched.bpf.c, bpf/threads.bpf.c, and the headers in bpf/lib that they include.

In: MapReaders by map name, and a way to run the kernel's iterator over threads. Out: rows by key, cumulative nanoseconds.
A map whose programs are not loaded counts as empty.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TypeVar, cast

from exporter.kernel import abi
from exporter.kernel.abi import Culprit, IntervalKind, ShareTable, ThreadState, Victim, Waker
from exporter.kernel.awaited_rows import AwaitedBy, awaited_by
from exporter.kernel.layout import Layout, Values
from exporter.kernel.maps import MapReader
from exporter.kernel.share_rows import Shares
from exporter.units import NANOSECONDS

Iterate = Callable[[str], bytes]
"""Runs a kernel iterator program by its name and returns its output."""

IDLE_NS = 60 * NANOSECONDS
"""The part of a gap beyond this length is idle."""

THREADS_READ, THREADS_ADOPT = "threads_read", "threads_adopt"
"""The programs of bpf/threads.bpf.c."""

States = tuple[int, ...]
"""Nanoseconds by abi.ThreadState."""


class IntervalKey(NamedTuple):
    """Key of `intervals`."""

    process: int
    kind: IntervalKind


class IntervalRow(NamedTuple):
    """Value of `intervals`. voluntary, involuntary: switches of the threads that have ended."""

    states_ns: States
    voluntary: int
    involuntary: int


class BlameKey(NamedTuple):
    """Key of `blame`, whose value is nanoseconds. tgid: in the machine's pid namespace, 0: not a task. comm: up to its NUL.

    ancestor_tgid: of a young process the nearest ancestor that lasts, else 0.
    """

    process: int
    victim: Victim
    culprit: Culprit
    tgid: int
    ancestor_tgid: int
    cgroup_id: int
    comm: bytes
    ancestor_comm: bytes = b""


class ExposureKey(NamedTuple):
    """Key of `exposures`. work: class of the work that was launched since the wait before."""

    process: int
    operation: int
    work: int


class Exposure(NamedTuple):
    """Waits for the GPU of one operation after about as much work.

    exact_ns: waits for a CPU that delayed a return. calls, total_ns: waits that may have been delayed, by at most max_ns of
    waiting for a CPU and stopped_ns, or that followed upon late stalls, late_ns. exact_throttled_ns, max_throttled_ns: the parts
    that the own quota caused. clean_calls, clean_ns: the other waits. Neither time includes exact_ns.
    """

    exact_ns: int
    exact_throttled_ns: int
    calls: int
    total_ns: int
    late_ns: int
    max_ns: int
    max_throttled_ns: int
    stopped_ns: int
    clean_calls: int
    clean_ns: int


class FeedingRow(NamedTuple):
    """A place of `feeding`: the feeding timeline of one process. feeding: step threads that feed the GPU now.

    dry_ns: stalls while the GPU had no work. late_ns: stalls while it may have had work.
    stalled_since_ns: when the open stall began, 0: none; the sums do not include it.
    cycle_late_ns: late stalls since the last wait for the GPU. cycle_kernels: `kernels` at that time. waits: for the GPU; while
    that does not change, no exposure changes. timed_calls, counted_calls: probe hits. left_out_launches: counted calls that
    sampling left out. kernels: launched one by one, not into a graph.
    """

    process: int
    feeding: int
    stalled_since_ns: int
    is_dry: int
    dry_ns: States
    late_ns: States
    cycle_late_ns: int
    cycle_kernels: int
    waits: int
    timed_calls: int
    counted_calls: int
    left_out_launches: int
    kernels: int
    open_captures: int


class WakeupKey(NamedTuple):
    """Key of `wakeups`: victim and state of the sleeper, and its waker."""

    process: int
    victim: Victim
    state: ThreadState
    waker: Waker


class WakeupRow(NamedTuple):
    """Value of `wakeups`. resolved_ns: sleep that is split over states_ns, the states of the waker."""

    windows: int
    resolved_ns: int
    abstained_ns: int
    states_ns: States

    def plus(self, other: WakeupRow) -> WakeupRow:
        """The sum of both."""
        sums = (mine + others for mine, others in zip(self[:3], other[:3], strict=True))
        windows, resolved_ns, abstained_ns = sums
        states_ns = tuple(map(int.__add__, self.states_ns, other.states_ns))
        return WakeupRow(windows, resolved_ns, abstained_ns, states_ns)


class ThreadRow(NamedTuple):
    """One living thread up to the moment read_ns. operation: of the outermost open call, abi.OPERATION_NONE in a gap.

    open_ns: the open call or gap, which began at opened_ns. gaps_ns: all gaps, the open one included. booked_ns: everything.
    reader: who should read what the thread is blocked in writing, without a name if it is not, or if the reader is unknown.
    """

    process: int
    tid: int
    tgid: int
    victim: Victim
    state: int
    operation: int
    read_ns: int
    opened_ns: int
    calls: int
    voluntary: int
    involuntary: int
    wakes: int
    run_delay_ns: int
    open_ns: States
    gaps_ns: States
    idle_ns: States
    booked_ns: States
    comm: bytes
    reader: AwaitedBy


KEY_FORMATS = {
    "exposures": abi.EXPOSURE_KEY,
    "intervals": abi.INTERVAL_KEY,
    "blame": abi.BLAME_KEY,
    "wakeups": abi.WAKEUP_KEY,
    "awaited": abi.AWAITED_KEY,
    "exits": abi.EXIT_KEY,
    "forks": abi.FORK_KEY,
    "last_errors": abi.NUMBER,
}
"""Hash maps whose keys begin with a process number, and whose rows are only deleted when the process ends."""

PLACED = ("groups", "launch_sampling", "geometries", "returns", "feeding")
"""Arrays of abi.FEEDING_PLACES. A place belongs to the process whose number it begins with, by `feeding`, which is freed last.

Only programs read `groups` and `returns`.
"""

_PRUNE_EVERY = 5  # readings; a running exporter makes one a second
_FEW = 64  # for fewer processes, single look-ups cost less than reading the whole array
_BLAME_KEPT = 128  # rows; fewer are not pruned

T = TypeVar("T")

_N = abi.THREAD_STATES
_ARRAYS_AT = list(abi.THREAD_ROW.members).index("open_ns")  # members in front of the arrays


class ThreadTables:
    """Reads and prunes the maps of time."""

    def __init__(self, maps: Mapping[str, MapReader], iterate: Iterate, shares: Shares) -> None:
        self._maps = maps
        self._shares = shares
        self._iterate = iterate
        self._last: dict[str, tuple[list[tuple[bytes, bytes]], Any]] = {}
        self._exposures: dict[bytes, tuple[bytes, ExposureKey, Exposure]] = {}
        self._feeding: dict[int, tuple[bytes, FeedingRow]] = {}
        self._blamed: dict[bytes, BlameKey] = {}
        self._before_prune: dict[bytes, bytes] = {}
        self._readings = 0
        self.entries: dict[str, int] = {}

    def _unpacked(self, name: str, unpack: Callable[[list[tuple[bytes, bytes]]], T]) -> T:
        """A map. Returns the last object again if nothing has changed."""
        table = self._maps.get(name)
        rows = list(table.items()) if table else []
        self.entries[name] = len(rows)
        last_rows, last = self._last.get(name, (None, None))
        if rows != last_rows:
            last = unpack(rows)
            self._last[name] = (rows, last)
        return cast(T, last)

    def exposures(self) -> dict[ExposureKey, Exposure]:
        """Every synchronising operation. Returns the last object of a row again if it has not changed."""
        table = self._maps.get("exposures")
        known, self._exposures = self._exposures, {}
        for raw_key, value in table.items() if table else ():
            before = known.get(raw_key)
            if before is None or before[0] != value:
                key, row = abi.EXPOSURE_KEY.unpack(raw_key), abi.EXPOSURE.unpack(value)
                before = (value, ExposureKey._make(key), Exposure._make(row))
            self._exposures[raw_key] = before
        self.entries["exposures"] = len(self._exposures)
        return {key: row for _, key, row in self._exposures.values()}

    def intervals(self) -> dict[IntervalKey, IntervalRow]:
        """Time outside calls of ended threads, and of abandoned calls of all threads."""
        return self._unpacked("intervals", _intervals_of)

    def blame(self) -> dict[BlameKey, int]:
        """Nanoseconds by victim and culprit, for culprits charged recently."""
        rows = self._unpacked("blame", self._blame_of)
        self._readings += 1
        return self._pruned_blame() if self._readings % _PRUNE_EVERY == 0 else rows

    def _pruned_blame(self) -> dict[BlameKey, int]:
        """Delete and omit rows that have not changed for some readings: every process that ever ran beside a job has a row.

        A culprit that is charged again begins at zero, in its row and in the next result.
        """
        raw = dict(self._last["blame"][0])
        if len(raw) > _BLAME_KEPT:
            unchanged = [key for key, value in raw.items() if self._before_prune.get(key) == value]
            for key in unchanged:
                self._maps["blame"].delete(key)
                del raw[key]
            self._shares.release((abi.NUMBER.unpack_from(key)[0] for key in unchanged), ShareTable.BLAME)
        self._before_prune = raw
        left = list(raw.items())
        rows = self._blame_of(left)
        self._last["blame"] = (left, rows)
        return rows

    def wakeups(self) -> dict[WakeupKey, WakeupRow]:
        """What the wakers of sleeping threads did during the sleeps."""
        return self._unpacked("wakeups", _wakeups_of)

    def _blame_of(self, raw: list[tuple[bytes, bytes]]) -> dict[BlameKey, int]:
        """Unpacks each key once: a machine may have thousands of culprits."""
        rows: dict[BlameKey, int] = {}
        known, self._blamed = self._blamed, {}
        for raw_key, value in raw:
            key = self._blamed[raw_key] = known.get(raw_key) or _blame_key(raw_key)
            rows[key] = rows.get(key, 0) + abi.COUNT.unpack(value)[0]
        return rows

    def feeding(self, processes: Iterable[int]) -> dict[int, FeedingRow]:
        """Rows of these processes that hold their place. Returns the last object of a row again if it has not changed."""
        known, rows = self._feeding, {}
        for process, value in rows_at_places(self._maps.get("feeding"), processes):
            before = known.get(process)
            if before is None or before[0] != value:
                _, feeding, since_ns, is_dry, _, *rest = abi.FEEDING_ROW.unpack(value)
                dry_ns, late_ns, sums = tuple(rest[:_N]), tuple(rest[_N : 2 * _N]), rest[2 * _N : -1]
                before = (value, FeedingRow(process, feeding, since_ns, is_dry, dry_ns, late_ns, *sums))
            rows[process] = before
        self._feeding = rows
        return {process: row for process, (_, row) in rows.items()}

    def threads(self, of: Container[int] | None = None) -> list[ThreadRow]:
        """Every living tracked thread, or those of some processes."""
        written = memoryview(self._iterate(THREADS_READ))
        size = abi.THREAD_ROW.size
        rows = (written[at : at + size] for at in range(0, len(written) - size + 1, size))
        if of is not None:
            rows = (row for row in rows if abi.NUMBER.unpack_from(row)[0] in of)
        return [_thread_of(abi.THREAD_ROW.unpack(row)) for row in rows]

    def forget(self, processes: set[int]) -> None:
        """Delete the rows of processes that have ended, and free their places."""
        for name, key_format in KEY_FORMATS.items():
            if name in self._maps:
                delete_of(self._maps[name], key_format, processes)
        for table in (self._maps[name] for name in PLACED if name in self._maps):
            for place, process in ((feeding_place(process), process) for process in processes):
                value = table.get(place)
                if value is not None and abi.NUMBER.unpack_from(value)[0] == process:
                    table.put(place, bytes(len(value)))


def rows_at_places(table: MapReader | None, processes: Iterable[int]) -> Iterator[tuple[int, bytes]]:
    """Each process that holds its place in a map of PLACED, and its row. Many rows are read from the whole array."""
    wanted = list(processes)
    if table is None:
        return
    if len(wanted) <= _FEW:
        for process in wanted:
            value = table.get(feeding_place(process))
            if value is not None and abi.NUMBER.unpack_from(value)[0] == process:
                yield process, value
        return
    at: dict[bytes, list[int]] = {}
    for process in wanted:
        at.setdefault(feeding_place(process), []).append(process)
    for place, value in table.items():  # an array, in the order of its places
        for process in at.pop(place, ()):
            if abi.NUMBER.unpack_from(value)[0] == process:
                yield process, value
        if not at:
            return


def holder_of_place(feeding: MapReader, process: int) -> int:
    """The process that holds the place of this one; 0: none."""
    value = feeding.get(feeding_place(process))
    return abi.NUMBER.unpack_from(value)[0] if value else 0


def feeding_place(process: int) -> bytes:
    """Key of a process in the maps of PLACED."""
    return abi.NUMBER.pack(process % abi.FEEDING_PLACES)


def signed(time_ns: int) -> int:
    """A sum of the kernel's that may be negative.

    When a missed switch is healed, time moves from one state to another, even time of a call or gap that was reported before.
    """
    return time_ns - (1 << 64) if time_ns >> 63 else time_ns


def delete_of(table: MapReader, key_format: Layout, processes: set[int]) -> None:
    """Delete the keys of a map whose first member is one of `processes`."""
    for key in [key for key, _ in table.items() if key_format.unpack(key)[0] in processes]:
        table.delete(key)


def _intervals_of(raw: list[tuple[bytes, bytes]]) -> dict[IntervalKey, IntervalRow]:
    rows = {}
    for key, value in raw:
        process, kind = abi.INTERVAL_KEY.unpack(key)
        *states_ns, voluntary, involuntary = abi.INTERVAL_ROW.unpack(value)
        rows[IntervalKey(process, IntervalKind(kind))] = IntervalRow(tuple(states_ns), voluntary, involuntary)
    return rows


def _wakeups_of(raw: list[tuple[bytes, bytes]]) -> dict[WakeupKey, WakeupRow]:
    rows = {}
    for key, value in raw:
        process, victim, state, waker, _ = abi.WAKEUP_KEY.unpack(key)
        windows, resolved_ns, abstained_ns, *states_ns = abi.WAKEUP_ROW.unpack(value)
        row = WakeupRow(windows, resolved_ns, abstained_ns, tuple(states_ns))
        rows[WakeupKey(process, Victim(victim), ThreadState(state), Waker(waker))] = row
    return rows


def _blame_key(raw: bytes) -> BlameKey:
    process, victim, culprit, tgid, ancestor_tgid, cgroup_id, *names = abi.BLAME_KEY.unpack(raw)
    # Cut at the NUL: the kernel leaves remains of longer names behind it, so two keys may become one.
    comm, ancestor_comm = (name.split(b"\0", 1)[0] for name in names)
    return BlameKey(process, Victim(victim), Culprit(culprit), tgid, ancestor_tgid, cgroup_id, comm, ancestor_comm)


def _thread_of(values: Values) -> ThreadRow:
    """The single members, then four arrays of THREAD_STATES, then comm and the reader."""
    process, tid, tgid, victim, *singles = values[:_ARRAYS_AT]
    names_at = _ARRAYS_AT + 4 * abi.THREAD_STATES
    arrays = (values[at : at + abi.THREAD_STATES] for at in range(_ARRAYS_AT, names_at, abi.THREAD_STATES))
    comm, *reader = values[names_at:]
    names = (comm.split(b"\0", 1)[0], awaited_by(*reader))
    return ThreadRow._make((process, tid, tgid, Victim(victim), *singles, *arrays, *names))
