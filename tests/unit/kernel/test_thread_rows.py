"""thread_rows: the time of threads, from bytes to named numbers."""

from __future__ import annotations

import struct

from exporter.kernel import abi
from exporter.kernel.abi import Awaited, Culprit, IntervalKind, ThreadState, Victim, Waker
from exporter.kernel.awaited_rows import AwaitedBy
from exporter.kernel.operation_rows import OperationKey
from exporter.kernel.operations import NUMBERS
from exporter.kernel.tables import Tables
from exporter.kernel.thread_rows import (
    THREADS_READ,
    BlameKey,
    Exposure,
    ExposureKey,
    FeedingRow,
    IntervalKey,
    IntervalRow,
    ThreadRow,
    WakeupKey,
    WakeupRow,
)
from tests.support.tables import FakeTables

SYNC = OperationKey(1, NUMBERS["cudaStreamSynchronize"], 0)
EACH_STATE = tuple(range(100, 117))


class TestLayout:
    """Byte by byte, as in the header."""

    def test_operation_has_states(self, kernel: FakeTables, tables: Tables) -> None:
        """Three sums, seventeen states, the exemplar, the slots."""
        key = struct.pack("<IHH", *SYNC)
        kernel.maps["operations"].rows[key] = struct.pack("<3Q17Q", 0, 0, 0, *EACH_STATE) + bytes(32 + 338 * 8)

        assert tables.read().operations[SYNC].states_ns == EACH_STATE

    def test_exposure(self, kernel: FakeTables, tables: Tables) -> None:
        """Process, operation, work; ten sums."""
        value = struct.pack("<10Q", *range(1, 11))
        kernel.maps["exposures"].rows[struct.pack("<IHH", 7, 5, 8)] = value

        assert tables.read_accounts([]).exposures == {ExposureKey(7, 5, 8): Exposure(*range(1, 11))}

    def test_interval(self, kernel: FakeTables, tables: Tables) -> None:
        """Process, kind; seventeen states, two counts."""
        kernel.maps["intervals"].rows[struct.pack("<II", 7, 4)] = struct.pack("<19Q", *EACH_STATE, 8, 9)

        assert tables.read_accounts([]).intervals == {
            IntervalKey(7, IntervalKind.WORKER): IntervalRow(EACH_STATE, voluntary=8, involuntary=9)
        }

    def test_blame(self, kernel: FakeTables, tables: Tables) -> None:
        """Process, victim, culprit, tgid, tgid of the ancestor, cgroup, both names up to their NUL; nanoseconds."""
        key = struct.pack("<IHHIIQ16s16s", 7, 2, 0, 4026, 12, 99, b"stress\0left", b"make\0left")
        kernel.maps["blame"].rows[key] = struct.pack("<Q", 55)

        assert tables.read_accounts([]).blame == {
            BlameKey(7, Victim.WORKER, Culprit.TASK, 4026, 12, 99, b"stress", b"make"): 55
        }

    def test_feeding(self, kernel: FakeTables, tables: Tables) -> None:
        """Process, feeding threads, begin of the stall, dry, bits; two times seventeen states; seven sums; captures."""
        late = tuple(range(200, 217))
        value = struct.pack("<IiQII34Q7QII", 7, -1, 12, 1, 0, *EACH_STATE, *late, *range(21, 28), 3, 0)
        kernel.maps["feeding"].rows[struct.pack("<I", 7)] = value

        assert tables.read_waits([7]).feeding == {7: FeedingRow(7, -1, 12, 1, EACH_STATE, late, *range(21, 28), 3)}

    def test_wakeup(self, kernel: FakeTables, tables: Tables) -> None:
        """Process, victim, state, waker, padding; windows, resolved, abstained, seventeen states."""
        kernel.maps["wakeups"].rows[struct.pack("<IHHHH", 7, 0, 9, 2, 0)] = struct.pack("<20Q", 1, 2, 3, *EACH_STATE)

        assert tables.read_waits([]).wakeups == {
            WakeupKey(7, Victim.STEP, ThreadState.PIPE, Waker.PROCESS): WakeupRow(
                windows=1, resolved_ns=2, abstained_ns=3, states_ns=EACH_STATE
            )
        }

    def test_thread(self, kernel: FakeTables, tables: Tables) -> None:
        """Six numbers, seven sums, four times seventeen states, a name, the reader."""
        times, reader = tuple(range(68)), (4711, 3, b"tee\0left")
        kernel.threads[11] = struct.pack(
            "<6I7Q68Q16sII16s",
            7,
            11,
            10,
            1,
            3,
            0xFFFF,
            21,
            22,
            23,
            24,
            25,
            26,
            27,
            *times,
            b"pt_autograd_0\0x",
            *reader,
        )

        assert tables.read_accounts([]).threads == [
            ThreadRow(
                process=7,
                tid=11,
                tgid=10,
                victim=Victim.OTHER,
                state=3,
                operation=0xFFFF,
                read_ns=21,
                opened_ns=22,
                calls=23,
                voluntary=24,
                involuntary=25,
                wakes=26,
                run_delay_ns=27,
                open_ns=times[:17],
                gaps_ns=times[17:34],
                idle_ns=times[34:51],
                booked_ns=times[51:],
                comm=b"pt_autograd_0",
                reader=AwaitedBy(4711, Awaited.PROCESS, b"tee"),
            )
        ]


