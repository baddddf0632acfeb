"""Where the time of threads went, as rows: the tables that bpf/sched.bpf.c and the ends of calls fill. Bytes in, numbers out.

In: MapReaders by map name, and a way to run the kernel's iterator over threads. Out: rows by key, cumulative nanoseconds.
A map that is not there, because the programs that fill it did not load, is an empty one.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TypeVar, cast

from exporter.kernel import abi
from exporter.kernel.abi import Culprit, IntervalKind, ThreadState, Victim, Waker
from exporter.kernel.maps import MapReader
from exporter.units import NANOSECONDS

Iterate = Callable[[str], bytes]
"""Runs a kernel iterator program by its name and returns what it wrote."""

IDLE_NS = 60 * NANOSECONDS
"""A thread waits for the GPU for so long after a call; then its gap is idle."""

THREADS_READ, THREADS_ADOPT = "threads_read", "threads_adopt"
"""The programs of bpf/threads.bpf.c."""

States = tuple[int, ...]
"""Nanoseconds by abi.ThreadState."""

_COMM_BYTES = 16


class IntervalKey(NamedTuple):
    """Key of `intervals`."""

    process: int
    kind: IntervalKind


class IntervalRow(NamedTuple):
    """Value of `intervals`. voluntary, involuntary: switches of the threads that have ended."""

    states_ns: States
    voluntary: int
    involuntary: int


class TailKey(NamedTuple):
    """Key of `tail`. octave: of the calls' length, from 2**abi.TAIL_FIRST_OCTAVE ns on."""

    process: int
    operation: int
    octave: int


class TailRow(NamedTuple):
    """Value of `tail`."""

    calls: int
    states_ns: States


class BlameKey(NamedTuple):
    """Key of `blame`, whose value is nanoseconds. tgid: the kernel's own number, 0 = not a task. comm: up to its NUL."""

    process: int
    victim: Victim
    culprit: Culprit
    tgid: int
    cgroup_id: int
    comm: bytes


class ExposureKey(NamedTuple):
    """Key of `exposures`."""

    process: int
    operation: int


class Exposure(NamedTuple):
    """Waiting for a CPU that delayed the return of synchronising calls: exact_ns surely, of max_ns an unknown part.

    calls, total_ns: of which max_ns is part. clean_calls, clean_ns: calls without any wait for a CPU. runnable_ns, throttled_ns:
    what all of them waited.
    """

    exact_ns: int
    max_ns: int
    calls: int
    total_ns: int
    clean_calls: int
    clean_ns: int
    runnable_ns: int
    throttled_ns: int


class FeedingRow(NamedTuple):
    """A place of `feeding`: the feeding timeline of one process. feeding: step threads that feed the GPU now.

    dry_ns: stalls while the GPU had nothing to do, late_ns: while it may have had something.
    stalled_since_ns: when the open stall began; 0 while there is none, and nothing of it is in the sums.
    clean_*: waits for the GPU that ended a cycle without stalls; stalled_*: those that ended one with late stalls.
    other_waits: those that ended none. timed_calls, counted_calls: what the probes were hit for; left_out_launches: of the
    counted ones those that would have been timed but for their sampling. kernels: launched one by one, not into a graph.
    """

    process: int
    feeding: int
    stalled_since_ns: int
    is_dry: int
    dry_ns: States
    late_ns: States
    cycle_late_ns: int
    clean_waits: int
    clean_wait_ns: int
    stalled_waits: int
    stalled_wait_ns: int
    stalled_late_ns: int
    other_waits: int
    timed_calls: int
    counted_calls: int
    left_out_launches: int
    kernels: int
    open_captures: int

    @property
    def waits(self) -> int:
        """All of them: no exposure has moved where this has not."""
        return self.clean_waits + self.stalled_waits + self.other_waits


class ChainKey(NamedTuple):
    """Key of `chains`: whose sleeps, in which state, and who ended them."""

    process: int
    victim: Victim
    state: ThreadState
    waker: Waker


class ChainRow(NamedTuple):
    """Value of `chains`. resolved_ns: time asleep that is split over states_ns, those of whoever ended the sleep."""

    windows: int
    resolved_ns: int
    abstained_ns: int
    states_ns: States

    def plus(self, other: ChainRow) -> ChainRow:
        """Both together."""
        sums = (mine + others for mine, others in zip(self[:3], other[:3], strict=True))
        windows, resolved_ns, abstained_ns = sums
        states_ns = tuple(map(int.__add__, self.states_ns, other.states_ns))
        return ChainRow(windows, resolved_ns, abstained_ns, states_ns)


