"""nccl: rows to totals of NCCL calls and communicators."""

from __future__ import annotations

import pytest

from exporter import catalog
from exporter.catalog import Metric
from exporter.collectors import nccl
from exporter.kernel.tables import Tables
from exporter.totals import Call, HistogramTotal, Total
from tests.support.tables import NCCL_WAIT, FakeTables


def collected(kernel: FakeTables, metric: Metric, process: int = 1) -> dict[tuple[str, ...], Total]:
    """Labels -> total, of one metric and process."""
    totals = nccl.collect(Tables(kernel.maps).read()).get(process, {})
    return {series.labels: total for series, total in totals.items() if series.metric is metric}


class TestOperations:
    """Durations, bytes and errors."""

    def test_durations_are_by_operation_and_communicator(self) -> None:
        """Ordinal 1 is written 0."""
        kernel = FakeTables()
        kernel.call(1, "ncclAllReduce", durations_ns=[2, 3], communicator=1)
        kernel.call(1, "ncclAllReduce", durations_ns=[2], communicator=2)
        found = collected(kernel, catalog.nccl.OPERATION_DURATION)

        assert [*found] == [("ncclAllReduce", "0"), ("ncclAllReduce", "1")]
        total = found["ncclAllReduce", "0"]
        assert isinstance(total, HistogramTotal)
        assert (total.counts[8], total.counts[13], total.sum_ns) == (1, 1, 5)

    def test_slowest_call_goes_with_the_histogram_of_its_communicator(self) -> None:
        """It becomes the exemplar of that one alone."""
        kernel = FakeTables()
        for communicator in (1, 2):
            kernel.call(1, "ncclAllReduce", durations_ns=[2, 3], communicator=communicator)
        kernel.slowest(1, "ncclAllReduce", duration_ns=3, ended_ns=47, tid=4031, tgid=4026, communicator=2)
        totals = collected(kernel, catalog.nccl.OPERATION_DURATION).values()

        assert [total.exemplar for total in totals if isinstance(total, HistogramTotal)] == [
            None,
            Call(tid=4031, duration_ns=3, ended_ns=47, tgid=4026),
        ]

    def test_bytes_are_by_operation_and_communicator(self) -> None:
        """Elements times their size, multiplied in the kernel."""
        kernel = FakeTables()
        kernel.call(1, "ncclAllGather", durations_ns=[2], moved_bytes=4096, communicator=1)

        assert collected(kernel, catalog.nccl.OPERATION_BYTES) == {("ncclAllGather", "0"): 4096}

    def test_operation_that_moves_nothing_has_no_bytes(self) -> None:
        """ncclGroupEnd; its communicator is empty, since it acts on all of them."""
        kernel = FakeTables()
        kernel.call(1, "ncclGroupEnd", durations_ns=[2])

        assert collected(kernel, catalog.nccl.OPERATION_BYTES) == {}
        assert [*collected(kernel, catalog.nccl.OPERATION_DURATION)] == [("ncclGroupEnd", "")]

    def test_errors_are_by_operation_and_code(self) -> None:
        """Beyond the largest code CUDA and NCCL define they are `other`."""
        kernel = FakeTables()
        kernel.error(1, "ncclAllReduce", code=2, count=3)
        kernel.error(1, "ncclAllReduce", code=5000)
        kernel.error(1, "ncclAllReduce", code=-5)

        assert collected(kernel, catalog.nccl.OPERATION_ERRORS) == {
            ("ncclAllReduce", "2"): 3,
            ("ncclAllReduce", "other"): 2,
        }

    def test_cuda_calls_are_skipped(self) -> None:
        """They have a collector of their own."""
        kernel = FakeTables()
        kernel.process(1)
        kernel.call(1, "cudaMalloc", durations_ns=[10])
        kernel.error(1, "cudaMalloc", code=2)

        assert nccl.collect(Tables(kernel.maps).read()) == {}


