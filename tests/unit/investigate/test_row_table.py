"""row_table: a statement over rows that others have sent."""

from __future__ import annotations

import pytest

from exporter.errors import BadInput
from exporter.investigate.row_table import result_over

pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
SECONDS = 20.0
COLUMNS = ("node", "cause", "lost_seconds")
ROWS = [["a", "io", 1.5], ["b", "io", 2.0], ["b", "steal", None]]


def refusal(statement: str, columns: tuple[str, ...] = COLUMNS) -> str:
    with pytest.raises(BadInput) as raised:
        result_over(columns, (), statement, SECONDS)
    return raised.value.one_line()


class TestResult:
    def test_aggregate_over_all_nodes(self) -> None:
        statement = "select cause, sum(lost_seconds), count(distinct node) from rows group by cause order by cause"
        found = result_over(COLUMNS, ROWS, statement, SECONDS)

        assert found.columns == ("cause", "sum(lost_seconds)", "count(distinct node)")
        assert [*found.rows()] == [["io", 3.5, 2], ["steal", None, 1]]

    def test_values_stay_as_they_are(self) -> None:
        found = result_over(("a",), [["1"], [1], [1.0], [None]], "select a, typeof(a) from rows", SECONDS)

        assert [*found.rows()] == [["1", "text"], [1, "integer"], [1.0, "real"], [None, "null"]]

    def test_name_of_a_column_may_be_an_expression(self) -> None:
        found = result_over(("node", 'max("x")'), [["a", 1]], 'select sum("max(""x"")") as s from rows', SECONDS)

        assert [*found.rows()] == [[1]]


class TestRefusal:
    """The guard of `query`, with one table."""

    @pytest.mark.parametrize(
        ("statement", "line"),
        [
            ("select * from steps", "no such table: steps; the tables are rows"),
            ("select cuase from rows", "no such column: cuase; did you mean cause?"),
            ("delete from rows", "a statement can only read the tables: want one SELECT; the table rows has node,"),
            ("select sql from sqlite_master", "sqlite_master is not a table; the tables are rows"),
            ("select load_extension('x') from rows", "the function load_extension is not available in statements"),
        ],
    )
    def test_line(self, statement: str, line: str) -> None:
        assert refusal(statement).startswith(line)

    def test_columns_of_one_name(self) -> None:
        assert refusal("select 1", ("a", "A")).startswith("the columns cannot be those of a table: duplicate column")

    def test_more_rows_than_memory(self) -> None:
        """60 MB of text."""
        with pytest.raises(BadInput, match="more rows than can be merged"):
            result_over(("a",), (["x" * 100_000] for _ in range(600)), "select 1", SECONDS)
