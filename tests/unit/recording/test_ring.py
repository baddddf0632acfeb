"""ring: the rows that ticks have read in the last minute."""

from __future__ import annotations

import random
import zlib

import pytest

from exporter.kernel.thread_rows import THREADS_READ
from exporter.recording.codec import RowReplay, Tick
from exporter.recording.ring import (
    KEPT_SECONDS,
    MAX_BYTES,
    MAX_TICK_BYTES,
    MAX_WHOLE_BYTES,
    SEGMENT_SECONDS,
    RowRing,
)
from exporter.units import NANOSECONDS
from tests.support.tables import FakeMap

A, B = b"\0\0\0\1", b"\0\0\0\2"


class Bench:
    """A ring that records four maps and an iterator."""

    def __init__(self) -> None:
        self.blame, self.cadence, self.operations, self.feeding = FakeMap(), FakeMap(), FakeMap(), FakeMap()
        self.threads = b""
        self.ring = RowRing()
        maps = {
            "blame": self.blame,
            "cadence": self.cadence,
            "operations": self.operations,
            "feeding": self.feeding,
        }
        self.maps = self.ring.wrap_maps(maps)
        self.iterate = self.ring.wrap_iterator(lambda _program: self.threads)
        self.second = 0

    def tick(self, seconds: int = 1) -> None:
        """Reads blame, and ends a tick after so many seconds."""
        list(self.maps["blame"].items())
        self.second += seconds
        self.ring.tick(self.second * NANOSECONDS)

    def ticks(self) -> list[Tick]:
        """Decoded."""
        return [Tick.decoded(zlib.decompress(compressed)) for compressed in self.ring.ticks()]

    def replayed(self, name: str) -> list[dict[bytes, bytes]]:
        """Rows of a table at each tick."""
        replay = RowReplay(self.ticks())
        return [dict(replay.maps[name].items()) for _ in replay.ticks()]


class TestReadings:
    def test_rows_are_as_they_were_read(self) -> None:
        """Rows that come and go between two readings are not recorded."""
        bench = Bench()
        bench.blame.rows = {A: b"\x01"}
        bench.tick()
        bench.blame.rows = {A: b"\x02", B: b"\x01"}
        bench.tick()
        bench.blame.rows = {B: b"\x01"}
        bench.tick()

        assert bench.replayed("blame") == [{A: b"\x01"}, {A: b"\x02", B: b"\x01"}, {B: b"\x01"}]

    def test_table_that_is_not_read_stays_as_it_was(self) -> None:
        bench = Bench()
        bench.blame.rows = {A: b"\x01"}
        bench.tick()
        bench.blame.rows = {A: b"\x09"}
        bench.ring.tick(2 * NANOSECONDS)

        assert bench.replayed("blame") == [{A: b"\x01"}, {A: b"\x01"}]

    def test_single_rows_are_added_to_those_that_are_known(self) -> None:
        """Deleted rows and rows of zeros are removed."""
        bench = Bench()
        bench.cadence.rows = {A: b"\x01", B: b"\x02"}
        for key in (A, B):
            bench.maps["cadence"].get(key)
        bench.tick()
        bench.cadence.rows = {A: b"\x00"}
        bench.maps["cadence"].get(A)
        bench.tick()
        bench.maps["cadence"].get(B)
        bench.tick()

        assert bench.replayed("cadence") == [{A: b"\x01", B: b"\x02"}, {B: b"\x02"}, {}]

    def test_reader_of_an_array_may_stop_early(self) -> None:
        """The other rows are unchanged, and are not read."""
        bench = Bench()
        bench.feeding.rows = {A: b"\x01", B: b"\x02"}
        list(bench.maps["feeding"].items())
        bench.tick()
        bench.feeding.rows = {A: b"\x03", B: b"\x04"}
        next(bench.maps["feeding"].items())
        bench.tick()

        assert bench.replayed("feeding") == [{A: b"\x01", B: b"\x02"}, {A: b"\x03", B: b"\x02"}]

    def test_recording_does_not_change_what_a_reader_gets(self) -> None:
        bench = Bench()
        bench.blame.rows = {A: b"\x01"}
        bench.threads = b"threads"
        bench.maps["blame"].put(B, b"\x02")
        bench.maps["blame"].delete(A)

        assert list(bench.maps["blame"].items()) == [(B, b"\x02")]
        assert bench.maps["blame"].get(A) is None
        assert bench.iterate(THREADS_READ) == b"threads"
        assert bench.maps["blame"].capacity == bench.blame.capacity

    def test_histograms_are_left_out(self) -> None:
        """A scrape iterates over all operations; it is no tick."""
        bench = Bench()
        bench.operations.rows = {A: bytes(5000)}
        list(bench.maps["operations"].items())
        bench.tick()

        assert bench.replayed("operations") == [{}]


class TestLimits:
    def test_last_minute_is_kept(self) -> None:
        """And at most one segment more, since a segment begins with all rows."""
        bench = Bench()
        bench.blame.rows = {A: b"\x01"}
        for number in range(1, 301):
            bench.blame.rows = {A: bytes([number % 250 + 1])}
            bench.tick()
        ticks = bench.ticks()

        assert ticks[0].is_whole
        assert KEPT_SECONDS <= len(ticks) <= KEPT_SECONDS + SEGMENT_SECONDS
        assert bench.replayed("blame")[-1] == {A: bytes([300 % 250 + 1])}

    def test_bytes_are_bounded(self) -> None:
        """Random bytes do not compress."""
        bench, noise = Bench(), random.Random(1)
        for _ in range(KEPT_SECONDS):
            bench.blame.rows = {A: noise.randbytes(MAX_TICK_BYTES - 1)}
            bench.tick()

        assert sum(map(len, bench.ring.ticks())) <= MAX_BYTES + SEGMENT_SECONDS * MAX_TICK_BYTES

    @pytest.mark.parametrize("size_bytes", [MAX_TICK_BYTES + 1, MAX_WHOLE_BYTES + 1])
    def test_too_many_changes_pause_the_recording_for_a_minute(self, size_bytes: int) -> None:
        bench = Bench()
        bench.tick()
        bench.blame.rows = {A: bytes(size_bytes)}
        bench.tick()
        bench.blame.rows = {A: b"\x01"}
        bench.tick(KEPT_SECONDS - 1)
        bench.tick()
        paused = bench.ring.ticks()
        bench.tick()

        assert paused == []
        assert bench.replayed("blame") == [{A: b"\x01"}]

    def test_too_many_rows_at_the_start_are_not_recorded(self) -> None:
        """Nothing has changed yet, but all rows would be kept."""
        bench = Bench()
        bench.blame.rows = {A: bytes(MAX_WHOLE_BYTES + 1)}
        bench.tick()

        assert bench.ring.ticks() == []

    def test_reader_gets_all_rows_of_a_table_that_is_too_large(self) -> None:
        """They are not kept in memory until the tick ends."""
        bench = Bench()
        bench.blame.rows = {A: bytes(MAX_WHOLE_BYTES), B: b"\x01"}

        assert dict(bench.maps["blame"].items()) == bench.blame.rows
        bench.tick()
        assert bench.ring.is_paused
