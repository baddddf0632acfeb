"""interval_windows: windows of a span in intervals, decoded here or by children."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Sequence

import pytest

from exporter.history.packing import packed
from exporter.history.run import PackedWindows
from exporter.history.window import Window
from exporter.history.window_sum import Part
from exporter.investigate import interval_windows as subject
from exporter.investigate.interval_windows import Detail, IntervalWindow, TooMuch, interval_windows
from exporter.text.untrusted import Untrusted
from tests.support.history import MS, NOON, SECOND, a_window, process_labels, times

pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
MANY = 700
"""More intervals than two parts have."""

WHOLE = Detail(None, frozenset(Part))
MINUTES = Detail(60 * SECOND, frozenset(Part))


def interval(*windows: Window, run: int = 1) -> PackedWindows:
    return PackedWindows(run, windows[0].began_unix_ns, windows[0].ended_unix_ns, packed(windows))


def intervals(count: int) -> Iterator[PackedWindows]:
    return (interval(a_window(10 * number)) for number in range(1, count + 1))


def summary(found: Sequence[IntervalWindow]) -> list[tuple[int, int, int]]:
    """Begin, end and steps of each; times in seconds after NOON."""
    return [
        (
            (one.window.began_unix_ns - NOON) // SECOND,
            (one.window.ended_unix_ns - NOON) // SECOND,
            one.window.steps.counts.total,
        )
        for one in found
    ]


class TestIntervals:
    def test_whole_span_is_one(self) -> None:
        assert summary([*interval_windows(intervals(3), WHOLE)]) == [(0, 30, 1500)]

    def test_window_belongs_to_the_interval_in_which_it_ends(self) -> None:
        """One that ends with the minute is its last one."""
        assert summary([*interval_windows(intervals(7), MINUTES)]) == [(0, 60, 3000), (60, 70, 500)]

    def test_processes_and_runs_are_apart(self) -> None:
        """A run of the exporter numbers its processes from the beginning."""
        other = a_window(10, process=2, labels=process_labels("4"))
        found = [*interval_windows([interval(a_window(10), other), interval(a_window(20), run=2)], WHOLE)]

        assert [(one.run, one.window.process) for one in found] == [(1, 1), (1, 2), (2, 1)]

    def test_nothing_gives_nothing(self) -> None:
        assert [*interval_windows([], WHOLE)] == []


class TestChildren:
    """Many intervals are decoded by children, where there are several CPUs."""

    @pytest.mark.parametrize("detail", [WHOLE, MINUTES])
    def test_sums_are_those_of_one_process(self, detail: Detail) -> None:
        """700 windows of 500 steps; 117 minutes."""
        found = [*interval_windows(intervals(MANY), detail)]

        assert sum(one.window.steps.counts.total for one in found) == 350_000
        assert sum(one.covered_ns for one in found) == 7000 * SECOND
        assert len(found) == (1 if detail is WHOLE else 117)
        assert found[0].window.operations[0].timed == times(500 * (MANY if detail is WHOLE else 6), 10 * MS)

    def test_damage_in_the_last_part_is_reported(self) -> None:
        damaged = PackedWindows(1, NOON, NOON + SECOND, b"x")

        with pytest.raises(ValueError, match="cut short"):
            list(interval_windows([*intervals(MANY), damaged], WHOLE))


class TestDamage:
    @pytest.mark.parametrize("content", [[1], [[]], [[1, 2, 3, 4, 5, 6, 7, 8]], ["12345678"], [None]])
    def test_other_documents_are_refused(self, content: object) -> None:
        blob = zlib.compress(json.dumps(content).encode())

        with pytest.raises(Untrusted):
            list(interval_windows([PackedWindows(1, NOON, NOON + SECOND, blob)], WHOLE))

    def test_more_names_than_fit_are_refused(self) -> None:
        """Each window has others."""
        names = 60
        packed_windows = (
            interval(a_window(10, lost_ns={f"{number}-{name}": 1 for name in range(names)}))
            for number in range(subject.NAMES_MAX // names + 1)
        )

        with pytest.raises(TooMuch):
            list(interval_windows(packed_windows, WHOLE))
