"""A statement over rows that others have sent, as the table `rows` of a database in memory, under the guard of `query`.

In: names of columns, and rows of text, numbers and null. Out: a Result. SQLite keeps values as they are: columns have no type.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import closing
from typing import Any, Final

from exporter.errors import BadInput
from exporter.investigate.guard import StatementTime, rows_of
from exporter.investigate.readable import Readable
from exporter.investigate.result import Result
from exporter.investigate.tables import in_memory

TABLE: Final = "rows"


def result_over(columns: Sequence[str], rows: Iterable[Sequence[Any]], statement: str, limit_seconds: float) -> Result:
    """columns: with different names. limit_seconds: for the statement. Raises BadInput, also for more rows than fit."""
    readable = Readable("table", {TABLE: columns}, f"the table {TABLE} has {', '.join(columns)}")
    with closing(in_memory()) as connection:
        try:
            connection.execute(f"create table {TABLE} ({', '.join(map(_quoted, columns))})")
            connection.execute("begin")
            marks = ", ".join("?" * len(columns))
            connection.executemany(f"insert into {TABLE} values ({marks})", rows)  # noqa: S608 - a name of our own
            connection.execute("commit")
        except MemoryError:
            raise BadInput(
                "the nodes have sent more rows than can be merged", remedy="group or limit them in the first SELECT"
            ) from None
        except sqlite3.Error as error:
            raise BadInput(f"the columns cannot be those of a table: {error}", remedy="name them with AS") from None
        return rows_of(connection, statement, StatementTime(limit_seconds), readable=readable)


def _quoted(name: str) -> str:
    escaped = name.replace('"', '""')
    return f'"{escaped}"'
