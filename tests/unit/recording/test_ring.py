"""flight: the last minute of what ticks have read."""

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
    """A recorder before two maps and an iterator."""

    def __init__(self) -> None:
        self.blame, self.cadence, self.operations, self.feeding = FakeMap(), FakeMap(), FakeMap(), FakeMap()
        self.threads = b""
        self.flight = RowRing()
        maps = {
            "blame": self.blame,
            "cadence": self.cadence,
            "operations": self.operations,
            "feeding": self.feeding,
        }
        self.tapped = self.flight.wrap_maps(maps)
        self.iterate = self.flight.wrap_iterator(lambda _program: self.threads)
        self.second = 0

    def tick(self, seconds: int = 1) -> None:
        """After so long; blame has been read."""
        list(self.tapped["blame"].items())
        self.second += seconds
        self.flight.tick(self.second * NANOSECONDS)

    def ticks(self) -> list[Tick]:
        """As they are kept."""
        return [Tick.decoded(zlib.decompress(packed)) for packed in self.flight.ticks()]

    def replayed(self, name: str) -> list[dict[bytes, bytes]]:
        """A table at each tick."""
        replay = RowReplay(self.ticks())
        return [dict(replay.maps[name].items()) for _ in replay.ticks()]


class TestReadings:
    """Of a tick."""

    def test_rows_are_as_they_were_read(self) -> None:
        """At one tick after the other; what comes and goes between two readings is nobody's."""
        bench = Bench()
        bench.blame.rows = {A: b"\x01"}
        bench.tick()
        bench.blame.rows = {A: b"\x02", B: b"\x01"}
        bench.tick()
        bench.blame.rows = {B: b"\x01"}
        bench.tick()

        assert bench.replayed("blame") == [{A: b"\x01"}, {A: b"\x02", B: b"\x01"}, {B: b"\x01"}]

    def test_table_that_is_not_read_stays_as_it_was(self) -> None:
        """As its reader knows it."""
        bench = Bench()
        bench.blame.rows = {A: b"\x01"}
        bench.tick()
        bench.blame.rows = {A: b"\x09"}
        bench.flight.tick(2 * NANOSECONDS)

        assert bench.replayed("blame") == [{A: b"\x01"}, {A: b"\x01"}]

    def test_single_rows_join_those_that_are_known(self) -> None:
        """And go when they are not there any more, or are empty places of an array."""
        bench = Bench()
        bench.cadence.rows = {A: b"\x01", B: b"\x02"}
        for key in (A, B):
            bench.tapped["cadence"].get(key)
        bench.tick()
        bench.cadence.rows = {A: b"\x00"}
        bench.tapped["cadence"].get(A)
        bench.tick()
        bench.tapped["cadence"].get(B)
        bench.tick()

        assert bench.replayed("cadence") == [{A: b"\x01", B: b"\x02"}, {B: b"\x02"}, {}]

    def test_reader_of_an_array_may_stop(self) -> None:
        """Places that he did not come to are as they were, and none is read ahead of him."""
        bench = Bench()
        bench.feeding.rows = {A: b"\x01", B: b"\x02"}
        list(bench.tapped["feeding"].items())
        bench.tick()
        bench.feeding.rows = {A: b"\x03", B: b"\x04"}
        next(bench.tapped["feeding"].items())
        bench.tick()

        assert bench.replayed("feeding") == [{A: b"\x01", B: b"\x02"}, {A: b"\x03", B: b"\x02"}]

    def test_reader_gets_what_is_there(self) -> None:
        """Listening changes nothing."""
        bench = Bench()
        bench.blame.rows = {A: b"\x01"}
        bench.threads = b"threads"
        bench.tapped["blame"].put(B, b"\x02")
        bench.tapped["blame"].delete(A)

        assert list(bench.tapped["blame"].items()) == [(B, b"\x02")]
        assert bench.tapped["blame"].get(A) is None
        assert bench.iterate(THREADS_READ) == b"threads"
        assert bench.tapped["blame"].capacity == bench.blame.capacity

    def test_histograms_are_left_out(self) -> None:
        """A publication goes through all operations, and is no tick."""
        bench = Bench()
        bench.operations.rows = {A: bytes(5000)}
        list(bench.tapped["operations"].items())
        bench.tick()

        assert bench.replayed("operations") == [{}]


class TestRoom:
    """A minute, and not more bytes than that."""

    def test_last_minute_is_kept(self) -> None:
        """And at most a segment more, for it begins with all rows."""
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
        """What moves is random, so that nothing is saved by compressing it."""
        bench, noise = Bench(), random.Random(1)
        for _ in range(KEPT_SECONDS):
            bench.blame.rows = {A: noise.randbytes(MAX_TICK_BYTES - 1)}
            bench.tick()

        assert sum(map(len, bench.flight.ticks())) <= MAX_BYTES + SEGMENT_SECONDS * MAX_TICK_BYTES

    @pytest.mark.parametrize("size_bytes", [MAX_TICK_BYTES + 1, MAX_WHOLE_BYTES + 1])
    def test_node_on_which_too_much_moves_is_not_recorded(self, size_bytes: int) -> None:
        """For a minute; then it is tried again."""
        bench = Bench()
        bench.tick()
        bench.blame.rows = {A: bytes(size_bytes)}
        bench.tick()
        bench.blame.rows = {A: b"\x01"}
        bench.tick(KEPT_SECONDS - 1)
        bench.tick()
        meanwhile = bench.flight.ticks()
        bench.tick()

        assert meanwhile == []
        assert bench.replayed("blame") == [{A: b"\x01"}]

    def test_node_that_has_too_much_from_the_start_is_not_recorded(self) -> None:
        """Nothing has moved yet, and all of it would be kept."""
        bench = Bench()
        bench.blame.rows = {A: bytes(MAX_WHOLE_BYTES + 1)}
        bench.tick()

        assert bench.flight.ticks() == []

    def test_reader_gets_all_of_a_table_that_is_too_large_to_be_kept(self) -> None:
        """In memory it is not even held until the tick."""
        bench = Bench()
        bench.blame.rows = {A: bytes(MAX_WHOLE_BYTES), B: b"\x01"}

        assert dict(bench.tapped["blame"].items()) == bench.blame.rows
        bench.tick()
        assert bench.flight.is_paused
