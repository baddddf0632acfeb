"""comparison_text: a comparison for people, and as JSON."""

from __future__ import annotations

from datetime import UTC

from exporter.explain.comparison import compared
from exporter.explain.comparison_text import comparison_document, comparison_lines
from exporter.explain.explanation import explain
from exporter.history.selection import Selection
from exporter.history.window import OperationTime, Window
from tests.support.history import MS, NOON, SECOND, a_run, a_window, process_labels, times
from tests.unit.explain.test_comparison import QUIET, SLOW, spanning

HEAD = "The 10 s to 08:01:00 UTC, compared with the 10 s to 08:00:10 UTC:"


def lines(before: list[Window], now: list[Window]) -> list[str]:
    return comparison_lines(compared(spanning(*before), spanning(*now, until_seconds=60)), UTC)


class TestLines:
    def test_slower_workload(self) -> None:
        operations = (OperationTime("runtime", "cudaStreamSynchronize", 500, 0, times(500, 15 * MS)),)
        slow = a_window(60, steps=times(250, 40 * MS), operations=operations)

        assert lines([QUIET], [slow]) == [
            HEAD,
            "  rank 3 (pid 100): steps take 2.0 times as long, 20.0 ms -> 40.0 ms; lost 1.0 % -> 10 % of the time",
            "    more lost to cpu_contention: 0 % -> 9.0 % of the time, culprit stress-ng",
            "    cudaStreamSynchronize: 10.0 ms -> 15.0 ms a call",
        ]

    def test_workloads_that_came_or_went(self) -> None:
        new = a_window(60, labels=process_labels("4", 104), process=2)

        assert sorted(lines([QUIET], [new])[1:]) == [
            "  rank 3 (pid 100) did nothing any more",
            "  rank 4 (pid 104) is new",
        ]

    def test_nothing_differs(self) -> None:
        assert lines([a_window()], [a_window(60)]) == [f"{HEAD} nothing differs.", "  1 compared."]

    def test_others_are_counted(self) -> None:
        same = [a_window(end, labels=process_labels("4", 104), process=2) for end in (10, 60)]

        assert lines([QUIET, same[0]], [SLOW, same[1]])[-1] == "  1 other does not differ."

    def test_no_process(self) -> None:
        assert lines([], []) == [f"{HEAD} no process made a traced call in either."]

    def test_time_without_a_recording_is_listed(self) -> None:
        """What is new may have been there before, unseen."""
        earlier = explain([a_run()], (), (), selection=Selection(), since_unix_ns=NOON - 50 * SECOND, now_unix_ns=NOON)
        found = comparison_lines(compared(earlier, spanning(SLOW, until_seconds=60)), UTC)

        assert found[1] == "  rank 3 (pid 100) is new"
        assert found[2].startswith("Nothing was recorded from 07:59:10 UTC to 08:00:00 UTC (50 s): ")


class TestDocument:
    def test_every_workload_is_in_it(self) -> None:
        document = comparison_document(compared(spanning(QUIET), spanning(SLOW, until_seconds=60)))
        (workload,) = document["workloads"]

        assert document["earlier"]["until_unix_seconds"] == NOON / SECOND + 10
        assert (workload["rank"], workload["differs"]) == ("3", True)
        assert workload["step_mean_seconds"] == {"earlier": 0.02, "later": 0.04}
        assert workload["causes"] == [
            {"cause": "cpu_contention", "share_ratio": {"earlier": 0.0, "later": 0.09}, "culprit": "stress-ng"}
        ]
