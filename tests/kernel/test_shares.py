"""Shares of the tables by owner: a program that fills every table takes no room from programs of other users."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import pytest

from exporter.kernel import abi
from exporter.kernel.abi import Copy, ShareTable
from exporter.kernel.operations import OPERATIONS
from exporter.kernel.process_rows import ProcessRow
from exporter.kernel.readings import Reading
from exporter.kernel.share_rows import OF_GROUPS, PLACES, ProcessShare
from exporter.kernel.thread_rows import feeding_place
from tests.support import greedy
from tests.support.greedy import OTHER_USER
from tests.support.traced import Tracer, only, tracer

FILLING = (
    "communicators",
    "20000",
    "allocations",
    "300000",
    "errors",
    "60000",
    "frontiers",
    "80000",
    "graphs",
    "70000",
)
HELD = (ShareTable.COMMUNICATORS, ShareTable.ALLOCATIONS, ShareTable.ERRORS, ShareTable.FRONTIERS, ShareTable.GRAPHS)
MINE, THEIRS = PLACES[0], PLACES[1]


@pytest.fixture(scope="module")
def program() -> Iterator[Path]:
    with greedy.compiled() as found:
        yield found


@pytest.fixture
def traced(program: Path) -> Iterator[Tracer]:
    with tracer() as found:
        greedy.attach(found, program)
        yield found


def _row(reading: Reading, tgid: int) -> tuple[int, ProcessRow]:
    """The process's number and row."""
    return next((number, row) for number, row in reading.processes.items() if row.tgid == tgid)


def _calls(reading: Reading, process: int) -> dict[str, int]:
    return {
        OPERATIONS[key.operation].name: row.calls for key, row in reading.operations.items() if key.process == process
    }


class Filled(NamedTuple):
    """What is read while a program of another user has all that it can get, and one beside it has made a few calls.

    totals, totals_after: table -> used rows and room; after: when both have ended.
    """

    reading: Reading
    greedy_tgid: int
    modest_tgid: int
    share: ProcessShare
    refused: Sequence[int]
    totals: Mapping[str, tuple[int, int]]
    totals_after: Mapping[str, tuple[int, int]]


MODEST = (
    *("communicators", "3"),
    *("allocations", "23"),
    *("errors", "7"),
    *("frontiers", "5"),
    *("pinned", "2"),
    *("copies", "11"),
)


@pytest.fixture(scope="module")
def filled(program: Path) -> Filled:
    with tracer() as traced:
        greedy.attach(traced, program)
        shares = traced.tables.shares
        with (
            greedy.running(program, *FILLING, user=OTHER_USER) as greedy_tgid,
            greedy.running(program, *MODEST) as modest_tgid,
        ):
            reading = traced.tables.read()
            number, _ = _row(reading, greedy_tgid)
            share = shares.of_process(number)
            assert share is not None
            refused, totals = shares.of_owner(share.place).refused, shares.totals()
        last = traced.tables.read()
        traced.tables.forget(set(last.processes), last)
        return Filled(reading, greedy_tgid, modest_tgid, share, refused, totals, shares.totals())


class TestFullTables:
    def test_program_of_another_user_is_recorded_beside_one_that_fills_every_table(self, filled: Filled) -> None:
        """It starts when the first has all that it can get."""
        reading = filled.reading
        number, row = _row(reading, filled.modest_tgid)

        assert len(reading.communicators[number]) == 3
        assert row.allocated_bytes == 23 * 4096
        assert row.pinned_bytes == 2 * 4096
        assert sorted(error.code for error in reading.errors if error.process == number) == [1, 2, 3, 4, 5, 6, 7]
        assert _calls(reading, number) == {
            "ncclCommInitRank": 3,
            "cudaMalloc": 23,
            "cudaEventRecord": 7,
            "ncclAllReduce": 5,
            "cudaHostAlloc": 2,
            "cudaMemcpy": 11,
        }

    def test_one_owner_alone_gets_half_of_each_table(self, filled: Filled) -> None:
        """What it is refused beyond that is counted as its own."""
        assert [filled.share.used[table] for table in HELD] == [
            filled.totals[table.name.lower()][1] // 2 for table in HELD
        ]
        assert all(filled.refused[table] for table in HELD)
        assert filled.share.uid == OTHER_USER

    def test_ended_process_holds_nothing(self, filled: Filled) -> None:
        """After its last reading, all that it held is free."""
        used = {name: used for name, (used, _) in filled.totals_after.items() if used and name not in OF_GROUPS}

        assert used == {}

    def test_rows_that_are_deleted_are_given_back(self, program: Path) -> None:
        """More allocations than there is room for, each freed at once."""
        with tracer(capacities={"allocations": 1000}) as traced:
            greedy.attach(traced, program)
            with greedy.running(program, "frees", "3000", user=OTHER_USER) as tgid:
                number, row = _row(traced.tables.read(), tgid)
                share = traced.tables.shares.of_process(number)
                assert share is not None
                refused = traced.tables.shares.of_owner(share.place).refused

        assert share.used[ShareTable.ALLOCATIONS] == refused[ShareTable.ALLOCATIONS] == 0
        assert row.allocated_bytes == row.freed_bytes == 3000 * 4096


