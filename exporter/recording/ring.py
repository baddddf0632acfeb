"""A ring of the rows of the last minute, compressed in memory.

In: every table as it is read for a tick. Out: the ticks of the last minute, the first of them with all rows.
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
    GPUS,
    MAPS,
    THREADS,
    Changes,
    Rows,
    Tick,
    difference,
    gpu_state_rows,
    thread_rows,
    without_histogram,
)
from exporter.units import NANOSECONDS

KEPT_SECONDS = 60
SEGMENT_SECONDS = 15
"""A segment begins with all rows, so that earlier segments can be dropped."""
MAX_BYTES = 6 << 20
"""Limit of compressed size: beyond it, the oldest segments are dropped sooner."""
MAX_TICK_BYTES = 512 << 10
MAX_WHOLE_BYTES = 2 << 20
"""Limits for the rows that changed between two ticks, and for all rows. Beyond them recording would slow down ticks: it pauses
for a minute."""
_ZLIB_LEVEL = 1  # most bytes are zeros

_NOT_RECORDED = ("operations", "intervals")
"""Scrapes iterate over these maps. Ticks read single rows of operations."""


class _RecordingMap:
    """A MapReader that records the rows that are read through it."""

    def __init__(self, table: MapReader, name: str, ring: RowRing) -> None:
        self._table = table
        self._name = name
        self._ring = ring

    @property
    def capacity(self) -> int:
        return self._table.capacity

    def items(self) -> Iterator[tuple[bytes, bytes]]:
        """Every entry once. A reader of an array may stop early: the other rows are taken as unchanged."""
        if self._name in _NOT_RECORDED or self._ring.is_paused:
            yield from self._table.items()
            return
        rows: dict[bytes, bytes] = {}
        left_bytes = MAX_WHOLE_BYTES
        is_whole = False
        try:
            for key, value in self._table.items():
                left_bytes -= len(value)
                if left_bytes >= 0:
                    rows[key] = value
                else:
                    rows.clear()
                yield key, value
            is_whole = self._name not in PLACED
        finally:
            if left_bytes < 0:
                self._ring.mark_too_large()
            elif is_whole:
                self._ring.record_table(self._name, rows)
            else:
                self._ring.record_rows(self._name, rows)

    def get(self, key: bytes) -> bytes | None:
        value = self._table.get(key)
        if self._ring.is_paused:
            return value
        self._ring.record_rows(self._name, {key: None if value is None else without_histogram(self._name, value)})
        return value

    def put(self, key: bytes, value: bytes) -> None:
        self._table.put(key, value)

    def delete(self, key: bytes) -> None:
        self._table.delete(key)


class RowRing:
    """record_…() and ticks() may be called from any thread, tick() from one."""

    def __init__(self) -> None:
        self._lock = threading.RLock()  # for everything below
        self._tables_read: dict[str, Rows] = {}  # whole tables, since the last tick
        self._rows_read: dict[str, dict[bytes, bytes | None]] = {}  # single rows, since the last tick
        self._last_tables: dict[str, Rows] = {}  # as of the last tick
        self._segments: deque[list[bytes]] = deque()
        self._segment_began_ns = 0
        self.is_paused = False  # because of too many rows
        self._is_too_large = False  # since the last tick
        self._paused_until_ns = 0

    def wrap_maps(self, maps: Mapping[str, MapReader]) -> dict[str, MapReader]:
        """The same maps; rows read through them are recorded."""
        return {name: _RecordingMap(table, name, self) if name in MAPS else table for name, table in maps.items()}

    def wrap_iterator(self, iterate: Iterate) -> Iterate:
        """The same for the iterator over threads."""

        def iterate_and_record(program: str) -> bytes:
            output = iterate(program)
            if program == THREADS_READ and not self.is_paused:
                self.record_table(THREADS, thread_rows(output))
            return output

        return iterate_and_record

    def wrap_gpus(self, states: Callable[[], Sequence[GpuState]]) -> Callable[[], Sequence[GpuState]]:
        """The same for states of GPUs."""

        def states_and_record() -> Sequence[GpuState]:
            found = states()
            if not self.is_paused:
                self.record_table(GPUS, gpu_state_rows(found))
            return found

        return states_and_record

    def mark_too_large(self) -> None:
        """One table alone is larger than the limit."""
        with self._lock:
            self._is_too_large = True
            self._tables_read.clear()
            self._rows_read.clear()

    def record_table(self, name: str, rows: Rows) -> None:
        """A whole table has been read."""
        with self._lock:
            if not self._is_too_large:
                self._tables_read[name] = rows

    def record_rows(self, name: str, rows: Mapping[bytes, bytes | None]) -> None:
        """Some rows of a table have been read. None: there is no row of that key."""
        with self._lock:
            if not self._is_too_large:
                self._rows_read.setdefault(name, {}).update(rows)

    def tick(self, now_ns: int) -> None:
        """Ends a tick: everything that was read since the last one belongs to it."""
        with self._lock:
            tables_read, self._tables_read = self._tables_read, {}
            rows_read, self._rows_read = self._rows_read, {}
            is_too_large, self._is_too_large = self._is_too_large, False
        if self.is_paused:
            self.is_paused = now_ns < self._paused_until_ns
            return
        if is_too_large:
            self._pause(now_ns)
            return
        now = self._last_tables | tables_read
        for name, rows in rows_read.items():
            # An array has a row at every index: rows of zeros are unused.
            used = {key: value for key, value in rows.items() if value is not None and value.strip(b"\0")}
            now[name] = {key: row for key, row in now.get(name, {}).items() if key not in rows} | used
        changes = difference(self._last_tables, now)
        self._last_tables = now
        is_whole = not self._segments or now_ns - self._segment_began_ns >= SEGMENT_SECONDS * NANOSECONDS
        if _row_bytes(now if is_whole else changes) > (MAX_WHOLE_BYTES if is_whole else MAX_TICK_BYTES):
            self._pause(now_ns)
            return
        tick = Tick(now_ns, difference({}, now) if is_whole else changes, is_whole)
        compressed = zlib.compress(tick.encoded(), _ZLIB_LEVEL)
        with self._lock:
            if is_whole:
                self._segments.append([])
                self._segment_began_ns = now_ns
            self._segments[-1].append(compressed)
            self._make_room()

    def ticks(self) -> list[bytes]:
        """Encoded and compressed, oldest first."""
        with self._lock:
            return [tick for segment in self._segments for tick in segment]

    def _pause(self, now_ns: int) -> None:
        with self._lock:
            self._segments.clear()
        self._last_tables = {}
        self.is_paused, self._paused_until_ns = True, now_ns + KEPT_SECONDS * NANOSECONDS

    def _make_room(self) -> None:
        most = KEPT_SECONDS // SEGMENT_SECONDS + 1
        while len(self._segments) > most or (len(self._segments) > 1 and sum(map(len, self.ticks())) > MAX_BYTES):
            self._segments.popleft()


def _row_bytes(tables: Changes) -> int:
    return sum(len(value or b"") for rows in tables.values() for value in rows.values())
