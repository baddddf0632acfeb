"""window_rows: figures at the edges; test_tables has whole rows."""

from __future__ import annotations

import pytest

from exporter.history.window import NO_STEPS, OperationTime
from exporter.investigate.interval_windows import IntervalWindow
from exporter.investigate.schema import VIEW_OF
from exporter.investigate.window_rows import INTERVAL_VIEWS, WorkloadTotal
from exporter.totals import Counts, HistogramTotal
from tests.support.history import SECOND, a_window, process_labels, times

KEY = (1, 1, "", "", "", "", "", 0)


def of(**changes: object) -> IntervalWindow:
    return IntervalWindow(1, 10 * SECOND, a_window(**changes))


class TestIntervals:
    def test_window_without_steps_has_no_row_of_steps(self) -> None:
        assert [*INTERVAL_VIEWS["steps"](of(steps=NO_STEPS), KEY)] == []

    def test_operation_that_was_not_timed_has_no_durations(self) -> None:
        (row,) = INTERVAL_VIEWS["operations"](of(operations=(OperationTime("driver", "cuInit", 3, 0, NO_STEPS),)), KEY)

        assert row[10:] == ("driver", "cuInit", 3, 0, 0, 0.0, None, None, None, None)

    def test_duration_beyond_the_last_edge_is_not_known(self) -> None:
        """The overflow slot: longer than 4,096 s."""
        (row,) = INTERVAL_VIEWS["steps"](of(steps=HistogramTotal(Counts(337, (1,)), 5000 * SECOND)), KEY)

        assert row[-4:] == (5000.0, None, None, None)

    def test_count_that_sqlite_does_not_hold_is_refused(self) -> None:
        with pytest.raises(ValueError, match="a count is too large"):
            list(
                INTERVAL_VIEWS["operations"](of(operations=(OperationTime("driver", "x", 1 << 63, 0, NO_STEPS),)), KEY)
            )

    @pytest.mark.parametrize("name", INTERVAL_VIEWS)
    def test_row_has_a_value_for_each_column(self, name: str) -> None:
        for row in INTERVAL_VIEWS[name](of(), KEY):
            assert len(row) == len(VIEW_OF[name].columns)


class TestWorkloads:
    def test_labels_are_the_latest_and_times_add_up(self) -> None:
        total = WorkloadTotal(7, of(labels=process_labels("")))
        total.add(of(labels=process_labels("")))
        total.add(of(ended_seconds=20.0, steps=times(1, SECOND)))
        row = dict(zip((column.name for column in VIEW_OF["workloads"].columns), total.row(), strict=True))

        assert (row["workload"], row["rank"], row["steps"], row["step_seconds"]) == (7, "3", 501, 11.0)
        assert (row["recorded_seconds"], row["lost_seconds"], row["lost_ratio"]) == (20.0, 2.0, 0.1)

    def test_share_is_at_most_one(self) -> None:
        """What was lost before a window may be decided in it."""
        total = WorkloadTotal(1, of())
        total.add(of(lost_ns={"lock": 30 * SECOND}))

        row = dict(zip((column.name for column in VIEW_OF["workloads"].columns), total.row(), strict=True))

        assert (row["lost_seconds"], row["lost_ratio"]) == (30.0, 1.0)