class TestNothingIsEvicted:
    """What a program of another user does makes no row of this one disappear, whichever came first."""

    def test_open_capture_stays_open(self, traced: Tracer, program: Path) -> None:
        """They begin more captures than there is room for."""
        with greedy.running(program, "captures", "1") as tgid:
            number, _ = _row(traced.tables.read(), tgid)
            with greedy.running(program, "captures", "40000", user=OTHER_USER):
                open_captures = [
                    abi.FRONTIER_KEY.unpack(key)[0] for key, _ in traced.kernel.maps["capturing"].items()
                ].count(number)

        half = traced.tables.shares.totals()["capturing"][1] // 2
        assert open_captures == 1
        assert {name: count for name, count in traced.drops().items() if count} == {"cuda captures_full": 40_000 - half}

    def test_captures_of_an_ended_process_are_forgotten(self, traced: Tracer, program: Path) -> None:
        """Though none of them has ended."""
        with greedy.running(program, "captures", "23"):
            pass
        reading = traced.tables.read()
        traced.tables.forget(set(reading.processes), reading)

        assert list(traced.kernel.maps["capturing"].items()) == []

    def test_end_of_a_process_is_kept(self, account_tracer: Tracer, program: Path) -> None:
        """Until it has been read, though processes of another user fill their half of the table."""
        greedy.attach(account_tracer, program)
        with greedy.running(program, "copies", "1") as tgid:
            number, _ = _row(account_tracer.tables.read(), tgid)
        with ExitStack() as running:
            for _ in range(20):
                running.enter_context(greedy.running(program, "copies", "1", "workers", "256", user=OTHER_USER))
        ends = account_tracer.tables.read_exits()

        assert [row.exits for key, row in ends.items() if key.process == number] == [1]
        assert len(ends) == 1 + account_tracer.tables.shares.totals()["exits"][1] // 2


class TestSizes:
    def test_size_that_no_machine_has_is_dropped(self, traced: Tracer, program: Path) -> None:
        """An allocation, two kinds of copies and a collective of 2**63 bytes and more, each 3 times, then one of 4 KiB."""
        with greedy.running(program, "communicators", "1", "huge", "3", "allocations", "1", "copies", "1") as tgid:
            reading = traced.tables.read()
            _, row = _row(reading, tgid)

        assert (row.allocated_bytes, row.freed_bytes, row.peak_bytes) == (4096, 0, 4096)
        assert row.copied_bytes[Copy.HOST_TO_DEVICE] == 4096
        assert [
            one.bytes for key, one in reading.operations.items() if OPERATIONS[key.operation].name == "ncclAllReduce"
        ] == [0]
        assert traced.drops() == {"cuda implausible_size": 9, "nccl implausible_size": 3}

    def test_sum_never_overflows(self, traced: Tracer, program: Path) -> None:
        """Copies of 128 TiB until the sum of one process is full: 2**62 bytes."""
        with greedy.running(program, "largest", "140000") as tgid:
            _, row = _row(traced.tables.read(), tgid)

        assert row.copied_bytes[Copy.HOST_TO_DEVICE] == 1 << 62


class TestHash:
    def test_hash_of_a_communicator_is_that_of_key_and_id(self, program: Path) -> None:
        """SHA-256, so that no other id with this hash can be found."""
        key = bytes(range(16))
        with tracer(hash_key=key) as keyed:
            greedy.attach(keyed, program)
            with greedy.running(program, "communicators", "1") as tgid:
                rows = only(keyed.tables.read_communicators().values())
        unique_id = struct.pack("=16Q", 0, tgid, *(0,) * 14)

        assert only(rows).hash == int.from_bytes(hashlib.sha256(key + unique_id).digest()[:8], "big")