class ThreadRow(NamedTuple):
    """One living thread up to the moment read_ns. operation: of the outermost open call, abi.OPERATION_NONE in a gap.

    open_ns: of the open call or gap, which began at opened_ns. gaps_ns: of all gaps, the open one included. booked_ns: all.
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


KEY_FORMATS = {
    "exposures": abi.OPERATION_KEY,
    "intervals": abi.INTERVAL_KEY,
    "tail": abi.TAIL_KEY,
    "blame": abi.BLAME_KEY,
    "chains": abi.CHAIN_KEY,
    "exits": abi.EXIT_KEY,
    "forks": abi.FORK_KEY,
    "last_errors": abi.NUMBER,
}
"""Hash maps whose keys begin with the number of a process, and nothing else is done when it ends than to delete them."""

PLACED = ("feeding", "groups", "launch_sampling", "geometries")
"""Arrays of abi.FEEDING_PLACES; a place belongs to the process whose number it begins with. `groups` is the programs' own."""

_PRUNE_EVERY = 5  # readings, of which a running exporter makes one a second
_FEW = 64  # look-ups of one place that cost less than reading all of them
_BLAME_KEPT = 128  # rows that are few enough to be left alone

T = TypeVar("T")

_N = abi.THREAD_STATES
_ARRAYS_AT = 13  # members of a thread_row in front of its arrays


class ThreadTables:
    """Reads the tables of time. iterate: see Iterate; without it there are no living threads."""

    def __init__(self, maps: Mapping[str, MapReader], iterate: Iterate) -> None:
        self._maps = maps
        self._iterate = iterate
        self._last: dict[str, tuple[list[tuple[bytes, bytes]], Any]] = {}
        self._exposures: dict[bytes, tuple[bytes, ExposureKey, Exposure]] = {}
        self._feeding: dict[int, tuple[bytes, FeedingRow]] = {}
        self._blamed: dict[bytes, BlameKey] = {}
        self._before_prune: dict[bytes, bytes] = {}
        self._readings = 0
        self.entries: dict[str, int] = {}

    def _unpacked(self, name: str, unpack: Callable[[list[tuple[bytes, bytes]]], T]) -> T:
        """A table; the very object of the last reading when nothing has moved since."""
        table = self._maps.get(name)
        rows = list(table.items()) if table else []
        self.entries[name] = len(rows)
        last_rows, last = self._last.get(name, (None, None))
        if rows != last_rows:
            last = unpack(rows)
            self._last[name] = (rows, last)
        return cast(T, last)

    def exposures(self) -> dict[ExposureKey, Exposure]:
        """Of every synchronising operation; one that has not moved is the very object of the last time."""
        table = self._maps.get("exposures")
        known, self._exposures = self._exposures, {}
        for raw_key, value in table.items() if table else ():
            before = known.get(raw_key)
            if before is None or before[0] != value:
                process, operation, _ = abi.OPERATION_KEY.unpack(raw_key)
                *sums, runnable_ns, throttled_ns = abi.EXPOSURE.unpack(value)
                waited = (signed(runnable_ns), signed(throttled_ns))
                before = (value, ExposureKey(process, operation), Exposure._make((*sums, *waited)))
            self._exposures[raw_key] = before
        self.entries["exposures"] = len(self._exposures)
        return {key: row for _, key, row in self._exposures.values()}

    def intervals(self) -> dict[IntervalKey, IntervalRow]:
        """Time outside of calls, of threads that have ended; abandoned calls also of living ones."""
        return self._unpacked("intervals", _intervals_of)

    def tail(self) -> dict[TailKey, TailRow]:
        """What long calls waited for, by length. Thousands of rows: not for every tick."""
        return self._unpacked("tail", _tail_of)

    def blame(self) -> dict[BlameKey, int]:
        """Nanoseconds by victim and culprit, of those that were charged of late."""
        rows = self._unpacked("blame", self._blame_of)
        self._readings += 1
        return self._pruned_blame() if self._readings % _PRUNE_EVERY == 0 else rows

    def _pruned_blame(self) -> dict[BlameKey, int]:
        """Without what has not moved for long: every process that ever ran beside a job has a row, and most have ended.

        One that comes again counts from zero, for whoever compares with what is returned here as in its row.
        """
        raw = dict(self._last["blame"][0])
        if len(raw) > _BLAME_KEPT:
            for key in [key for key, value in raw.items() if self._before_prune.get(key) == value]:
                self._maps["blame"].delete(key)
                del raw[key]
        self._before_prune = raw
        left = list(raw.items())
        rows = self._blame_of(left)
        self._last["blame"] = (left, rows)
        return rows

    def chains(self) -> dict[ChainKey, ChainRow]:
        """What the wakers of sleeping threads did meanwhile."""
        return self._unpacked("chains", _chains_of)

    def _blame_of(self, raw: list[tuple[bytes, bytes]]) -> dict[BlameKey, int]:
        """A machine may have thousands of culprits: each key is unpacked once."""
        rows: dict[BlameKey, int] = {}
        known, self._blamed = self._blamed, {}
        for raw_key, value in raw:
            key = self._blamed[raw_key] = known.get(raw_key) or _blame_key(raw_key)
            rows[key] = rows.get(key, 0) + abi.COUNT.unpack(value)[0]
        return rows

    def feeding(self, processes: Iterable[int]) -> dict[int, FeedingRow]:
        """The rows of these processes, the very object of the last time where nothing has moved.

        A place that another process holds is no row.
        """
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
        """Every living thread that is tracked, as the kernel's iterator tells them; or only those of some processes."""
        told = memoryview(self._iterate(THREADS_READ))
        size = abi.THREAD_ROW.size
        rows = (told[at : at + size] for at in range(0, len(told) - size + 1, size))
        if of is not None:
            rows = (row for row in rows if abi.NUMBER.unpack_from(row)[0] in of)
        return [_thread_of(abi.THREAD_ROW.unpack(row)) for row in rows]

    def forget(self, processes: set[int]) -> None:
        """Delete the rows of processes that have ended, and give their places back."""
        for name, key_format in KEY_FORMATS.items():
            if name in self._maps:
                delete_of(self._maps[name], key_format, processes)
        for table in (self._maps[name] for name in PLACED if name in self._maps):
            for place, process in ((feeding_place(process), process) for process in processes):
                value = table.get(place)
                if value is not None and abi.NUMBER.unpack_from(value)[0] == process:
                    table.put(place, bytes(len(value)))