class TestCommunicators:
    """The ordinal is the label, everything else is in the info."""

    @pytest.mark.parametrize(("ordinal", "label"), [(0, ""), (1, "0"), (16, "15"), (17, "other")])
    def test_label_is_bounded(self, ordinal: int, label: str) -> None:
        """Sixteen communicators of a process have a label of their own."""
        assert nccl.communicator_label(ordinal) == label

    def test_info_has_hash_rank_and_ranks(self) -> None:
        """The hash is equal on every rank and 16 digits long."""
        kernel = FakeTables()
        kernel.communicator(1, digest=0xABC, rank=3, ranks=8, ordinal=1)

        assert collected(kernel, catalog.nccl.COMMUNICATOR_INFO) == {("0", "0000000000000abc", "3", "8"): 1}

    def test_rank_0_is_a_rank(self) -> None:
        """Not an unknown one."""
        kernel = FakeTables()
        kernel.communicator(1, digest=1, rank=0, ranks=2, ordinal=1)

        assert collected(kernel, catalog.nccl.COMMUNICATOR_INFO) == {("0", "0000000000000001", "0", "2"): 1}

    def test_communicator_created_before_the_exporter_started_has_empty_labels(self) -> None:
        """Not a rank of -1 in a communicator of 0."""
        kernel = FakeTables()
        kernel.communicator(1, digest=0, rank=-1, ranks=0, ordinal=1)

        assert collected(kernel, catalog.nccl.COMMUNICATOR_INFO) == {("0", "", "", ""): 1}

    def test_seventeenth_communicator_has_no_info(self) -> None:
        """`other` stands for several."""
        kernel = FakeTables()
        kernel.communicator(1, ordinal=17)

        assert collected(kernel, catalog.nccl.COMMUNICATOR_INFO) == {}


class TestProgress:
    """Collectives enqueued and completed, and lag, by communicator."""

    def test_enqueued_and_completed_are_by_communicator(self) -> None:
        kernel = FakeTables()
        kernel.progress(1, communicator=1, enqueued=23, completed=22)
        kernel.progress(1, communicator=2, enqueued=5)

        assert collected(kernel, catalog.nccl.ENQUEUED) == {("0",): 23, ("1",): 5}
        assert collected(kernel, catalog.nccl.COMPLETED) == {("0",): 22, ("1",): 0}

    def test_lag_is_in_nanoseconds(self) -> None:
        """A rank that is always first has 0."""
        kernel = FakeTables()
        kernel.progress(1, enqueued=2, collectives=2, lag_ns=50_000_000, late_arrivals=1)
        kernel.progress(2, enqueued=2, collectives=2)

        assert collected(kernel, catalog.nccl.ARRIVAL_LAG) == {("0",): 50_000_000}
        assert collected(kernel, catalog.nccl.ARRIVAL_LAG, process=2) == {("0",): 0}

    def test_communicators_that_share_a_label_have_only_enqueued(self) -> None:
        """The seventeenth and all later ones: when one completes, nothing follows for the others."""
        kernel = FakeTables()
        kernel.progress(1, communicator=17, enqueued=9, completed=8, lag_ns=7)

        assert collected(kernel, catalog.nccl.ENQUEUED) == {("other",): 9}
        assert collected(kernel, catalog.nccl.COMPLETED) == collected(kernel, catalog.nccl.ARRIVAL_LAG) == {}

    def test_completed_is_absent_without_the_cuda_programs(self) -> None:
        """They record it: 0 would look like a hang."""
        kernel = FakeTables()
        kernel.progress(1, enqueued=23)
        del kernel.maps["allocations"]

        assert collected(kernel, catalog.nccl.ENQUEUED) == {("0",): 23}
        assert collected(kernel, catalog.nccl.COMPLETED) == {}

    def test_waits_are_a_histogram_by_communicator(self) -> None:
        """With the slowest as exemplar; 2 ns are in slot 8, 3 ns in slot 13."""
        kernel = FakeTables()
        kernel.call(1, NCCL_WAIT, durations_ns=[2, 3, 3], communicator=2)
        kernel.slowest(1, NCCL_WAIT, duration_ns=3, ended_ns=47, tid=4031, tgid=4026, communicator=2)
        found = collected(kernel, catalog.nccl.WAIT)

        total = found["1",]
        assert isinstance(total, HistogramTotal)
        assert (total.counts[8], total.counts[13], sum(total.counts), total.sum_ns) == (1, 2, 3, 8)
        assert total.exemplar == Call(tid=4031, duration_ns=3, ended_ns=47, tgid=4026)

    def test_waits_are_no_calls(self) -> None:
        """The same calls have their durations under CUDA."""
        kernel = FakeTables()
        kernel.process(1)
        kernel.call(1, NCCL_WAIT, durations_ns=[2], communicator=1)
        totals = nccl.collect(Tables(kernel.maps).read())

        assert [series.metric for series in totals[1]] == [catalog.nccl.WAIT]