class TestOwners:
    def test_processes_of_one_owner_share_its_half(self, traced: Tracer, program: Path) -> None:
        """Two users that user space calls one owner: what one holds, the other cannot get."""
        with (
            greedy.running(program, "errors", "60000", user=OTHER_USER) as first,
            greedy.running(program, "errors", "1", user=OTHER_USER - 1) as second,
        ):
            reading = traced.tables.read()
            shares = traced.tables.shares
            for tgid in (first, second):
                shares.assign(_row(reading, tgid)[0], MINE)
            held = shares.of_owner(MINE).used[ShareTable.ERRORS]
            share = shares.of_process(_row(reading, second)[0])
            assert share is not None
            shares.expect(share.user_key, MINE)
            with greedy.running(program, "errors", "5", user=OTHER_USER - 1) as third:
                reading = traced.tables.read()
                number, _ = _row(reading, third)

        half = traced.tables.shares.totals()["errors"][1] // 2
        assert held == half + 1
        assert [error for error in reading.errors if error.process == number] == []
        assert shares.of_owner(MINE).refused[ShareTable.ERRORS] == 5

    def test_owner_may_not_hold_all_processes(self, program: Path) -> None:
        """Room for four processes of one owner: the fifth is refused, and one of another owner is recorded."""
        with tracer(capacities={"processes": 4}) as small, ExitStack() as running:
            greedy.attach(small, program)
            for _ in range(5):
                running.enter_context(greedy.running(program, "copies", "1", user=OTHER_USER))
            other = running.enter_context(greedy.running(program, "copies", "1"))
            rows = small.tables.read_processes()

        assert len(rows) == 5
        assert other in {row.tgid for row in rows.values()}

    def test_new_process_gets_a_place_that_is_free(self, traced: Tracer, program: Path) -> None:
        """A hundred others hold those of the next numbers, as processes do that live for long."""
        with greedy.running(program, "copies", "1") as first:
            (last, _) = _row(traced.tables.read(), first)
            for number in range(last + 1, last + 101):
                held = abi.NUMBER.pack(number + abi.FEEDING_PLACES).ljust(abi.FEEDING_ROW.size, b"\0")
                traced.kernel.maps["feeding"].put(feeding_place(number), held)
            with greedy.running(program, "copies", "1") as second:
                (number, _) = _row(traced.tables.read(), second)
                placed = traced.tables.read_feeding([number])

        assert not last < number <= last + 100
        assert placed.keys() == {number}
        assert traced.drops() == {}

    def test_owner_may_not_hold_all_places(self, traced: Tracer, program: Path) -> None:
        """Two of four. Its third process is recorded without one, and one of another owner gets a place."""
        room = [4 if table is ShareTable.FEEDING else 1 << 20 for table in ShareTable]
        traced.kernel.maps["share_totals"].put(
            abi.NUMBER.pack(0), abi.SHARE_TOTALS.pack(*(0,) * len(ShareTable), *room)
        )
        with ExitStack() as running:
            tgids = [
                running.enter_context(greedy.running(program, "copies", "1", user=user))
                for user in (OTHER_USER, OTHER_USER, OTHER_USER, 0)
            ]
            reading = traced.tables.read()
            numbers = [_row(reading, tgid)[0] for tgid in tgids]
            placed = traced.tables.read_feeding(numbers)

        assert [number in placed for number in numbers] == [True, True, False, True]

    def test_process_that_found_no_place_uses_none_of_its_owners(self, traced: Tracer, program: Path) -> None:
        """Others hold all of them."""
        for number in range(1, abi.FEEDING_PLACES + 1):
            held = abi.NUMBER.pack(number + abi.FEEDING_PLACES).ljust(abi.FEEDING_ROW.size, b"\0")
            traced.kernel.maps["feeding"].put(feeding_place(number), held)
        with greedy.running(program, "copies", "1") as tgid:
            (number, _) = _row(traced.tables.read(), tgid)
            share = traced.tables.shares.of_process(number)

        assert share is not None
        assert share.used[ShareTable.FEEDING] == 0

    def test_user_of_a_namespace_is_the_one_who_made_it(self, traced: Tracer, program: Path) -> None:
        """In a user namespace of its own, a program may take any user id."""
        with greedy.running(program, "copies", "1", user=OTHER_USER, around=("unshare", "-Ur")) as _:
            assert traced.drops() == {}
            number = max(traced.tables.read_processes())
            share = traced.tables.shares.of_process(number)

        assert share is not None
        assert share.uid == OTHER_USER
