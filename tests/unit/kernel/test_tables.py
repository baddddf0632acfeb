"""tables: all maps, read together and pruned together."""

from __future__ import annotations

from exporter.kernel.abi import DropProgram, DropReason
from exporter.kernel.tables import TABLES, Tables
from tests.support.tables import FakeTables


class TestReading:
    def test_empty_maps_are_an_empty_reading(self, tables: Tables) -> None:
        """Before the first call of any process."""
        reading = tables.read()

        assert (reading.processes, reading.operations, reading.errors, reading.communicators) == ({}, {}, {}, {})

    def test_drops_are_by_program_and_reason(self, kernel: FakeTables, tables: Tables) -> None:
        """The index is program * reasons + reason."""
        kernel.dropped(DropProgram.NCCL, DropReason.READ_FAULT, 4)

        assert tables.drops() == {(DropProgram.NCCL, DropReason.READ_FAULT): 4}

    def test_entries_and_capacities_are_known(self, kernel: FakeTables, tables: Tables) -> None:
        """Entries of the maps that were read, capacities of all in TABLES."""
        kernel.process(1, live_allocations=7)
        kernel.call(1, "cudaMalloc", untimed=1)
        kernel.error(1, "cudaMalloc", code=2)
        tables.read()

        found = tables.entries

        counts = {"processes": 1, "operations": 1, "errors": 1, "communicators": 0, "allocations": 7, "progress": 0}
        assert found == counts
        assert tables.capacities() == dict.fromkeys(TABLES, 64)


class TestForgetting:
    """Processes that have ended."""

    def test_every_row_of_the_process_is_deleted_and_no_other(self, kernel: FakeTables, tables: Tables) -> None:
        """Process 2 keeps one row in each map."""
        for process in (1, 2):
            kernel.process(process, live_allocations=1)
            kernel.call(process, "cudaMalloc", durations_ns=[2])
            kernel.call(process, "ncclAllReduce", durations_ns=[2], communicator=1)
            kernel.error(process, "cudaMalloc", code=2)
            kernel.communicator(process)
            kernel.allocation(process, address=4096, size_bytes=64)
        tables.forget({1}, tables.read())

        reading = tables.read()
        assert {key.process for key in reading.operations} == {2}
        assert {key.process for key in reading.errors} == {2}
        assert (set(reading.processes), set(reading.communicators)) == ({2}, {2})
        assert [key[:4] for key in kernel.maps["allocations"].rows] == [b"\x02\0\0\0"]

    def test_drops_stay(self, kernel: FakeTables, tables: Tables) -> None:
        """They belong to no process."""
        kernel.dropped(DropProgram.CUDA, DropReason.NESTING, 1)
        tables.forget({0, 1}, tables.read())

        assert tables.drops() == {(DropProgram.CUDA, DropReason.NESTING): 1}
