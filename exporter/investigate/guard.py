"""Statements of a user, run so that they can only read, and come to an end within bounds of time, memory and rows.

In: a database in memory and a statement. Out: names of the views that it reads, or its rows; BadInput for what is refused. SQLite
decides what a statement does, by the authorizer, and never the text. A child process runs it: a single instruction of SQLite, a
LIKE on long texts for example, checks no deadline, and what Python takes has no limit of its own. Source: https://www.sqlite.org/security.html.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterator, Sequence
from typing import Any, Final

from exporter.errors import BadInput
from exporter.investigate import histogram_quantile
from exporter.investigate.child import ChildBounds, ChildFailed, started
from exporter.investigate.histogram_quantile import HistogramQuantile
from exporter.investigate.mistakes import refusal
from exporter.investigate.readable import VIEWS_ONLY, Readable
from exporter.investigate.result import Result

ROWS_MAX: Final = 50_000
RESULT_BYTES_MAX: Final = 8 << 20

_MEMORY_BYTES: Final = 60 << 20
"""For SQLite, whose own limit does not count what its allocator leaves unused between pieces, and for the rows in Python."""
_VALUE_BYTES_MAX: Final = 256 << 10
_INSTRUCTIONS: Final = 5_000  # of SQLite's virtual machine, a fraction of a millisecond
_FRAME_BYTES: Final = 32 << 10
_OPEN: Final = "OpenRead"
"""The instruction that opens a table by the number of its root page. Source: https://www.sqlite.org/opcode.html."""
_LIMITS: Final = {
    sqlite3.SQLITE_LIMIT_LENGTH: _VALUE_BYTES_MAX,
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: 64 << 10,
    sqlite3.SQLITE_LIMIT_COLUMN: 64,
    sqlite3.SQLITE_LIMIT_EXPR_DEPTH: 100,
    sqlite3.SQLITE_LIMIT_COMPOUND_SELECT: 20,
    sqlite3.SQLITE_LIMIT_VDBE_OP: 100_000,
    sqlite3.SQLITE_LIMIT_FUNCTION_ARG: 32,
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
    sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH: 256,
    sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER: 0,
    sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH: 1,
    sqlite3.SQLITE_LIMIT_WORKER_THREADS: 0,
}
FUNCTIONS: Final = frozenset(
    (
        *("avg", "count", "group_concat", "max", "min", "sum", "total"),
        *(
            "abs",
            "char",
            "coalesce",
            "format",
            "glob",
            "hex",
            "ifnull",
            "iif",
            "instr",
            "length",
            "like",
            "lower",
            "ltrim",
        ),
        *(
            "nullif",
            "printf",
            "replace",
            "round",
            "rtrim",
            "sign",
            "substr",
            "substring",
            "trim",
            "typeof",
            "unicode",
            "upper",
        ),
        *("date", "datetime", "julianday", "strftime", "time", "unixepoch"),
        *("ceil", "ceiling", "exp", "floor", "ln", "log", "log10", "log2", "mod", "pow", "power", "sqrt", "trunc"),
        *("cume_dist", "dense_rank", "first_value", "lag", "last_value", "lead", "nth_value", "ntile", "percent_rank"),
        *("rank", "row_number"),
        histogram_quantile.NAME,
    )
)
"""What a statement may call, if this SQLite has it."""

_EXPECTED: Final = (sqlite3.Error, sqlite3.Warning, ValueError, OverflowError, MemoryError)


