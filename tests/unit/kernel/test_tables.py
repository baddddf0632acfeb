"""tables: all of them, read together and forgotten together."""

from __future__ import annotations

from exporter.kernel.abi import LossProgram, LossReason
from exporter.kernel.tables import TABLES, Tables
from tests.support.tables import FakeTables


class TestReading:
    """What is there."""

    def test_empty_tables_are_an_empty_reading(self, tables: Tables) -> None:
        """Before the first call of any process."""
        reading = tables.read()

        assert (reading.processes, reading.operations, reading.errors, reading.communicators) == ({}, {}, {}, {})

    def test_losses_are_by_program_and_reason(self, kernel: FakeTables, tables: Tables) -> None:
        """The array's index is program times reasons plus reason."""
        kernel.loss(LossProgram.NCCL, LossReason.READ_FAULT, 4)

        assert tables.losses() == {(LossProgram.NCCL, LossReason.READ_FAULT): 4}

    def test_entries_and_capacities_are_known(self, kernel: FakeTables, tables: Tables) -> None:
        """Entries of what was read, capacities of every table worth watching."""
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
        """Process 2 keeps one row in each table."""
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

    def test_losses_stay(self, kernel: FakeTables, tables: Tables) -> None:
        """They belong to no process."""
        kernel.loss(LossProgram.CUDA, LossReason.NESTING, 1)
        tables.forget({0, 1}, tables.read())

        assert tables.losses() == {(LossProgram.CUDA, LossReason.NESTING): 1}
