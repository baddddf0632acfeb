"""rows: bytes of kernel tables to named numbers."""

from __future__ import annotations

import struct

import pytest

from exporter.kernel.abi import Copy, EventKind, LossProgram, LossReason
from exporter.kernel.operations import NUMBERS
from exporter.kernel.progress_rows import ProgressKey
from exporter.kernel.rows import (
    TABLES,
    CommunicatorRow,
    ErrorKey,
    Event,
    OperationKey,
    ProcessRow,
    Tables,
    event_of,
)
from exporter.totals import Call
from tests.support.tables import NCCL_WAIT, FakeTables

MALLOC, ALL_REDUCE = NUMBERS["cudaMalloc"], NUMBERS["ncclAllReduce"]
MALLOC_OF_1 = OperationKey(1, MALLOC, 0)


@pytest.fixture
def kernel() -> FakeTables:
    """Empty tables."""
    return FakeTables()


@pytest.fixture
def tables(kernel: FakeTables) -> Tables:
    """What reads them."""
    return Tables(kernel.maps)


class TestReading:
    """Each table."""

    def test_empty_tables_are_an_empty_reading(self, tables: Tables) -> None:
        """Before the first call of any process."""
        reading = tables.read()

        assert (reading.processes, reading.operations, reading.errors, reading.communicators) == ({}, {}, {}, {})

    def test_process_row_is_laid_out_as_in_the_header(self, kernel: FakeTables, tables: Tables) -> None:
        """Written out byte by byte: tgid, communicators, start, cgroup, six directions, ten totals, comm."""
        kernel.maps["processes"].rows[b"\x07\0\0\0"] = struct.pack(
            "<IIQQ6Q10Q16s", 4026, 2, 47, 99, *range(10, 16), 1000, 400, 3, 9, 700, 200, 64, 5, 4096, 88, b"python3"
        )

        assert tables.read_processes() == {
            7: ProcessRow(
                4026, 47, 99, (10, 11, 12, 13, 14, 15), 1000, 400, 3, 9, 700, 200, 64, 5, 4096, 88, b"python3"
            )
        }

    def test_copied_bytes_are_indexed_by_direction(self, kernel: FakeTables, tables: Tables) -> None:
        """cudaMemcpyKind, and peers last."""
        kernel.process(1, copied_bytes={Copy.DEVICE_TO_HOST: 64, Copy.PEER: 8})

        assert tables.read_processes()[1].copied_bytes == (0, 0, 64, 0, 0, 8)

    def test_comm_of_16_bytes_has_no_end_mark(self, kernel: FakeTables, tables: Tables) -> None:
        """All of it counts."""
        kernel.process(1, comm=b"0123456789abcdef")

        assert tables.read_processes()[1].comm == b"0123456789abcdef"

    def test_operation_has_sums_and_slots(self, kernel: FakeTables, tables: Tables) -> None:
        """Two calls of 2 ns in slot 8, 100 bytes."""
        kernel.call(1, "ncclAllReduce", durations_ns=[2, 2], moved_bytes=100, communicator=3)
        row = tables.read().operations[OperationKey(1, ALL_REDUCE, 3)]

        assert (row.calls, row.total_ns, row.bytes, row.slots[8], len(row.slots)) == (2, 4, 100, 2, 338)

    def test_calls_are_the_timed_and_the_untimed_ones(self, kernel: FakeTables, tables: Tables) -> None:
        """A driver call may be made by the program and by the runtime."""
        kernel.call(1, "cuMemAlloc", durations_ns=[2, 3], untimed=5)
        row = tables.read().operations[OperationKey(1, NUMBERS["cuMemAlloc"], 0)]

        assert (row.untimed, row.timed, row.calls) == (5, 2, 7)

    def test_operation_never_timed_has_no_slots(self, kernel: FakeTables, tables: Tables) -> None:
        """Driver calls made by the runtime are counted only; no histogram of zeros is exported for them."""
        kernel.call(1, "cuMemAlloc", untimed=5)
        row = tables.read().operations[OperationKey(1, NUMBERS["cuMemAlloc"], 0)]

        assert (row.calls, row.timed) == (5, 0)

    def test_errors_are_keyed_by_code_which_may_be_negative(self, kernel: FakeTables, tables: Tables) -> None:
        """A function that returns something else than an error code."""
        kernel.error(1, "cudaMalloc", code=2, count=3)
        kernel.error(1, "cudaMalloc", code=-1)

        assert tables.read().errors == {ErrorKey(1, MALLOC, 2): 3, ErrorKey(1, MALLOC, -1): 1}

    def test_communicators_are_in_the_order_of_their_making(self, kernel: FakeTables, tables: Tables) -> None:
        """By process; the map knows no order."""
        kernel.communicator(1, address=0xB0, digest=2, created_ns=20, rank=1, ranks=2, ordinal=2)
        kernel.communicator(1, address=0xA0, digest=1, created_ns=10, rank=5, ranks=8, ordinal=1)
        kernel.communicator(2, address=0xA0, digest=0, created_ns=15, rank=-1, ranks=0, ordinal=1)

        assert tables.read_communicators() == {
            1: [CommunicatorRow(1, 10, 5, 8, 1), CommunicatorRow(2, 20, 1, 2, 2)],
            2: [CommunicatorRow(0, 15, -1, 0, 1)],
        }

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


