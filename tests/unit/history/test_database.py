"""history.database: what a file of unknown origin cannot do."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from exporter.files.budget import ReadBudget
from exporter.history import database
from exporter.history.store import SCHEMA_VERSION
from exporter.text.untrusted import Untrusted
from tests.support.hostile_files import make_history

ENDLESS = "with recursive n(x) as (select 1 union all select x + 1 from n) select max(x) from n"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A valid history."""
    path = tmp_path / "state" / "history.sqlite"
    make_history(path)
    return path


def changed(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in statements:
            connection.execute(statement)


@pytest.fixture
def connection(path: Path) -> Iterator[sqlite3.Connection]:
    """Restricted, with a budget that is spent after ten looks at the clock."""
    looks = iter(range(1_000_000))
    with closing(database.connected(path, "mode=rw")) as connection:
        database.restrict(connection, ReadBudget(10.0, 10.0, clock=lambda: float(next(looks))))
        yield connection


class TestRestrictions:
    def test_long_query_ends_with_the_budget(self, path: Path, connection: sqlite3.Connection) -> None:
        """With 3,000 rows a look at each combination of four would take months."""
        changed(
            path,
            "with recursive n(x) as (select 100 union all select x + 1 from n where x < 3100)"
            " insert into runs select x, 1, 1, null, '', 1, 1.0 from n",
        )
        with pytest.raises(sqlite3.OperationalError, match="interrupted"):
            connection.execute("select max(a.id + b.id + c.id + d.id) from runs a, runs b, runs c, runs d").fetchall()

    @pytest.mark.parametrize(
        "statement",
        [
            "delete from runs",
            "attach 'other.sqlite' as other",
            "create table a(b)",
            "select load_extension('x')",
            "select randomblob(1000000000)",
            ENDLESS,
        ],
    )
    def test_all_but_reading_is_denied(self, connection: sqlite3.Connection, statement: str) -> None:
        with pytest.raises(sqlite3.DatabaseError, match="not authorized"):
            connection.execute(statement)

    def test_bytes_that_are_no_text_are_replaced(self, path: Path, connection: sqlite3.Connection) -> None:
        changed(path, "update runs set version = cast(x'61ff' as text)")

        assert connection.execute("select version from runs").fetchall() == [("a\ufffd",)]

    def test_large_values_are_refused(self, path: Path, connection: sqlite3.Connection) -> None:
        changed(path, "update windows set processes = zeroblob(9000000)")
        with pytest.raises(sqlite3.DataError, match="too big"):
            connection.execute("select processes from windows").fetchall()


class TestSchema:
    def test_own_schema_is_accepted(self, connection: sqlite3.Connection) -> None:
        database.refuse_other_schema(connection, SCHEMA_VERSION)

    def test_file_of_version_1_has_no_stacks(self, path: Path) -> None:
        changed(path, "drop table stacks")
        with closing(database.connected(path, "mode=ro")) as connection:
            database.refuse_other_schema(connection, 1)
            with pytest.raises(Untrusted, match="no table stacks"):
                database.refuse_other_schema(connection, 2)

    @pytest.mark.parametrize(
        ("statements", "reason"),
        [
            (["drop table runs", f"create view runs as {ENDLESS}"], "no table runs"),
            (["drop table runs", "create virtual table runs using fts5(id)"], "no table runs"),
            (["alter table windows rename column run to other"], "windows has no column run"),
            (
                [
                    "alter table events rename column document to other",
                    "alter table events add column document text generated always as (hex(other)) virtual",
                ],
                "events has no column document",
            ),
            ([f"create table t{number}(a)" for number in range(70)], "more than 64 tables"),
        ],
    )
    def test_other_schema_is_refused(self, path: Path, statements: list[str], reason: str) -> None:
        changed(path, *statements)
        with closing(database.connected(path, "mode=ro")) as connection:
            database.restrict(connection, ReadBudget.for_size(0))
            with pytest.raises(Untrusted, match=reason):
                database.refuse_other_schema(connection, SCHEMA_VERSION)
