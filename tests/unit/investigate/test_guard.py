"""guard: what a statement may do; tests/end_to_end/test_query_guard.py measures what attacks take."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing

import pytest

from exporter.errors import BadInput
from exporter.investigate.guard import FUNCTIONS, ROWS_MAX, StatementTime, rows_of, views_of
from exporter.investigate.tables import empty_views

pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
SECONDS = 20.0
"""Enough on a busy machine: what is refused here is refused at once."""

NUMBERS = "with recursive n(x) as (select 1 union all select x + 1 from n limit {count}) select x from n"


@pytest.fixture
def connection() -> Iterator[sqlite3.Connection]:
    with closing(empty_views()) as found:
        found.execute("insert into node values (1, '1.0', 1.5, 2.5, null, 1, 1, 10.0)")
        yield found


def refusal(connection: sqlite3.Connection, statement: str, seconds: float = SECONDS) -> str:
    with pytest.raises(BadInput) as raised:
        rows_of(connection, statement, StatementTime(seconds))
    return raised.value.one_line()


class TestViews:
    @pytest.mark.parametrize(
        ("statement", "names"),
        [
            ("select 1", set()),
            ("select count(*) from steps", {"steps"}),
            ("select s.rank from steps as s join lost using (workload)", {"steps", "lost"}),
            ("select 1 from steps natural join lost", {"steps", "lost"}),
            ("select exists (select 1 from node), (select count(*) from lost)", {"node", "lost"}),
            ("select 1 union all select 1 from chains union select 2 from stacks", {"chains", "stacks"}),
            ("with x as (select * from chains) select * from x, (select * from node)", {"chains", "node"}),
            ("select rank from lost where workload in (select workload from workloads)", {"lost", "workloads"}),
        ],
    )
    def test_names_are_those_that_the_statement_reads(
        self, connection: sqlite3.Connection, statement: str, names: set[str]
    ) -> None:
        assert views_of(connection, statement, StatementTime(SECONDS)) == names

    def test_statement_is_compiled_and_not_run(self, connection: sqlite3.Connection) -> None:
        endless = "with recursive n(x) as (select 1 union all select x + 1 from n) select max(x) from n, node"

        assert views_of(connection, endless, StatementTime(SECONDS)) == {"node"}


class TestRows:
    def test_values_of_every_kind(self, connection: sqlite3.Connection) -> None:
        found = rows_of(
            connection, "select 1, 2.5, null, 'ä', x'00ff' as blob, 9e999 from node", StatementTime(SECONDS)
        )

        assert found.columns == ("1", "2.5", "null", "'ä'", "blob", "9e999")
        assert [*found.rows()] == [[1, 2.5, None, "ä", "00ff", float("inf")]]

    def test_as_many_rows_as_are_allowed(self, connection: sqlite3.Connection) -> None:
        found = rows_of(connection, NUMBERS.format(count=ROWS_MAX), StatementTime(SECONDS))

        assert [row[0] for row in found.rows()] == list(range(1, ROWS_MAX + 1))

    def test_more_rows_are_refused(self, connection: sqlite3.Connection) -> None:
        assert "more than 50,000 rows" in refusal(connection, NUMBERS.format(count=ROWS_MAX + 1))

    def test_rows_above_the_limit_are_left_out_where_a_result_may_be_cut(self, connection: sqlite3.Connection) -> None:
        statement = NUMBERS.format(count=ROWS_MAX + 1)
        found = rows_of(connection, statement, StatementTime(SECONDS), may_be_cut=True)

        assert (len(found.lines), found.lines[-1], found.is_complete) == (50_000, b"[50000]", False)

    def test_database_can_be_used_after_a_refusal(self, connection: sqlite3.Connection) -> None:
        """A child had the limits and the failure."""
        refusal(connection, "delete from node")

        assert connection.execute("select count(*) from node").fetchone() == (1,)


class TestRefusals:
    def test_deadline(self, connection: sqlite3.Connection) -> None:
        endless = "with recursive n(x) as (select 1 union all select x + 1 from n) select max(x) from n"

        assert refusal(connection, endless, 0.1) == (
            "the statement took more than 0.1 s; add a WHERE, or use a larger --deadline"
        )

    def test_compiling_counts_for_the_deadline(self, connection: sqlite3.Connection) -> None:
        time_left = StatementTime(SECONDS)
        views_of(connection, "select 1", time_left)

        assert 0 < time_left.bounds().seconds < SECONDS

    @pytest.mark.parametrize("statement", ["", ";", "-- nothing"])
    def test_nothing(self, connection: sqlite3.Connection, statement: str) -> None:
        assert refusal(connection, statement) == "the statement returns no rows; give a SELECT"

    def test_text_that_is_no_unicode(self, connection: sqlite3.Connection) -> None:
        """As a shell may pass it."""
        assert refusal(connection, "select '\udcff'").startswith("invalid statement: ")


class TestFunctions:
    def test_those_of_this_sqlite_can_be_called(self, connection: sqlite3.Connection) -> None:
        """Its own list is longer; none of ours writes, reads files or makes blobs of any size."""
        known = {name for (name,) in connection.execute("select name from pragma_function_list")}

        assert {"count", "round", "datetime", "row_number", "like"} <= FUNCTIONS & known
        assert not FUNCTIONS & {"load_extension", "readfile", "writefile", "zeroblob", "randomblob", "fts3_tokenizer"}
