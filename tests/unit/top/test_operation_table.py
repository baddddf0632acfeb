"""top.operation_table: the columns of a workload's calls."""

from __future__ import annotations

from dataclasses import replace

from exporter.scrape.view import OperationRates, SlowLine
from exporter.top.layout import Style, text_of
from exporter.top.operation_table import operation_table, operations_title, rows_with_lines
from exporter.top.terminal_text import UNICODE
from tests.support.views import DRIVER_LAUNCH, LAUNCH, SLOW, SYNCHRONIZE


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


class TestLines:
    """Lines of Python below the operation whose calls they made slow."""

    def shown(self, *slow_lines: SlowLine, operations: tuple[OperationRates, ...] = (SYNCHRONIZE, LAUNCH)) -> list[str]:
        workload = replace(SLOW, operations=operations, slow_lines=slow_lines)
        _, groups = rows_with_lines(workload, 90, UNICODE)
        return [text_of(line).rstrip() for group in groups for line in group]

    def test_line_has_its_calls_their_length_and_their_share_of_time(self) -> None:
        """18 calls/s of 20 ms each."""
        name, line, other = self.shown(SlowLine("cudaStreamSynchronize", "step (train.py:142)", 18.0, 0.36, 0.01))

        assert name.startswith("cudaStreamSynchronize ")
        assert line == "  slow 18.0/s of 20.0ms, 36%: step (train.py:142)"
        assert other.startswith("cudaLaunchKernel ")

    def test_three_lines_are_shown_and_the_others_counted(self) -> None:
        lines = [SlowLine("cudaLaunchKernel", f"step (train.py:{n})", 1.0, 0.1, 0.01) for n in range(5)]

        assert self.shown(*lines)[2:] == [
            *(f"  slow 1.00/s of 100ms, 10%: step (train.py:{n})" for n in range(3)),
            "  and 2 more",
        ]

    def test_operation_with_two_communicators_has_its_lines_once(self) -> None:
        """The kernel does not know them by communicator."""
        reduce = LAUNCH._replace(name="ncclAllReduce", communicator="1")
        shown = self.shown(
            SlowLine("ncclAllReduce", "step (train.py:142)", 1.0, 0.1, 0.01),
            operations=(reduce, reduce._replace(communicator="2")),
        )

        assert [line.split()[0] for line in shown] == ["ncclAllReduce", "slow", "ncclAllReduce"]


class TestTitle:
    def test_workload_and_its_calls_per_second(self) -> None:
        assert text_of(operations_title(SLOW, UNICODE, with_node=False)) == "rank 0 · 8.50k calls/s"

    def test_sampled_launches_are_mentioned(self) -> None:
        title = operations_title(replace(SLOW, is_sampled=True), UNICODE, with_node=True)

        assert text_of(title) == "rank 0 on gpu7 · 8.50k calls/s · sampling 1 in 64 kernel launches"
