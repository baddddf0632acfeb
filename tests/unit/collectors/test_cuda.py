"""cuda: rows to totals of CUDA calls, copies and memory."""

from __future__ import annotations

from exporter import catalog
from exporter.catalog import Metric
from exporter.collectors import cuda
from exporter.kernel.tables import Tables
from exporter.totals import Call, HistogramTotal, Total
from tests.support.tables import FakeTables


def collected(kernel: FakeTables, metric: Metric, process: int = 1) -> dict[tuple[str, ...], Total]:
    """Labels -> total, of one metric and process."""
    totals = cuda.collect(Tables(kernel.maps).read()).get(process, {})
    return {series.labels: total for series, total in totals.items() if series.metric is metric}


def kernel_with_process(**row: object) -> FakeTables:
    """Process 1."""
    kernel = FakeTables()
    kernel.process(1, **row)  # type: ignore[arg-type]
    return kernel


class TestOperations:
    def test_calls_are_counted_by_api_and_operation(self) -> None:
        """Runtime and driver are never one series."""
        kernel = kernel_with_process()
        kernel.call(1, "cudaMalloc", durations_ns=[10, 20])
        kernel.call(1, "cuMemAlloc", durations_ns=[10])

        assert collected(kernel, catalog.cuda.OPERATIONS) == {("runtime", "cudaMalloc"): 2, ("driver", "cuMemAlloc"): 1}

    def test_durations_are_a_histogram_with_its_sum(self) -> None:
        """Two calls of 2 ns and one of 3: slots 8 and 13."""
        kernel = kernel_with_process()
        kernel.call(1, "cudaMalloc", durations_ns=[2, 2, 3])
        total = collected(kernel, catalog.cuda.OPERATION_DURATION)["runtime", "cudaMalloc"]

        assert isinstance(total, HistogramTotal)
        assert (total.counts[8], total.counts[13], sum(total.counts), total.sum_ns) == (2, 1, 3, 7)

    def test_slowest_call_goes_with_the_histogram(self) -> None:
        """It becomes the exemplar."""
        kernel = kernel_with_process()
        kernel.call(1, "cudaMalloc", durations_ns=[2, 3])
        kernel.slowest(1, "cudaMalloc", duration_ns=3, ended_ns=47, tid=4031, tgid=4026)
        total = collected(kernel, catalog.cuda.OPERATION_DURATION)["runtime", "cudaMalloc"]

        assert isinstance(total, HistogramTotal)
        assert total.exemplar == Call(tid=4031, duration_ns=3, ended_ns=47, tgid=4026)

    def test_calls_never_timed_are_counted_without_a_histogram(self) -> None:
        """Driver calls that the runtime made."""
        kernel = kernel_with_process()
        kernel.call(1, "cuMemAlloc", untimed=4)

        assert collected(kernel, catalog.cuda.OPERATIONS) == {("driver", "cuMemAlloc"): 4}
        assert collected(kernel, catalog.cuda.OPERATION_DURATION) == {}

    def test_nccl_calls_are_skipped(self) -> None:
        """They have a collector of their own."""
        kernel = kernel_with_process()
        kernel.call(1, "ncclAllReduce", durations_ns=[10], communicator=1)
        kernel.error(1, "ncclAllReduce", code=2)

        assert cuda.collect(Tables(kernel.maps).read()) == {1: {}}

    def test_operations_of_an_unknown_process_are_skipped(self) -> None:
        """Its row is deleted: they were counted when it ended."""
        kernel = FakeTables()
        kernel.call(1, "cudaMalloc", durations_ns=[10])

        assert cuda.collect(Tables(kernel.maps).read()) == {}


class TestErrors:
    def test_errors_have_their_numeric_code(self) -> None:
        """2: out of memory."""
        kernel = kernel_with_process()
        kernel.error(1, "cudaMalloc", code=2, count=3)

        assert collected(kernel, catalog.cuda.OPERATION_ERRORS) == {("runtime", "cudaMalloc", "2"): 3}

    def test_undefined_error_codes_are_other(self) -> None:
        """So that stray return values create no series: 999 is the last code."""
        kernel = kernel_with_process()
        for code in (999, 1000, -1, 2**31 - 1):
            kernel.error(1, "cudaFree", code=code)

        assert collected(kernel, catalog.cuda.OPERATION_ERRORS) == {
            ("runtime", "cudaFree", "999"): 1,
            ("runtime", "cudaFree", "other"): 3,
        }