def rows_at_places(table: MapReader | None, processes: Iterable[int]) -> Iterator[tuple[int, bytes]]:
    """Each process and its row in a map of PLACED: one by one, or out of the array up to the last where they are many.

    A place that another process holds is no row.
    """
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


def feeding_place(process: int) -> bytes:
    """Key of the place that a process has in the maps of PLACED."""
    return abi.NUMBER.pack(process % abi.FEEDING_PLACES)


def signed(time_ns: int) -> int:
    """A sum of the kernel's that may be below zero.

    When a switch was missed, the time up to its mending was taken from one state and given to another: also time that a call
    or gap had been told of before.
    """
    return time_ns - (1 << 64) if time_ns >> 63 else time_ns


def delete_of(table: MapReader, key_format: struct.Struct, processes: set[int]) -> None:
    """Walk a whole table for the keys of `processes`, the first member of a key."""
    for key in [key for key, _ in table.items() if key_format.unpack(key)[0] in processes]:
        table.delete(key)


def _intervals_of(raw: list[tuple[bytes, bytes]]) -> dict[IntervalKey, IntervalRow]:
    rows = {}
    for key, value in raw:
        process, kind = abi.INTERVAL_KEY.unpack(key)
        *states_ns, voluntary, involuntary = abi.INTERVAL_ROW.unpack(value)
        rows[IntervalKey(process, IntervalKind(kind))] = IntervalRow(tuple(states_ns), voluntary, involuntary)
    return rows


def _tail_of(raw: list[tuple[bytes, bytes]]) -> dict[TailKey, TailRow]:
    rows = {}
    for key, value in raw:
        calls, *states_ns = abi.TAIL_ROW.unpack(value)
        rows[TailKey(*abi.TAIL_KEY.unpack(key))] = TailRow(calls, tuple(states_ns))
    return rows


def _chains_of(raw: list[tuple[bytes, bytes]]) -> dict[ChainKey, ChainRow]:
    rows = {}
    for key, value in raw:
        process, victim, state, waker, _ = abi.CHAIN_KEY.unpack(key)
        windows, resolved_ns, abstained_ns, *states_ns = abi.CHAIN_ROW.unpack(value)
        row = ChainRow(windows, resolved_ns, abstained_ns, tuple(states_ns))
        rows[ChainKey(process, Victim(victim), ThreadState(state), Waker(waker))] = row
    return rows


def _blame_key(raw: bytes) -> BlameKey:
    process, victim, culprit, tgid, _, cgroup_id, comm = abi.BLAME_KEY.unpack(raw)
    # Without what stands behind the NUL: the kernel leaves rests of longer names there, and two keys may become one.
    return BlameKey(process, Victim(victim), Culprit(culprit), tgid, cgroup_id, comm.split(b"\0", 1)[0])


def _thread_of(values: tuple[Any, ...]) -> ThreadRow:
    """Any: struct.unpack() knows no types; sixteen codes each for four arrays, and a name, follow the single members."""
    process, tid, tgid, victim, *singles = values[:_ARRAYS_AT]
    arrays = (values[at : at + abi.THREAD_STATES] for at in range(_ARRAYS_AT, len(values) - 1, abi.THREAD_STATES))
    return ThreadRow._make((process, tid, tgid, Victim(victim), *singles, *arrays, values[-1].split(b"\0", 1)[0]))