class StatementTime:
    """For all that is done with one statement, without what it reads. Made for it alone."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._left_seconds = seconds

    def bounds(self) -> ChildBounds:
        return ChildBounds(max(self._left_seconds, 0.0), _MEMORY_BYTES, _EXPECTED)

    def spend(self, seconds: float) -> None:
        self._left_seconds -= seconds


def views_of(connection: sqlite3.Connection, statement: str, time_left: StatementTime) -> frozenset[str]:
    """Names of the views that the statement reads. Raises BadInput for what is not allowed or not SQL."""

    def work() -> Iterator[bytes]:
        pages = dict(connection.execute("select rootpage, name from sqlite_schema"))
        _restrict(connection, time_left.bounds().seconds, VIEWS_ONLY)
        # Compiled, and not run. The program opens what it reads; the authorizer is not called for a column of USING.
        program = connection.execute(f"explain {statement}")
        names = {pages.get(page) for _, opcode, _, page, *_ in program if opcode == _OPEN}
        yield json.dumps(sorted(names & VIEWS_ONLY.columns_of.keys())).encode()

    (content,) = _contents(work, time_left, VIEWS_ONLY)
    return frozenset(json.loads(content))


def rows_of(
    connection: sqlite3.Connection,
    statement: str,
    time_left: StatementTime,
    *,
    may_be_cut: bool = False,
    readable: Readable = VIEWS_ONLY,
) -> Result:
    """may_be_cut: of too many rows, the first are the result. Raises BadInput, also for too many rows if it may not."""

    def work() -> Iterator[bytes]:
        _restrict(connection, time_left.bounds().seconds, readable)
        cursor = connection.execute(statement)
        yield json.dumps([name for name, *_ in cursor.description or ()]).encode()
        yield from _frames(cursor)

    contents = _contents(work, time_left, readable)
    columns: Sequence[str] = json.loads(next(contents))
    lines: list[bytes] = []
    left_bytes = RESULT_BYTES_MAX
    is_complete = True
    for content in contents:
        left_bytes -= len(content)
        if left_bytes >= 0:
            lines += content.split(b"\n")
        is_complete = left_bytes >= 0 and len(lines) <= ROWS_MAX
        if not is_complete:
            break
    if not is_complete and not may_be_cut:
        raise too_many_rows()
    if not columns:
        raise BadInput("the statement returns no rows", remedy="give a SELECT")
    return Result.of(columns, lines[:ROWS_MAX], is_complete=is_complete)


def too_many_rows() -> BadInput:
    return BadInput(
        f"the result has more than {ROWS_MAX:,} rows or {RESULT_BYTES_MAX >> 20} MiB", remedy="add a WHERE or a LIMIT"
    )


def _contents(work: Any, time_left: StatementTime, readable: Readable) -> Iterator[bytes]:
    began = time.monotonic()
    try:
        with started(work, time_left.bounds()) as child:
            yield from child.contents()
    except ChildFailed as failed:
        raise refusal(failed, time_left.seconds, readable) from None
    finally:
        time_left.spend(time.monotonic() - began)


def _frames(cursor: sqlite3.Cursor) -> Iterator[bytes]:
    """Rows as lines of JSON, as many as a frame holds."""
    frame: list[bytes] = []
    size_bytes = 0
    for row in cursor:
        line = json.dumps(row, default=bytes.hex, separators=(",", ":")).encode()
        frame.append(line)
        size_bytes += len(line)
        if size_bytes >= _FRAME_BYTES:
            yield b"\n".join(frame)
            frame, size_bytes = [], 0
    if frame:
        yield b"\n".join(frame)


def _restrict(connection: sqlite3.Connection, seconds: float, readable: Readable) -> None:
    """Nothing but SELECT on what is readable, until the time is over."""
    until = time.monotonic() + seconds
    connection.text_factory = lambda raw: raw.decode("utf-8", "replace")
    connection.set_progress_handler(lambda: time.monotonic() > until, _INSTRUCTIONS)
    connection.execute("pragma query_only = on")
    for limit, most in _LIMITS.items():
        connection.setlimit(limit, most)

    # typeshed knows aggregates of one argument alone.
    connection.create_aggregate(histogram_quantile.NAME, 3, HistogramQuantile)  # type: ignore[arg-type]
    connection.set_authorizer(lambda action, first, second, *_: _authorized(action, first, second, readable))


def _authorized(action: int, first: str | None, second: str | None, readable: Readable) -> int:
    """first, second: what the action is about; of a function its name is the second."""
    match action:
        case sqlite3.SQLITE_SELECT | sqlite3.SQLITE_RECURSIVE:
            is_allowed = True
        case sqlite3.SQLITE_READ:
            # Without a column it is a subquery, or any table of which nothing is read but how many rows it has.
            is_allowed = first in readable.columns_of or not second
        case sqlite3.SQLITE_FUNCTION:
            is_allowed = (second or "").lower() in FUNCTIONS
        case _:
            is_allowed = False
    return sqlite3.SQLITE_OK if is_allowed else sqlite3.SQLITE_DENY
