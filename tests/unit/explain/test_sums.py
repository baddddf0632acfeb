"""explanation.sums: windows added up to a span."""

from __future__ import annotations

from exporter.explain.selection import Selection
from exporter.explain.sums import Sums, quantile_ns
from exporter.explain.table import rows
from exporter.history.run import RecordedWindows
from exporter.history.window import OperationTime
from exporter.totals import Counts, HistogramTotal
from tests.support.history import MS, NOON, SECOND, a_window


def sums_of(*ended_seconds: float) -> Sums:
    """Windows of rank 3."""
    sums = Sums(Selection(), with_operations=True)
    windows = [a_window(ended) for ended in ended_seconds]
    sums.add(RecordedWindows(1, window.began_unix_ns, window.ended_unix_ns, [window]) for window in windows)
    return sums


class TestAdding:
    """Nothing is a mean of means."""

    def test_counts_times_and_switches_add_up(self) -> None:
        """Three windows of ten seconds."""
        (process,) = sums_of(10, 20, 30).processes()

        assert (process.covered_ns, process.steps.counts.total, process.step_ns) == (30 * SECOND, 1500, 20 * MS)
        assert (process.lost_ns["cpu_contention"], process.voluntary) == (2700 * MS, 2700)
        assert process.operations["runtime", "cudaStreamSynchronize"].calls == 1500

    def test_stolen_and_off_cpu_are_states(self) -> None:
        """Waiting for the GPU is neither: that may be done on a CPU or off it."""
        (process,) = sums_of(10).processes()

        assert (process.stolen_ns, process.off_cpu_ns) == (900 * MS, 1000 * MS)

    def test_spans_without_a_gap_are_one(self) -> None:
        """And one with a gap is two."""
        assert sums_of(10, 20, 50).spans == [(NOON, NOON + 20 * SECOND), (NOON + 40 * SECOND, NOON + 50 * SECOND)]


class TestQuantiles:
    """From the buckets of all windows together."""

    def test_quantile_is_the_upper_edge_of_its_bucket(self) -> None:
        """Slot 160 ends at 2**-10 s, slot 168 at twice that."""
        counts = Counts.of([98, *[0] * 7, 2], 160)

        assert quantile_ns(counts, 0.5) == 976_562.5
        assert quantile_ns(counts, 0.99) == 1_953_125

    def test_nothing_has_no_quantile(self) -> None:
        """Not even 0."""
        assert quantile_ns(Counts(), 0.5) is None


class TestTable:
    """Of processes."""

    def test_numbers_stand_at_the_right(self) -> None:
        """A process, then its operations."""
        sums = Sums(Selection(), with_operations=True)
        failed = OperationTime("runtime", "cudaMalloc", 3, 2, HistogramTotal(Counts.of([3], 160), 3 * MS))
        window = a_window(operations=(*a_window().operations, failed))
        sums.add([RecordedWindows(1, window.began_unix_ns, window.ended_unix_ns, [window])])

        assert rows(sums.processes()) == [
            "pid  rank  command  steps     step  lost  off CPU  CPU stolen  switches/s",
            "100     3  python     500  20.0 ms  10 %     10 %       9.0 %         100",
            "off CPU, CPU stolen (ready to run, without a CPU): of the threads that make calls, added up; 200 % is two of them.",
            "",
            "pid  rank  operation              calls  errors     mean      p50      p99",
            "100     3  cudaStreamSynchronize    500       -  10.0 ms  13.1 ms  13.1 ms",
            "100     3  cudaMalloc                 3       2   1.0 ms   977 us   977 us",
        ]
