"""cadence_rows: the ring of the last beats in order, without a half-written beat, and with a flag for overwritten ones."""

from __future__ import annotations

import struct

from exporter.kernel import abi
from exporter.kernel.cadence_rows import Beat, CadenceRow, read_cadence
from tests.support.tables import FakeTables


def row(beats: list[tuple[int, int]], before: int = 0) -> CadenceRow:
    """The row of process 1."""
    kernel = FakeTables()
    kernel.beats(1, beats, before=before)
    return read_cadence(kernel.maps["cadence"], [1])[1]


class TestReading:
    def test_row_is_a_count_and_a_ring(self) -> None:
        """128 places of two numbers each."""
        kernel = FakeTables()
        kernel.maps["cadence"].rows[struct.pack("<I", 1)] = struct.pack("<257Q", 1, 47, 11, *[0] * 254)

        assert read_cadence(kernel.maps["cadence"], [1, 2])[1].since(0) == ([Beat(47, 11, 0)], True)

    def test_process_without_beats_has_no_row(self) -> None:
        """Neither has any process if the programs are not loaded."""
        assert read_cadence(FakeTables().maps["cadence"], [1]) == {}
        assert read_cadence(None, [1]) == {}


class TestSince:
    def test_only_new_beats_are_returned(self) -> None:
        """In order."""
        assert row([(10, 1), (20, 2), (30, 3)]).since(1) == ([Beat(20, 2, 1), Beat(30, 3, 2)], True)

    def test_ring_wraps_around(self) -> None:
        """Beats 127, 128 and 129 are at the end and at the beginning."""
        assert row([(10, 1), (20, 2), (30, 3)], before=127).since(128) == ([Beat(20, 2, 128), Beat(30, 3, 129)], True)

    def test_overwritten_beats_are_missing(self) -> None:
        """The first two of 130 beats."""
        beats = [(10 * number + 10, number) for number in range(abi.BEATS + 2)]
        found, is_whole = row(beats).since(0)

        assert (found[0], len(found), is_whole) == (Beat(30, 2, 2), abi.BEATS, False)

    def test_half_written_beat_is_left_for_the_next_reading(self) -> None:
        """It is counted, but its place still holds the beat of one round ago, or nothing in the first round."""
        beats = [(10 * number + 10, number) for number in range(abi.BEATS)]
        old = row(beats)

        assert CadenceRow(abi.BEATS + 1, old.last).since(abi.BEATS) == ([], True)
        assert CadenceRow(3, row([(10, 1), (20, 2)]).last).since(1) == ([Beat(20, 2, 1)], True)
