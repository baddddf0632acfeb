"""operation_rows: calls of every process by operation."""

from __future__ import annotations

import struct

from exporter.kernel.operation_rows import ErrorKey, OperationKey
from exporter.kernel.operations import NUMBERS
from exporter.kernel.progress_rows import ProgressKey
from exporter.kernel.tables import Tables
from exporter.totals import Call
from tests.support.tables import NCCL_WAIT, FakeTables

MALLOC, ALL_REDUCE = NUMBERS["cudaMalloc"], NUMBERS["ncclAllReduce"]
MALLOC_OF_1 = OperationKey(1, MALLOC, 0)


class TestCalls:
    def test_operation_has_sums_and_slots(self, kernel: FakeTables, tables: Tables) -> None:
        """Two calls of 2 ns in slot 8, 100 bytes."""
        kernel.call(1, "ncclAllReduce", durations_ns=[2, 2], moved_bytes=100, communicator=3)
        row = tables.read().operations[OperationKey(1, ALL_REDUCE, 3)]

        assert (row.calls, row.total_ns, row.bytes, row.slots[8], len(row.slots)) == (2, 4, 100, 2, 338)

    def test_calls_are_timed_plus_untimed(self, kernel: FakeTables, tables: Tables) -> None:
        """A driver call of the program is timed, one made by the runtime is not."""
        kernel.call(1, "cuMemAlloc", durations_ns=[2, 3], untimed=5)
        row = tables.read().operations[OperationKey(1, NUMBERS["cuMemAlloc"], 0)]

        assert (row.untimed, row.timed, row.calls) == (5, 2, 7)

    def test_operation_without_timed_calls_has_no_slots(self, kernel: FakeTables, tables: Tables) -> None:
        """Driver calls made by the runtime are only counted; no histogram of zeros is exported for them."""
        kernel.call(1, "cuMemAlloc", untimed=5)
        row = tables.read().operations[OperationKey(1, NUMBERS["cuMemAlloc"], 0)]

        assert (row.calls, row.timed) == (5, 0)

    def test_errors_are_keyed_by_code_which_may_be_negative(self, kernel: FakeTables, tables: Tables) -> None:
        """A function may return something other than an error code."""
        kernel.error(1, "cudaMalloc", code=2, count=3)
        kernel.error(1, "cudaMalloc", code=-1)

        assert tables.read().errors == {ErrorKey(1, MALLOC, 2): 3, ErrorKey(1, MALLOC, -1): 1}


class TestNcclWaits:
    """Rows of `operations` that count calls a second time."""

    def test_nccl_waits_are_separate_from_calls(self, kernel: FakeTables, tables: Tables) -> None:
        """Their operation number is not in OPERATIONS."""
        kernel.call(1, "cudaMalloc", durations_ns=[2])
        kernel.call(1, NCCL_WAIT, durations_ns=[2, 3], communicator=4)
        reading = tables.read()

        assert list(reading.operations) == list(tables.read_accounts([]).operations) == [MALLOC_OF_1]
        assert {key: row.calls for key, row in reading.nccl_waits.items()} == {ProgressKey(1, 4): 2}
        assert tables.entries["operations"] == 2

    def test_unchanged_nccl_wait_is_the_same_object(self, kernel: FakeTables, tables: Tables) -> None:
        """Its slots are not unpacked again."""
        kernel.call(1, NCCL_WAIT, durations_ns=[2])
        before = tables.read().nccl_waits[1, 0]

        assert tables.read().nccl_waits[1, 0] is before
        kernel.call(1, NCCL_WAIT, durations_ns=[2])
        assert tables.read().nccl_waits[1, 0].calls == 2

    def test_nccl_waits_are_deleted_with_their_process(self, kernel: FakeTables, tables: Tables) -> None:
        """Those of other processes stay."""
        for process in (1, 2):
            kernel.call(process, NCCL_WAIT, durations_ns=[2], communicator=1)
        tables.forget({1}, tables.read())

        assert list(tables.read().nccl_waits) == [ProgressKey(2, 1)]


