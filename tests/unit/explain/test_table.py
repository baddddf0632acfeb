"""table: steps, time and operations of each process."""

from __future__ import annotations

from exporter.explain.sums import Sums
from exporter.explain.table import rows
from exporter.history.run import RecordedWindows
from exporter.history.selection import Selection
from exporter.history.window import OperationTime
from exporter.python.call_site import OTHER_STACKS
from exporter.totals import Counts, HistogramTotal
from tests.support.history import MS, a_call_site, a_window


class TestRows:
    def test_numbers_are_aligned_right(self) -> None:
        """A table of processes, then one of their operations."""
        sums = Sums(Selection(), with_operations=True)
        failed = OperationTime("runtime", "cudaMalloc", 3, 2, HistogramTotal(Counts.of([3], 160), 3 * MS))
        window = a_window(operations=(*a_window().operations, failed))
        sums.add([RecordedWindows(1, window.began_unix_ns, window.ended_unix_ns, [window])])

        assert rows(sums.processes()) == [
            "pid  rank  command  steps     step  lost  off CPU  CPU stolen  switches/s",
            "100     3  python     500  20.0 ms  10 %     10 %       9.0 %         100",
            "off CPU and CPU stolen (ready to run, not on a CPU): sums over the threads that make calls; 200 % is two threads.",
            "",
            "pid  rank  operation              calls  errors     mean      p50      p99",
            "100     3  cudaStreamSynchronize    500       -  10.0 ms  13.1 ms  13.1 ms",
            "100     3  cudaMalloc                 3       2   1.0 ms   977 us   977 us",
        ]

    def test_lines_of_python_with_slow_calls_follow(self) -> None:
        """23 calls of 50 ms each from one line, 2 of the same length from others."""
        sums = Sums(Selection(), with_operations=True)
        others = a_call_site(calls=2, slow_from_ns=0, stack=OTHER_STACKS)
        window = a_window(call_sites=(others, a_call_site()))
        sums.add([RecordedWindows(1, window.began_unix_ns, window.ended_unix_ns, [window])])

        assert rows(sums.processes())[-4:] == [
            "",
            "pid  rank  slow operation         calls   total     mean  slow from  line of Python",
            "100     3  cudaStreamSynchronize     23   1.1 s  50.0 ms    25.0 ms"
            "  step (train.py:142) through Stream.synchronize (torch/cuda/streams.py:106)",
            "100     3  cudaStreamSynchronize      2  100 ms  50.0 ms          -  other stacks",
        ]

    def test_no_process_has_no_table(self) -> None:
        assert rows([]) == []
