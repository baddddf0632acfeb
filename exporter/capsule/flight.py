"""What did the kernel's tables say in the last minute? Kept in memory, compressed, in case somebody asks.

In: every table as it is read for a tick. Out: the ticks of the last minute, of which the first one has all rows.
"""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Iterator, Mapping

from exporter.capsule.tape import MAPS, THREADS, Rows, Tick, difference, thread_rows, without_slots
from exporter.kernel.maps import MapReader
from exporter.kernel.thread_rows import THREADS_READ, Iterate
from exporter.units import NANOSECONDS

KEPT_SECONDS = 60
SEGMENT_SECONDS = 15
"""A segment begins with all rows, so that those before it can be thrown away."""
MAX_BYTES = 6 << 20
"""Compressed; of more, the oldest segments are thrown away sooner."""
MAX_TICK_BYTES = 512 << 10
"""That moved between two ticks: on a node where more does, keeping them would cost too much of a tick."""
_LEVEL = 1  # of zlib: what is compressed is zeros for the most part

_READ_WHOLE = tuple(name for name in MAPS if name not in ("operations", "intervals"))
"""Ticks read these; of operations only single rows, and intervals are for publications."""


class _Tap:
    """A MapReader whose reader is listened to."""

    def __init__(self, table: MapReader, name: str, flight: FlightRecorder) -> None:
        self._table = table
        self._name = name
        self._flight = flight

    @property
    def capacity(self) -> int:
        """max_entries."""
        return self._table.capacity

    def items(self) -> Iterator[tuple[bytes, bytes]]:
        """Every entry once."""
        if self._name not in _READ_WHOLE:
            return self._table.items()
        rows = list(self._table.items())
        self._flight.note_all(self._name, dict(rows))
        return iter(rows)

    def get(self, key: bytes) -> bytes | None:
        """The value of one key."""
        value = self._table.get(key)
        self._flight.note(self._name, key, value)
        return value

    def put(self, key: bytes, value: bytes) -> None:
        """Insert or replace."""
        self._table.put(key, value)

    def delete(self, key: bytes) -> None:
        """Remove one key."""
        self._table.delete(key)


class FlightRecorder:
    """Owns the last minute. Readings may come from any thread; tick() and taken() belong to the loop."""

    def __init__(self) -> None:
        self._whole: dict[str, Rows] = {}  # read since the last tick, whole
        self._single: dict[str, dict[bytes, bytes | None]] = {}  # and row by row
        self._known: dict[str, Rows] = {}  # as of the last tick
        self._segments: deque[list[bytes]] = deque()
        self._segment_began_ns = 0
        self.is_overrun = False  # more moved than can be kept

    def tapped(self, maps: Mapping[str, MapReader]) -> dict[str, MapReader]:
        """The same maps, whose readings become ticks."""
        return {name: _Tap(table, name, self) if name in MAPS else table for name, table in maps.items()}

    def tapped_iterator(self, iterate: Iterate) -> Iterate:
        """The same of the iterator over threads."""

        def iterate_and_note(program: str) -> bytes:
            told = iterate(program)
            if program == THREADS_READ:
                self.note_all(THREADS, thread_rows(told))
            return told

        return iterate_and_note

    def note_all(self, name: str, rows: Rows) -> None:
        """A table has been read."""
        self._whole[name] = rows

    def note(self, name: str, key: bytes, value: bytes | None) -> None:
        """A row has been read."""
        self._single.setdefault(name, {})[key] = None if value is None else without_slots(name, value)

    def tick(self, now_ns: int) -> None:
        """Everything that was read since the last time belongs to this tick."""
        whole, self._whole = self._whole, {}
        single, self._single = self._single, {}
        now = self._known | whole
        for name, rows in single.items():
            # An array has a row at every place; those that nobody holds are left out.
            held = {key: value for key, value in rows.items() if value is not None and any(value)}
            now[name] = {key: row for key, row in now.get(name, {}).items() if key not in rows} | held
        moved = difference(self._known, now)
        self._known = now
        moved_bytes = sum(len(value or b"") for rows in moved.values() for value in rows.values())
        self.is_overrun = moved_bytes > MAX_TICK_BYTES and bool(self._segments)
        if self.is_overrun:
            self._segments.clear()
            return
        is_whole = not self._segments or now_ns - self._segment_began_ns >= SEGMENT_SECONDS * NANOSECONDS
        if is_whole:
            self._segments.append([])
            self._segment_began_ns = now_ns
        tick = Tick(now_ns, difference({}, now) if is_whole else moved, is_whole)
        self._segments[-1].append(zlib.compress(tick.encoded(), _LEVEL))
        self._make_room()

    def taken(self) -> list[bytes]:
        """Ticks, encoded and compressed, oldest first."""
        return [tick for segment in self._segments for tick in segment]

    def _make_room(self) -> None:
        most = KEPT_SECONDS // SEGMENT_SECONDS + 1
        while len(self._segments) > most or (len(self._segments) > 1 and sum(map(len, self.taken())) > MAX_BYTES):
            self._segments.popleft()
