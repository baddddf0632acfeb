"""top.operation_table: the columns of a workload's calls."""

from __future__ import annotations

from dataclasses import replace

from exporter.top.layout import Style, text_of
from exporter.top.operation_table import operation_table, operations_title
from exporter.top.terminal_text import UNICODE
from tests.support.views import DRIVER_LAUNCH, LAUNCH, SLOW


def lines(*operations: object) -> list[str]:
    """The table of these operations on a wide terminal, without trailing blanks."""
    workload = replace(SLOW, operations=operations)
    return [text_of(line).rstrip() for line in operation_table(workload, 90, UNICODE)]


class TestOperationTable:
    def test_call_has_its_rate_its_share_of_time_and_quantiles(self) -> None:
        assert lines(LAUNCH) == [
            "OPERATION         CALLS/S   TIME     P50     P95     P99",
            "cudaLaunchKernel    6.91k  <0.1%  2.08µs  3.72µs  5.82µs",
        ]

    def test_call_without_timing_has_dashes(self) -> None:
        """It was counted only."""
        assert lines(DRIVER_LAUNCH)[1].split() == ["cuLaunchKernel", "6.91k", "—", "—", "—", "—"]

    def test_errors_have_a_column_where_there_are_some(self) -> None:
        """Without errors the column is left out."""
        assert lines(LAUNCH._replace(errors_per_second=2.0)) == [
            "OPERATION         CALLS/S   TIME     P50     P95     P99  ERRORS/S",
            "cudaLaunchKernel    6.91k  <0.1%  2.08µs  3.72µs  5.82µs      2.00",
        ]

    def test_errors_stand_out(self) -> None:
        workload = replace(SLOW, operations=(LAUNCH._replace(errors_per_second=2.0), LAUNCH))
        _, failing, fine = operation_table(workload, 90, UNICODE)

        assert Style.HIGH in {span.style for span in failing}
        assert Style.HIGH not in {span.style for span in fine}

    def test_communicator_follows_its_operation(self) -> None:
        """The same call on two of them has two rows."""
        assert lines(LAUNCH._replace(name="ncclAllReduce", communicator="1"))[1].startswith("ncclAllReduce [1]")


class TestTitle:
    def test_workload_and_its_calls_per_second(self) -> None:
        assert text_of(operations_title(SLOW, UNICODE, with_node=False)) == "rank 0 · 8.50k calls/s"

    def test_sampled_launches_are_mentioned(self) -> None:
        title = operations_title(replace(SLOW, is_sampled=True), UNICODE, with_node=True)

        assert text_of(title) == "rank 0 on gpu7 · 8.50k calls/s · sampling 1 in 64 kernel launches"
