"""Clocks of nodes: what collectives say about them. Marks are ten seconds apart, as windows are."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from exporter.history.collective_mark import CollectiveMark
from exporter.history.store import INSERT_COLLECTIVE, new_file
from exporter.investigate.clocks import ClockDifference, clock_differences, lines

MS = 1_000_000
SECOND = 1000 * MS
STEP_NS = 125 * MS
"""A collective in each."""


def marks(
    communicator: int, *, first_ns: int, ahead_ns: int = 0, windows: int = 20, apart_ns: int = 10 * SECOND
) -> list[CollectiveMark]:
    """Collective n is entered at n * STEP_NS; the clock says more by ahead_ns."""
    found = []
    for window in range(windows):
        number = (first_ns + window * apart_ns) // STEP_NS
        found.append(CollectiveMark(communicator, number, number * STEP_NS + ahead_ns))
    return found


def differences(
    tmp_path: Path, runs: dict[int, list[CollectiveMark]], nodes: dict[int, str]
) -> tuple[ClockDifference, ...]:
    with closing(new_file(tmp_path / "merged.sqlite")) as merged:
        _fill(merged, runs)
        return clock_differences(merged, nodes)


def _fill(merged: sqlite3.Connection, runs: dict[int, list[CollectiveMark]]) -> None:
    for run, of_run in runs.items():
        merged.executemany(INSERT_COLLECTIVE, ((run, *mark.to_row()) for mark in of_run))


class TestDifferences:
    """Nodes a, b and c."""

    def test_clock_is_ahead_by_when_it_says_that_collectives_were_entered(self, tmp_path: Path) -> None:
        """Windows of b end 3 s later than those of a: 19 of its 20 marks lie between two of a. All steps are as long."""
        runs = {1: marks(7, first_ns=0), 2: marks(7, first_ns=3 * SECOND, ahead_ns=1250 * MS)}

        assert differences(tmp_path, runs, {1: "a", 2: "b"}) == (ClockDifference("b", "a", 1250 * MS, 0, 19),)

    def test_largest_hash_is_a_communicator_like_others(self, tmp_path: Path) -> None:
        """SQLite has no unsigned integers."""
        largest = (1 << 64) - 1
        runs = {1: marks(largest, first_ns=0), 2: marks(largest, first_ns=0, ahead_ns=-MS)}

        assert differences(tmp_path, runs, {1: "a", 2: "b"}) == (ClockDifference("b", "a", -MS, 0, 20),)

    def test_node_is_compared_through_another_one(self, tmp_path: Path) -> None:
        """a and b share communicator 7, b and c communicator 8."""
        runs = {
            1: marks(7, first_ns=0),
            2: marks(7, first_ns=0, ahead_ns=100 * MS) + marks(8, first_ns=0, ahead_ns=100 * MS),
            3: marks(8, first_ns=0, ahead_ns=-50 * MS),
        }

        assert differences(tmp_path, runs, {1: "a", 2: "b", 3: "c"}) == (
            ClockDifference("b", "a", 100 * MS, 0, 20),
            ClockDifference("c", "a", -50 * MS, 0, 20),
        )

    @pytest.mark.parametrize("more_in", [7, 8])
    def test_communicator_of_most_collectives_counts(self, tmp_path: Path, more_in: int) -> None:
        """a and b share two, which say 100 ms and 300 ms; one has 20 collectives in common, the other ten."""
        windows = {more_in: 20, 15 - more_in: 10}
        runs = {
            1: marks(7, first_ns=0, windows=windows[7]) + marks(8, first_ns=0, windows=windows[8]),
            2: marks(7, first_ns=0, windows=windows[7], ahead_ns=100 * MS)
            + marks(8, first_ns=0, windows=windows[8], ahead_ns=300 * MS),
        }
        ahead_ns = {7: 100 * MS, 8: 300 * MS}[more_in]

        assert differences(tmp_path, runs, {1: "a", 2: "b"}) == (ClockDifference("b", "a", ahead_ns, 0, 20),)

    def test_median_leaves_a_late_rank_out(self, tmp_path: Path) -> None:
        """b entered four of 20 collectives two seconds late."""
        late = [
            mark._replace(at_unix_ns=mark.at_unix_ns + 2 * SECOND * (n % 5 == 0))
            for n, mark in enumerate(marks(7, first_ns=0))
        ]

        assert differences(tmp_path, {1: marks(7, first_ns=0), 2: late}, {1: "a", 2: "b"}) == (
            ClockDifference("b", "a", 0, 0, 20),
        )


class TestNotKnown:
    def test_nodes_without_a_common_communicator(self, tmp_path: Path) -> None:
        runs = {1: marks(7, first_ns=0), 2: marks(8, first_ns=0)}

        assert differences(tmp_path, runs, {1: "a", 2: "b"}) == ()

    def test_five_collectives_are_too_few(self, tmp_path: Path) -> None:
        runs = {1: marks(7, first_ns=0), 2: marks(7, first_ns=0, windows=5)}

        assert differences(tmp_path, runs, {1: "a", 2: "b"}) == ()

    def test_runs_of_one_node_are_not_compared(self, tmp_path: Path) -> None:
        runs = {1: marks(7, first_ns=0), 2: marks(7, first_ns=0)}

        assert differences(tmp_path, runs, {1: "a", 2: "a"}) == ()

    def test_marks_of_more_than_a_minute_apart_say_nothing(self, tmp_path: Path) -> None:
        """The exporter of a has written every two minutes; only what it has itself is known, and b has other collectives."""
        runs = {1: marks(7, first_ns=0, apart_ns=120 * SECOND), 2: marks(7, first_ns=3 * SECOND)}

        assert differences(tmp_path, runs, {1: "a", 2: "b"}) == ()


def test_lines() -> None:
    found = lines(
        [ClockDifference("gpu7", "gpu3", 1250 * MS, 40 * MS, 1312), ClockDifference("gpu8", "gpu3", -MS, 0, 6)]
    )

    assert list(found) == [
        "clock of gpu7: 1.250 s ahead of that of gpu3, by 1,312 collectives, give or take 0.040 s",
        "clock of gpu8: 0.001 s behind that of gpu3, by 6 collectives, give or take 0.000 s",
    ]