class TestNcclWaits:
    """Rows of `operations` that count calls a second time."""

    def test_they_are_kept_apart_from_the_calls(self, kernel: FakeTables, tables: Tables) -> None:
        """Their number is no place in the list of operations."""
        kernel.call(1, "cudaMalloc", durations_ns=[2])
        kernel.call(1, NCCL_WAIT, durations_ns=[2, 3], communicator=4)
        reading = tables.read()

        assert list(reading.operations) == list(tables.read_accounts([]).operations) == [MALLOC_OF_1]
        assert {key: row.calls for key, row in reading.nccl_waits.items()} == {ProgressKey(1, 4): 2}
        assert tables.entries["operations"] == 2

    def test_a_row_that_has_not_moved_is_the_same_object(self, kernel: FakeTables, tables: Tables) -> None:
        """Its slots have been unpacked already."""
        kernel.call(1, NCCL_WAIT, durations_ns=[2])
        before = tables.read().nccl_waits[1, 0]

        assert tables.read().nccl_waits[1, 0] is before
        kernel.call(1, NCCL_WAIT, durations_ns=[2])
        assert tables.read().nccl_waits[1, 0].calls == 2

    def test_they_are_forgotten_with_their_process(self, kernel: FakeTables, tables: Tables) -> None:
        """And those of others stay."""
        for process in (1, 2):
            kernel.call(process, NCCL_WAIT, durations_ns=[2], communicator=1)
        tables.forget({1}, tables.read())

        assert list(tables.read().nccl_waits) == [ProgressKey(2, 1)]


class TestReadingOfAFew:
    """The last totals of processes that have ended."""

    def test_it_has_every_operation_of_theirs_and_no_other(self, kernel: FakeTables, tables: Tables) -> None:
        """Those on communicators that are gone as well, and what they waited for collectives."""
        for process in (1, 2):
            kernel.process(process, communicators=2)
            kernel.call(process, "cudaMalloc", durations_ns=[5])
            kernel.call(process, "cuMemAlloc", untimed=3)
            kernel.call(process, "ncclGroupEnd", durations_ns=[5])
            kernel.call(process, "ncclAllReduce", durations_ns=[5], communicator=1)
            kernel.call(process, "ncclCommDestroy", durations_ns=[5], communicator=2)
            kernel.call(process, NCCL_WAIT, durations_ns=[7], communicator=2)
        whole = tables.read()
        part = tables.read_of({1: whole.processes[1]})

        assert part.operations.keys() == {key for key in whole.operations if key.process == 1}
        assert len(part.operations) == 5
        assert part.nccl_waits.keys() == {ProgressKey(1, 2)}
        assert part.processes.keys() == {1}

    def test_more_communicators_than_have_a_number_share_one(self, kernel: FakeTables, tables: Tables) -> None:
        """The seventeenth."""
        kernel.process(1, communicators=400)
        kernel.call(1, "ncclAllReduce", durations_ns=[5], communicator=17)

        assert [key.communicator for key in tables.read_of(tables.read_processes()).operations] == [17]

    def test_the_whole_table_is_not_gone_through(self, kernel: FakeTables, tables: Tables) -> None:
        """It has tens of thousands of rows on a full node."""
        kernel.process(1)
        tables.read_of(tables.read_processes())

        assert kernel.maps["operations"].times_read == 0


