"""progress_rows: progress of NCCL operations."""

from __future__ import annotations

import struct

from exporter.kernel.progress_rows import ProgressKey, ProgressRow, forget_arrivals, read_progress
from exporter.kernel.tables import Tables
from tests.support.tables import FakeMap, FakeTables


class TestReading:
    def test_row_has_the_layout_of_the_header(self) -> None:
        """Byte by byte: counts, times, collectives, lag, late arrivals."""
        kernel = FakeTables()
        kernel.maps["progress"].rows[struct.pack("<II", 7, 2)] = struct.pack("<7Q", 23, 22, 470, 471, 21, 50, 3)

        assert read_progress(kernel.maps["progress"]) == {ProgressKey(7, 2): ProgressRow(23, 22, 470, 471, 21, 50, 3)}

    def test_missing_map_has_no_rows(self) -> None:
        """The collector nccl is off."""
        assert read_progress(None) == {}

    def test_entries_are_counted(self) -> None:
        kernel = FakeTables()
        tables = Tables(kernel.maps)
        kernel.progress(1, communicator=1)
        kernel.progress(1, communicator=2)
        tables.read()

        assert tables.entries["progress"] == 2


class TestForgetting:
    """Processes that have ended."""

    def test_rows_of_ended_processes_are_deleted_and_others_stay(self) -> None:
        """Progress, and their streams and events."""
        kernel = FakeTables()
        tables = Tables(kernel.maps)
        for process in (1, 2):
            kernel.progress(process, enqueued=23)
            kernel.frontier(process, address=0xE0)
        tables.forget({1}, tables.read())

        assert list(tables.read().progress) == [ProgressKey(2, 1)]
        assert len(kernel.maps["frontiers"].rows) == 1

    def test_arrivals_that_an_ended_rank_began_are_deleted(self) -> None:
        """Not those that another rank began, which lives on: hash 7 was begun by process 1, hash 8 by process 2."""
        arrivals = FakeMap()
        for number, begun_by in ((7, 1), (8, 2)):
            arrivals.rows[struct.pack("<Q", number)] = struct.pack("<II", begun_by, 0)
        forget_arrivals(arrivals, {1}, [7, 8, 9])

        assert list(arrivals.rows) == [struct.pack("<Q", 8)]

    def test_streams_and_events_are_not_read_for_a_process_without_collectives(self) -> None:
        """Other processes may have tens of thousands."""
        kernel = FakeTables()
        tables = Tables(kernel.maps)
        kernel.process(1)
        kernel.progress(2, enqueued=1)
        tables.forget({1}, tables.read())

        assert kernel.maps["frontiers"].times_read == 0

    def test_missing_maps_are_no_error(self) -> None:
        """Their programs are not loaded."""
        kernel = FakeTables()
        kernel.progress(1)
        tables = Tables(kernel.maps)
        reading = tables.read()
        del kernel.maps["frontiers"]
        tables.forget({1}, reading)

        assert kernel.maps["progress"].rows == {}