class TestReadingOfAFew:
    """The last reading of processes that have ended."""

    def test_reading_has_all_operations_of_these_processes_and_no_others(
        self, kernel: FakeTables, tables: Tables
    ) -> None:
        """Also on destroyed communicators, and their waits for collectives."""
        for process in (1, 2):
            kernel.process(process, communicators=2)
            kernel.call(process, "cudaMalloc", durations_ns=[5])
            kernel.call(process, "cuMemAlloc", untimed=3)
            kernel.call(process, "ncclGroupEnd", durations_ns=[5])
            kernel.call(process, "ncclAllReduce", durations_ns=[5], communicator=1)
            kernel.call(process, "ncclCommDestroy", durations_ns=[5], communicator=2)
            kernel.call(process, NCCL_WAIT, durations_ns=[7], communicator=2)
        whole = tables.read()
        part = tables.read({1: whole.processes[1]})

        assert part.operations.keys() == {key for key in whole.operations if key.process == 1}
        assert len(part.operations) == 5
        assert part.nccl_waits.keys() == {ProgressKey(1, 2)}
        assert part.processes.keys() == {1}

    def test_communicators_beyond_sixteen_share_one_number(self, kernel: FakeTables, tables: Tables) -> None:
        kernel.process(1, communicators=400)
        kernel.call(1, "ncclAllReduce", durations_ns=[5], communicator=17)

        assert [key.communicator for key in tables.read(tables.read_processes()).operations] == [17]

    def test_map_is_not_iterated(self, kernel: FakeTables, tables: Tables) -> None:
        """It has tens of thousands of rows on a full node."""
        kernel.process(1)
        tables.read(tables.read_processes())

        assert kernel.maps["operations"].times_read == 0


class TestSlowestCall:
    """The exemplar in an operation's row."""

    def test_exemplar_is_a_call(self, kernel: FakeTables, tables: Tables) -> None:
        """Thread, duration, end on the monotonic clock, process."""
        kernel.call(1, "cudaMalloc", durations_ns=[2_000])
        kernel.slowest(1, "cudaMalloc", duration_ns=2_000, ended_ns=47_000_000_000, tid=4031, tgid=4026)

        assert tables.read().operations[MALLOC_OF_1].slowest == Call(
            tid=4031, duration_ns=2_000, ended_ns=47_000_000_000, tgid=4026
        )

    def test_exemplar_has_the_layout_of_the_header(self, kernel: FakeTables, tables: Tables) -> None:
        """Byte by byte: version, thread, duration, end, process, version; after 20 other members."""
        exemplar = struct.pack("<IIQQII", 4, 4031, 2_000, 47_000_000_000, 4026, 4)
        key = struct.pack("<IHH", 1, MALLOC, 0)
        kernel.maps["operations"].rows[key] = (
            struct.pack("<QQQ", 0, 2_000, 0) + bytes(17 * 8) + exemplar + bytes(338 * 8)
        )

        assert tables.read().operations[MALLOC_OF_1].slowest == Call(4031, 2_000, 47_000_000_000, 4026)

    def test_operation_without_timed_calls_has_no_exemplar(self, kernel: FakeTables, tables: Tables) -> None:
        """Zeros are no call."""
        kernel.call(1, "cudaMalloc", untimed=3)

        assert tables.read().operations[MALLOC_OF_1].slowest is None

    def test_half_written_exemplar_is_none(self, kernel: FakeTables, tables: Tables) -> None:
        """The two versions differ, so the contents may belong to two calls."""
        kernel.call(1, "cudaMalloc", durations_ns=[2_000])
        kernel.slowest(1, "cudaMalloc", duration_ns=2_000, ended_ns=47_000_000_000, is_being_written=True)

        assert tables.read().operations[MALLOC_OF_1].slowest is None


class TestUnpackingOnce:
    """The slots, which are 2,704 bytes of a row of 2,936."""

    def test_unchanged_row_is_the_same_object(self, kernel: FakeTables, tables: Tables) -> None:
        """It is not unpacked again."""
        kernel.call(1, "cudaMalloc", durations_ns=[2])
        first = tables.read().operations[MALLOC_OF_1]

        assert tables.read().operations[MALLOC_OF_1] is first

    def test_changed_row_is_unpacked(self, kernel: FakeTables, tables: Tables) -> None:
        """One more call."""
        kernel.call(1, "cudaMalloc", durations_ns=[2])
        tables.read()
        kernel.call(1, "cudaMalloc", durations_ns=[2])

        assert tables.read().operations[MALLOC_OF_1].slots[8] == 2

    def test_bytes_added_after_the_time_are_read(self, kernel: FakeTables, tables: Tables) -> None:
        """The program adds the time of a collective before its bytes; a reading may happen in between."""
        kernel.call(1, "ncclAllReduce", durations_ns=[2], communicator=1)
        tables.read()
        kernel.call(1, "ncclAllReduce", moved_bytes=4096, communicator=1)

        assert tables.read().operations[OperationKey(1, ALL_REDUCE, 1)].bytes == 4096

    def test_recreated_row_is_unpacked(self, kernel: FakeTables, tables: Tables) -> None:
        """Only rows of the last reading are kept."""
        kernel.call(1, "cudaMalloc", durations_ns=[2])
        tables.read()
        kernel.maps["operations"].rows.clear()
        tables.read()
        kernel.call(1, "cudaMalloc", durations_ns=[3])

        assert tables.read().operations[MALLOC_OF_1].slots[13] == 1
