"""A SQLite file of unknown origin, opened so that reading it runs nothing, changes nothing, and comes to an end.

In: a path. Out: a connection on which only our tables can be read, or sqlite3.Error. Source: https://www.sqlite.org/security.html.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from exporter.files.budget import ReadBudget
from exporter.history.packing import UNPACKED_BYTES_MAX
from exporter.text import untrusted

_TABLES_1: Final = {
    "runs": ("id", "began_unix_ns", "seen_unix_ns", "ended_unix_ns", "version", "has_chains", "window_seconds"),
    "windows": ("id", "run", "began_unix_ns", "ended_unix_ns", "processes"),
    "events": ("id", "run", "chain_id", "change", "at_unix_ns", "document"),
}
_STACKS: Final = {"stacks": ("id", "frames")}
_COLLECTIVES: Final = {"collectives": ("run", "communicator", "number", "at_unix_ns")}
_MEMBERSHIPS: Final = {
    "memberships": (
        *("run", "process", "communicator", "rank", "ranks"),
        *("collectives", "entered_unix_ns", "labels", "seen_unix_ns"),
    )
}
WITH_STACKS: Final = 2
"""The version of a file that has stacks of call sites."""
WITH_COLLECTIVES: Final = 3
"""The version of a file that has when collectives were entered."""
WITH_MEMBERSHIPS: Final = 4
"""The version of a file that has which ranks processes are in their communicators."""


def tables_of(version: int) -> Mapping[str, tuple[str, ...]]:
    """The columns that are read, by table. version: of the file."""
    stacks = _STACKS if version >= WITH_STACKS else {}
    collectives = _COLLECTIVES if version >= WITH_COLLECTIVES else {}
    return _TABLES_1 | stacks | collectives | (_MEMBERSHIPS if version >= WITH_MEMBERSHIPS else {})


_TIMEOUT_SECONDS: Final = 2.0
_INSTRUCTIONS: Final = 20_000  # of SQLite's virtual machine, about a millisecond
_SCHEMA_ROWS_MAX: Final = 64
_COLUMNS_MAX: Final = 64
_LIMITS: Final = {
    sqlite3.SQLITE_LIMIT_LENGTH: UNPACKED_BYTES_MAX,  # of a row, a text or a blob
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: 64 << 10,
    sqlite3.SQLITE_LIMIT_COLUMN: _COLUMNS_MAX,
    sqlite3.SQLITE_LIMIT_EXPR_DEPTH: 32,
    sqlite3.SQLITE_LIMIT_COMPOUND_SELECT: 4,
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
    sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH: 1,
    sqlite3.SQLITE_LIMIT_WORKER_THREADS: 0,
}
_PRAGMAS: Final = (
    "query_only = on",
    "trusted_schema = off",
    "cell_size_check = on",
    "mmap_size = 0",  # a mapped file that is cut short would end the program
    "cache_size = -2048",
    "automatic_index = off",
)
_READING: Final = (
    sqlite3.SQLITE_SELECT,
    sqlite3.SQLITE_READ,
    sqlite3.SQLITE_PRAGMA,
    sqlite3.SQLITE_TRANSACTION,
)
_FUNCTIONS: Final = ("max",)


def connected(path: Path, how: str) -> sqlite3.Connection:
    """how: parameters of SQLite's URI, such as `mode=ro`. No link is followed at the end of the path."""
    return sqlite3.connect(
        f"{path.absolute().as_uri()}?{how}", uri=True, timeout=_TIMEOUT_SECONDS, isolation_level=None
    )


def restrict(connection: sqlite3.Connection, budget: ReadBudget) -> None:
    """Nothing but SELECT, on rows of bounded size, until the budget is spent."""
    for limit, most in _LIMITS.items():
        connection.setlimit(limit, most)
    connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
    connection.set_progress_handler(lambda: budget.is_spent, _INSTRUCTIONS)
    for pragma in _PRAGMAS:
        connection.execute(f"pragma {pragma}")
    connection.set_authorizer(_authorized)


def _authorized(action: int, first: str | None, second: str | None, *_: str | None) -> int:
    """first, second: what the action is about, for a function its name second."""
    allowed = action in _READING or (action == sqlite3.SQLITE_FUNCTION and (second or "").lower() in _FUNCTIONS)
    return sqlite3.SQLITE_OK if allowed else sqlite3.SQLITE_DENY


def refuse_other_schema(connection: sqlite3.Connection, version: int) -> None:
    """Our names must be tables with stored columns: a view, a virtual table or a computed column would run what it likes."""
    known = connection.execute(
        f"select type, name, rootpage from sqlite_schema limit {_SCHEMA_ROWS_MAX + 1}"  # noqa: S608 - a number of our own
    ).fetchall()
    if len(known) > _SCHEMA_ROWS_MAX:
        raise untrusted.Untrusted(f"more than {_SCHEMA_ROWS_MAX} tables and indexes")
    tables = {untrusted.text(name).lower() for kind, name, page in known if kind == "table" and page}
    for table, columns in tables_of(version).items():
        if table not in tables:
            raise untrusted.Untrusted(f"no table {table}")
        found = {
            untrusted.text(name): hidden for _, name, *_, hidden in connection.execute(f"pragma table_xinfo({table})")
        }
        for column in columns:
            if found.get(column) != 0:
                raise untrusted.Untrusted(f"{table} has no column {column}")
