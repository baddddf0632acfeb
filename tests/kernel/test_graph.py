"""graph: captures, executable graphs and their launches, and the kernels in them, counted in the kernel.

Every program of `calls` makes a graph of one kernel while it prepares itself: one capture, one instantiation. Where functions are
probed one by one, these are, and those that a test names: cudaStreamBeginCapture, cudaStreamEndCapture, cudaGraphInstantiate,
cudaGraphExecDestroy, cudaGraphDestroy, cudaEventRecord, cudaStreamWaitEvent.
"""

from __future__ import annotations

from exporter.kernel.gpu_rows import GraphRow
from tests.support.traced import Run, Tracer, only


def graphs(run: Run) -> GraphRow:
    """The row of the only process."""
    return only(run.reading.gpu.graphs.values())


class TestCaptures:
    """Captures."""

    def test_captures_and_instantiations_are_counted(self, best_traced: Tracer) -> None:
        """23, and one at the beginning of the program."""
        run = best_traced.run("capture:23:1000:5")

        row = graphs(run)
        assert (row.captures, row.captured, row.failed, row.instantiated) == (24, 24, 0, 24)
        assert row.open_captures == 0

    def test_capture_that_ends_with_an_error_has_failed(self, best_traced: Tracer) -> None:
        """The end of the third of four fails: it has no graph to instantiate."""
        run = best_traced.run("capture:3:1000", environment={"STANDIN_FAIL": "cuStreamEndCapture:901:3"})

        row = graphs(run)
        assert (row.captures, row.captured, row.failed) == (4, 3, 1)

    def test_capture_without_an_end_stays_open(self, best_traced: Tracer) -> None:
        """Two begin, each on a stream of its own."""
        run = best_traced.run("abandon:2")

        row = graphs(run)
        assert (row.captures, row.captured, row.open_captures) == (3, 1, 2)

    def test_work_beside_an_open_capture_is_launched(self, best_traced: Tracer) -> None:
        """On another stream: 23 kernels are launched; only the initial one is captured."""
        run = best_traced.run("abandon:1", "cudaLaunchKernel:23:1000")

        assert only(run.reading.gpu.kernels.values()) == 23


class TestKernels:
    """Kernels in graphs."""

    def test_captured_kernels_count_when_the_graph_is_launched(self, best_traced: Tracer) -> None:
        """23 graphs of 5 kernels, each launched once."""
        run = best_traced.run("replay:23:1000:5")

        row = graphs(run)
        assert (row.launches, row.kernels, row.first_launches) == (23, 115, 23)
        assert only(run.reading.gpu.kernels.values()) == 0

    def test_each_launch_of_a_graph_counts_its_kernels(self, best_traced: Tracer) -> None:
        """The initial graph of one kernel, launched by the runtime and by the driver."""
        run = best_traced.run("cudaGraphLaunch:17", "cuGraphLaunch:6")

        row = graphs(run)
        assert (row.launches, row.kernels, row.first_launches, row.never_launched) == (23, 23, 1, 0)

    def test_stream_that_waits_for_a_captured_event_is_captured_too(self, best_traced: Tracer) -> None:
        """One kernel on each of two streams; a third, after the end, is launched directly."""
        run = best_traced.run("branch:1:1000")

        assert graphs(run).kernels == 2
        assert only(run.reading.gpu.kernels.values()) == 1


class TestExecutables:
    """Executable graphs that are not launched."""

    def test_executable_that_was_never_launched_is_counted(self, best_traced: Tracer) -> None:
        """The initial one; 23 others were destroyed before their first launch."""
        run = best_traced.run("capture:23:1000")

        row = graphs(run)
        assert (row.dropped, row.never_launched) == (23, 1)

    def test_instantiation_time_is_the_time_of_the_calls(self, best_traced: Tracer) -> None:
        """To the nanosecond: both come from the same two clock readings."""
        run = best_traced.run("capture:23:1000")

        assert graphs(run).instantiate_ns == run.row("cudaGraphInstantiate").total_ns