class TestSlowestCall:
    """The exemplar that stands in an operation's row."""

    def test_call_is_read(self, kernel: FakeTables, tables: Tables) -> None:
        """Thread, duration, end on the monotonic clock, process."""
        kernel.call(1, "cudaMalloc", durations_ns=[2_000])
        kernel.slowest(1, "cudaMalloc", duration_ns=2_000, ended_ns=47_000_000_000, tid=4031, tgid=4026)

        assert tables.read().operations[MALLOC_OF_1].slowest == Call(
            tid=4031, duration_ns=2_000, ended_ns=47_000_000_000, tgid=4026
        )

    def test_call_is_laid_out_as_in_the_header(self, kernel: FakeTables, tables: Tables) -> None:
        """Written out byte by byte: version, thread, duration, end, process, version; behind 19 other members."""
        exemplar = struct.pack("<IIQQII", 4, 4031, 2_000, 47_000_000_000, 4026, 4)
        key = struct.pack("<IHH", 1, MALLOC, 0)
        kernel.maps["operations"].rows[key] = (
            struct.pack("<QQQ", 0, 2_000, 0) + bytes(16 * 8) + exemplar + bytes(338 * 8)
        )

        assert tables.read().operations[MALLOC_OF_1].slowest == Call(4031, 2_000, 47_000_000_000, 4026)

    def test_operation_without_one_has_none(self, kernel: FakeTables, tables: Tables) -> None:
        """Zeros are no call: calls that are only counted leave no exemplar."""
        kernel.call(1, "cudaMalloc", untimed=3)

        assert tables.read().operations[MALLOC_OF_1].slowest is None

    def test_call_that_is_being_written_is_none(self, kernel: FakeTables, tables: Tables) -> None:
        """The two versions differ, so what stands between them may be of two calls."""
        kernel.call(1, "cudaMalloc", durations_ns=[2_000])
        kernel.slowest(1, "cudaMalloc", duration_ns=2_000, ended_ns=47_000_000_000, is_being_written=True)

        assert tables.read().operations[MALLOC_OF_1].slowest is None


class TestUnpackingOnce:
    """The slots, which are 2,704 bytes of a row of 2,936."""

    def test_row_that_did_not_move_is_the_same_object(self, kernel: FakeTables, tables: Tables) -> None:
        """Nothing was unpacked again."""
        kernel.call(1, "cudaMalloc", durations_ns=[2])
        first = tables.read().operations[MALLOC_OF_1]

        assert tables.read().operations[MALLOC_OF_1] is first

    def test_row_that_moved_is_unpacked(self, kernel: FakeTables, tables: Tables) -> None:
        """One more call."""
        kernel.call(1, "cudaMalloc", durations_ns=[2])
        tables.read()
        kernel.call(1, "cudaMalloc", durations_ns=[2])

        assert tables.read().operations[MALLOC_OF_1].slots[8] == 2

    def test_bytes_that_come_after_the_count_are_not_missed(self, kernel: FakeTables, tables: Tables) -> None:
        """The program books the time of a collective first and its bytes then; a reading may fall in between."""
        kernel.call(1, "ncclAllReduce", durations_ns=[2], communicator=1)
        tables.read()
        kernel.call(1, "ncclAllReduce", moved_bytes=4096, communicator=1)

        assert tables.read().operations[OperationKey(1, ALL_REDUCE, 1)].bytes == 4096

    def test_row_deleted_and_made_anew_is_unpacked(self, kernel: FakeTables, tables: Tables) -> None:
        """Only what the last reading held is remembered."""
        kernel.call(1, "cudaMalloc", durations_ns=[2])
        tables.read()
        kernel.maps["operations"].rows.clear()
        tables.read()
        kernel.call(1, "cudaMalloc", durations_ns=[3])

        assert tables.read().operations[MALLOC_OF_1].slots[13] == 1


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


class TestEvents:
    """Records of the ring."""

    def test_event_is_unpacked(self) -> None:
        """Kind, process."""
        assert event_of(struct.pack("<IIII", 3, 7, 2, 1)) == Event(EventKind.ATTACHMENT_SURPLUS, 7, 2, 1)

    def test_unknown_kind_is_an_error(self) -> None:
        """Programs and user space are of one build."""
        with pytest.raises(ValueError, match="9 is not a valid EventKind"):
            event_of(struct.pack("<IIII", 9, 0, 0, 0))