class TestReading:
    """Unusual maps."""

    def test_missing_maps_are_empty(self) -> None:
        """Their programs are not loaded."""
        accounts = Tables({}).read_accounts([1])

        assert (accounts.intervals, accounts.blame, accounts.feeding, accounts.wakeups) == ({}, {}, {}, {})
        assert accounts.threads == []

    def test_iterator_is_run_by_its_name(self) -> None:
        """Only when threads are read."""
        ran: list[str] = []

        def iterate(program: str) -> bytes:
            ran.append(program)
            return b""

        tables = Tables({}, iterate)
        tables.read_waits([1])
        before = list(ran)
        tables.read_accounts([1])

        assert (before, ran) == ([], [THREADS_READ])

    def test_incomplete_row_is_ignored(self, kernel: FakeTables) -> None:
        kernel.thread(1, 11)
        kernel.thread(1, 12)
        tables = Tables(kernel.maps, lambda program: kernel.iterate(program)[:-1])

        assert [thread.tid for thread in tables.read_accounts([1]).threads] == [11]

    def test_names_that_differ_after_their_nul_are_one_culprit(self, kernel: FakeTables, tables: Tables) -> None:
        """Their times add up."""
        kernel.blame(1, 5, comm=b"make\0x")
        kernel.blame(1, 6, comm=b"make\0y")

        assert list(tables.read_accounts([1]).blame.values()) == [11]

    def test_place_held_by_another_process_is_no_row(self, kernel: FakeTables, tables: Tables) -> None:
        """4,096 processes later, places are used again."""
        kernel.feeding(1, place=1)

        assert tables.read_waits([1, 4097]).feeding.keys() == {1}

    def test_place_held_by_another_process_is_no_row_of_the_whole_array(
        self, kernel: FakeTables, tables: Tables
    ) -> None:
        """With more processes than are read one by one."""
        kernel.feeding(1, place=1)
        others = range(2, 1002)

        assert tables.read_waits([1, 4097, *others]).feeding.keys() == {1}

    def test_threads_are_not_read_for_ended_processes(self, kernel: FakeTables, tables: Tables) -> None:
        """Their time is in the intervals."""
        kernel.thread(1, 11)

        assert tables.read_accounts([1], with_threads=False).threads == []

    def test_entries_are_known(self, kernel: FakeTables, tables: Tables) -> None:
        """Entries of hash maps at the last reading."""
        kernel.interval(1, IntervalKind.GAP, {})
        kernel.blame(1, 5)
        kernel.wakeup(1, ThreadState.PIPE, {})
        tables.read_accounts([1])

        assert {name: tables.entries[name] for name in ("intervals", "blame", "wakeups")} == {
            "intervals": 1,
            "blame": 1,
            "wakeups": 1,
        }


