"""What did the kernel's tables say in the last minute? Kept in memory, compressed, in case somebody asks.

In: every table as it is read for a tick. Out: the ticks of the last minute, of which the first one has all rows.
"""

from __future__ import annotations

import threading
import zlib
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence

from exporter.gpu.model import GpuState
from exporter.kernel.maps import MapReader
from exporter.kernel.thread_rows import PLACED, THREADS_READ, Iterate
from exporter.recording.codec import (
    DEVICES,
    MAPS,
    THREADS,
    Moved,
    Rows,
    Tick,
    device_rows,
    difference,
    thread_rows,
    without_slots,
)
from exporter.units import NANOSECONDS

KEPT_SECONDS = 60
SEGMENT_SECONDS = 15
"""A segment begins with all rows, so that those before it can be thrown away."""
MAX_BYTES = 6 << 20
"""Compressed; of more, the oldest segments are thrown away sooner."""
MAX_TICK_BYTES = 512 << 10
MAX_WHOLE_BYTES = 2 << 20
"""Of rows that moved between two ticks, and of all rows. On a node where there are more, keeping them would cost too much of a
tick: nothing is kept for a minute, and then it is tried again."""
_LEVEL = 1  # of zlib: what is compressed is zeros for the most part

_NOT_OF_TICKS = ("operations", "intervals")
"""Publications go through these; of operations ticks read single rows."""


class _Tap:
    """A MapReader whose reader is listened to."""

    def __init__(self, table: MapReader, name: str, flight: RowRing) -> None:
        self._table = table
        self._name = name
        self._flight = flight

    @property
    def capacity(self) -> int:
        """max_entries."""
        return self._table.capacity

    def items(self) -> Iterator[tuple[bytes, bytes]]:
        """Every entry once. Of an array whoever reads may stop when he has seen enough: then the others are as they were."""
        if self._name in _NOT_OF_TICKS or self._flight.is_paused:
            yield from self._table.items()
            return
        rows: dict[bytes, bytes] = {}
        room_bytes = MAX_WHOLE_BYTES
        is_whole = False
        try:
            for key, value in self._table.items():
                room_bytes -= len(value)
                if room_bytes >= 0:
                    rows[key] = value
                else:
                    rows.clear()
                yield key, value
            is_whole = self._name not in PLACED
        finally:
            if room_bytes < 0:
                self._flight.give_up()
            elif is_whole:
                self._flight.note_all(self._name, rows)
            else:
                self._flight.note_some(self._name, rows)

    def get(self, key: bytes) -> bytes | None:
        """The value of one key."""
        value = self._table.get(key)
        if self._flight.is_paused:
            return value
        self._flight.note_some(self._name, {key: None if value is None else without_slots(self._name, value)})
        return value

    def put(self, key: bytes, value: bytes) -> None:
        """Insert or replace."""
        self._table.put(key, value)

    def delete(self, key: bytes) -> None:
        """Remove one key."""
        self._table.delete(key)


class RowRing:
    """Owns the last minute. Readings may come from any thread, and taken() be asked by any; tick() belongs to the loop."""

    def __init__(self) -> None:
        self._lock = threading.RLock()  # of what was read, and of what is kept
        self._whole: dict[str, Rows] = {}  # read since the last tick, whole
        self._single: dict[str, dict[bytes, bytes | None]] = {}  # and row by row
        self._known: dict[str, Rows] = {}  # as of the last tick
        self._segments: deque[list[bytes]] = deque()
        self._segment_began_ns = 0
        self.is_paused = False  # there is more than can be kept
        self._is_too_much = False  # as was found since the last tick
        self._paused_until_ns = 0

    def wrap_maps(self, maps: Mapping[str, MapReader]) -> dict[str, MapReader]:
        """The same maps, whose readings become ticks."""
        return {name: _Tap(table, name, self) if name in MAPS else table for name, table in maps.items()}

    def wrap_iterator(self, iterate: Iterate) -> Iterate:
        """The same of the iterator over threads."""

        def iterate_and_note(program: str) -> bytes:
            told = iterate(program)
            if program == THREADS_READ and not self.is_paused:
                self.note_all(THREADS, thread_rows(told))
            return told

        return iterate_and_note

    def wrap_devices(self, states: Callable[[], Sequence[GpuState]]) -> Callable[[], Sequence[GpuState]]:
        """The same of what is known of GPUs."""

        def told_and_noted() -> Sequence[GpuState]:
            told = states()
            if not self.is_paused:
                self.note_all(DEVICES, device_rows(told))
            return told

        return told_and_noted

    def give_up(self) -> None:
        """One table alone has more than can be kept."""
        with self._lock:
            self._is_too_much = True
            self._whole.clear()
            self._single.clear()

    def note_all(self, name: str, rows: Rows) -> None:
        """A table has been read."""
        with self._lock:
            if not self._is_too_much:
                self._whole[name] = rows

    def note_some(self, name: str, rows: Mapping[bytes, bytes | None]) -> None:
        """Some rows of a table have been read. None: there is none of that key."""
        with self._lock:
            if not self._is_too_much:
                self._single.setdefault(name, {}).update(rows)

    def tick(self, now_ns: int) -> None:
        """Everything that was read since the last time belongs to this tick."""
        with self._lock:
            whole, self._whole = self._whole, {}
            single, self._single = self._single, {}
            is_too_much, self._is_too_much = self._is_too_much, False
        if self.is_paused:
            self.is_paused = now_ns < self._paused_until_ns
            return
        if is_too_much:
            self._pause(now_ns)
            return
        now = self._known | whole
        for name, rows in single.items():
            # An array has a row at every place; those that nobody holds are left out.
            held = {key: value for key, value in rows.items() if value is not None and value.strip(b"\0")}
            now[name] = {key: row for key, row in now.get(name, {}).items() if key not in rows} | held
        moved = difference(self._known, now)
        self._known = now
        is_whole = not self._segments or now_ns - self._segment_began_ns >= SEGMENT_SECONDS * NANOSECONDS
        if _row_bytes(now if is_whole else moved) > (MAX_WHOLE_BYTES if is_whole else MAX_TICK_BYTES):
            self._pause(now_ns)
            return
        tick = Tick(now_ns, difference({}, now) if is_whole else moved, is_whole)
        packed = zlib.compress(tick.encoded(), _LEVEL)
        with self._lock:
            if is_whole:
                self._segments.append([])
                self._segment_began_ns = now_ns
            self._segments[-1].append(packed)
            self._make_room()

    def ticks(self) -> list[bytes]:
        """Ticks, encoded and compressed, oldest first."""
        with self._lock:
            return [tick for segment in self._segments for tick in segment]

    def _pause(self, now_ns: int) -> None:
        with self._lock:
            self._segments.clear()
        self._known = {}
        self.is_paused, self._paused_until_ns = True, now_ns + KEPT_SECONDS * NANOSECONDS

    def _make_room(self) -> None:
        most = KEPT_SECONDS // SEGMENT_SECONDS + 1
        while len(self._segments) > most or (len(self._segments) > 1 and sum(map(len, self.ticks())) > MAX_BYTES):
            self._segments.popleft()


def _row_bytes(tables: Moved) -> int:
    return sum(len(value or b"") for rows in tables.values() for value in rows.values())
