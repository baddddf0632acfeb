"""histogram_quantile: a quantile of buckets, also of those of several nodes."""

from __future__ import annotations

from pathlib import Path

import pytest

from exporter.errors import BadInput
from exporter.investigate.query import query
from exporter.investigate.row_table import result_over
from exporter.investigate.tables import QuerySpan
from tests.support.history import SECOND
from tests.support.investigated import an_hour

pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
SECONDS = 20.0
COLUMNS = ("node", "upper_edge_seconds", "steps")
P99 = "select histogram_quantile(0.99, upper_edge_seconds, steps) from rows"


def over(rows: list[list[object]], statement: str = P99) -> object:
    (row,) = result_over(COLUMNS, rows, statement, SECONDS).rows()
    return row[0]


class TestQuantile:
    def test_of_two_nodes_it_is_that_of_all_their_steps(self) -> None:
        """1,000 steps of 0.25 s and 5 of 2 s: 99 % take no longer than 0.25 s. The mean of both nodes' quantiles is 1.125 s."""
        assert over([["a", 0.25, 1000], ["b", 2.0, 5]]) == 0.25

    def test_counts_of_one_edge_are_added(self) -> None:
        """98 of 100 are in the first bucket: 99 are in both."""
        assert over([["a", 0.25, 49], ["b", 0.25, 49], ["b", 0.5, 1], ["a", 1.0, 1]]) == 0.5

    def test_edges_need_no_order(self) -> None:
        assert over([["a", 2.0, 1], ["a", 0.25, 99]]) == 0.25

    def test_empty_bucket_is_no_quantile(self) -> None:
        statement = "select histogram_quantile(0, upper_edge_seconds, steps) from rows"

        assert over([["a", 0.25, 0], ["a", 0.5, 1]], statement) == 0.5

    @pytest.mark.parametrize("rows", [[], [["a", 0.25, 0]], [["a", None, 1]]])
    def test_without_steps_and_beyond_the_last_edge_it_is_null(self, rows: list[list[object]]) -> None:
        assert over(rows) is None

    @pytest.mark.parametrize(
        "arguments", ["1.5, upper_edge_seconds, steps", "null, 1, 1", "0.5, 'a', 1", "0.5, 1, 'a'", "0.5, 1, -1"]
    )
    def test_anything_else_is_refused(self, arguments: str) -> None:
        with pytest.raises(BadInput, match="histogram_quantile wants a share between 0 and 1"):
            over([["a", 0.25, 1]], f"select histogram_quantile({arguments}) from rows")  # noqa: S608 - of this test


class TestBuckets:
    """Views of buckets have the quantiles of the others."""

    @pytest.mark.parametrize(
        ("buckets", "quantiles"),
        [
            (
                "select rank, histogram_quantile(0.99, upper_edge_seconds, steps), sum(steps) from step_buckets group by rank",
                "select rank, p99_seconds, steps from steps order by rank",
            ),
            (
                "select rank, histogram_quantile(0.5, upper_edge_seconds, timed_calls), sum(timed_calls) from operation_buckets"
                " group by rank, api, operation",
                "select rank, p50_seconds, timed_calls from operations order by rank, api, operation",
            ),
        ],
    )
    def test_quantiles_are_the_same(self, buckets: str, quantiles: str, tmp_path: Path) -> None:
        history, now_unix_ns = an_hour(tmp_path), 1 << 62
        span = QuerySpan(0, now_unix_ns - SECOND, None)
        first, second = ([*query(history, one, span, SECONDS).rows()] for one in (buckets, quantiles))

        assert first == second
        assert first
