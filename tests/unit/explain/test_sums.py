"""sums: windows added up per process."""

from __future__ import annotations

from exporter.explain.sums import Sums
from exporter.history.run import RecordedWindows
from exporter.history.selection import Selection
from tests.support.history import MS, NOON, SECOND, a_window


def sums_of(*ended_seconds: float) -> Sums:
    """Windows of rank 3 that end at these times."""
    sums = Sums(Selection(), with_operations=True)
    windows = [a_window(ended) for ended in ended_seconds]
    sums.add(RecordedWindows(1, window.began_unix_ns, window.ended_unix_ns, [window]) for window in windows)
    return sums


class TestSums:
    def test_counts_times_and_switches_are_added_up(self) -> None:
        """Three windows of ten seconds."""
        (process,) = sums_of(10, 20, 30).processes()

        assert (process.covered_ns, process.steps.counts.total, process.step_ns) == (30 * SECOND, 1500, 20 * MS)
        assert (process.lost_ns["cpu_contention"], process.voluntary) == (2700 * MS, 2700)
        assert process.operations["runtime", "cudaStreamSynchronize"].calls == 1500

    def test_no_more_than_all_time_is_lost(self) -> None:
        """What was lost before a window may be decided in it: 11 s in one of ten."""
        (process,) = sums_of(10).processes()
        process.lost_ns["lock"] = 11 * SECOND

        assert process.lost_share == 1.0

    def test_waiting_for_the_gpu_is_neither_stolen_nor_off_cpu(self) -> None:
        """A thread may spin or sleep while it waits."""
        (process,) = sums_of(10).processes()

        assert (process.stolen_ns, process.off_cpu_ns) == (900 * MS, 1000 * MS)

    def test_spans_are_split_at_a_gap(self) -> None:
        assert sums_of(10, 20, 50).spans == [(NOON, NOON + 20 * SECOND), (NOON + 40 * SECOND, NOON + 50 * SECOND)]