class TestReadingSeldom:
    """A tick comes four times a second."""

    def test_nothing_is_read_while_the_timeline_does_not_change(self, kernel: FakeTables, tables: Tables) -> None:
        """Except the timeline, and every fourth time the rest: the first, fifth and ninth of nine ticks."""
        kernel.feeding(1)
        for _ in range(9):
            tables.read_waits([1])

        assert [kernel.maps[name].times_read for name in ("wakeups", "blame")] == [3, 3]

    def test_waits_are_the_same_object_while_the_timeline_does_not_change(
        self, kernel: FakeTables, tables: Tables
    ) -> None:
        """So that they are not processed again."""
        kernel.feeding(1, waits=1)
        first, again = tables.read_waits([1]), tables.read_waits([1])

        assert again is first

    def test_urgent_blame_is_read_at_once(self, kernel: FakeTables, tables: Tables) -> None:
        """A verdict needs it."""
        tables.read_waits([1])
        kernel.blame(1, 5, comm=b"stress")
        before = tables.read_waits([1]).blame

        assert (before, list(tables.read_waits([1], is_urgent=True).blame.values())) == ({}, [5])

    def test_exposures_are_not_read_without_a_wait_for_the_gpu(self, kernel: FakeTables, tables: Tables) -> None:
        """Stalls alone do not change them."""
        for stalled_ns in range(9):
            kernel.feeding(1, dry_ns={ThreadState.IO: stalled_ns}, waits=1)
            tables.read_waits([1])

        assert kernel.maps["exposures"].times_read == 1

    def test_exposures_are_read_when_a_wait_has_ended(self, kernel: FakeTables, tables: Tables) -> None:
        """At once."""
        kernel.feeding(1)
        tables.read_waits([1])
        kernel.exposure(1, "cudaStreamSynchronize", exact_ns=5)
        kernel.feeding(1, waits=1)

        assert tables.read_waits([1]).exposures[ExposureKey(*SYNC)].exact_ns == 5

    def test_operations_are_not_read_at_a_tick(self, kernel: FakeTables, tables: Tables) -> None:
        """They are large, and only read for a publication."""
        for waits in range(9):
            kernel.feeding(1, waits=waits)
            tables.read_waits([1])

        assert kernel.maps["operations"].times_read == 0

    def test_many_places_are_read_from_the_whole_array(self, kernel: FakeTables, tables: Tables) -> None:
        """A hundred processes; an unchanged row is the same object again."""
        for process in range(1, 101):
            kernel.feeding(process)
        first = tables.read_feeding(range(1, 101))
        kernel.feeding(7, waits=1)
        again = tables.read_feeding(range(1, 101))

        assert kernel.maps["feeding"].times_read == 2
        assert [process for process in again if again[process] is not first[process]] == [7]

    def test_unchanged_map_is_the_same_object(self, kernel: FakeTables, tables: Tables) -> None:
        """With one more nanosecond it is unpacked again."""
        kernel.blame(1, 5)
        first, again = tables.read_accounts([1]).blame, tables.read_accounts([1]).blame
        kernel.blame(1, 1)

        assert again is first
        assert list(tables.read_accounts([1]).blame.values()) == [6]

    def test_blame_is_read_every_fourth_time(self, kernel: FakeTables, tables: Tables) -> None:
        """A full node has thousands of rows."""
        tables.read_waits([1])
        kernel.blame(1, 5)
        found = [len(tables.read_waits([1]).blame) for _ in range(4)]

        assert found == [0, 0, 0, 1]

    def test_culprit_without_new_charges_is_deleted(self, kernel: FakeTables, tables: Tables) -> None:
        """The changed one of 129 rows stays."""
        for tgid in range(129):
            kernel.blame(1, 5, tgid=tgid)
        for _ in range(5):
            tables.read_accounts([1])
        kernel.blame(1, 1, tgid=7)
        for _ in range(5):
            tables.read_accounts([1])

        assert [key.tgid for key in tables.read_accounts([1]).blame] == [7]

    def test_row_with_changed_states_is_unpacked(self, kernel: FakeTables, tables: Tables) -> None:
        """The program adds the time of a call to one sum at a time."""
        kernel.call(1, "cudaStreamSynchronize", durations_ns=[5])
        tables.read()
        kernel.call(1, "cudaStreamSynchronize", states_ns={ThreadState.ON_CPU: 5})

        assert tables.read().operations[SYNC].states_ns[0] == 5


class TestForgetting:
    """Processes that have ended."""

    def test_rows_of_the_process_are_deleted_and_no_other(self, kernel: FakeTables, tables: Tables) -> None:
        """Process 2 keeps its own."""
        for process in (1, 2):
            kernel.process(process)
            kernel.interval(process, IntervalKind.GAP, {})
            kernel.blame(process, 5)
            kernel.wakeup(process, ThreadState.PIPE, {})
            kernel.feeding(process)
        tables.forget({1}, tables.read())

        accounts = tables.read_accounts([1, 2])
        assert [key.process for key in (*accounts.intervals, *accounts.blame, *accounts.wakeups)] == [2, 2, 2]
        assert accounts.feeding.keys() == {2}

    def test_place_is_freed(self, kernel: FakeTables, tables: Tables) -> None:
        """All zeros, for the next process."""
        kernel.feeding(1, dry_ns={ThreadState.IO: 5})
        tables.forget({1}, tables.read())

        assert kernel.maps["feeding"].rows[struct.pack("<I", 1)] == bytes(abi.FEEDING_ROW.size)

    def test_place_in_groups_is_freed(self, kernel: FakeTables, tables: Tables) -> None:
        """Only its process number is read by user space."""
        groups = kernel.maps["groups"].rows
        groups[struct.pack("<I", 1)] = struct.pack("<II", 1, 3)
        groups[struct.pack("<I", 2)] = struct.pack("<II", 2, 3)
        tables.forget({1}, tables.read())

        assert groups == {struct.pack("<I", 1): bytes(8), struct.pack("<I", 2): struct.pack("<II", 2, 3)}

    def test_place_of_another_process_stays(self, kernel: FakeTables, tables: Tables) -> None:
        """The ended process had none."""
        kernel.feeding(1, dry_ns={ThreadState.IO: 5})
        tables.forget({4097}, tables.read())

        assert tables.read_waits([1]).feeding[1].dry_ns[ThreadState.IO] == 5
