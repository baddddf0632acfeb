"""One statement over the history at a path: a Result. What is wrong with the statement is found before the history is read."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from exporter.errors import NotPossibleHere
from exporter.history.reader import opened
from exporter.history.scope import EVERYTHING, Scope
from exporter.investigate.guard import StatementTime, rows_of, views_of
from exporter.investigate.interval_windows import TooMuch
from exporter.investigate.result import Result
from exporter.investigate.tables import QuerySpan, empty_views, fill


def columns_of(statement: str, limit_seconds: float) -> tuple[str, ...]:
    """Names of the columns that a statement returns, without a history. Raises BadInput."""
    with closing(empty_views()) as connection:
        return rows_of(connection, statement, StatementTime(limit_seconds)).columns


def query(
    path: Path,
    statement: str,
    span: QuerySpan,
    limit_seconds: float,
    *,
    scope: Scope = EVERYTHING,
    may_be_cut: bool = False,
) -> Result:
    """limit_seconds: for the statement, without reading the history. may_be_cut: as for rows_of().

    Raises BadInput, and NotPossibleHere as opened().
    """
    time_left = StatementTime(limit_seconds)
    with closing(empty_views()) as connection:
        names = views_of(connection, statement, time_left)
        with opened(path, scope=scope) as history:
            try:
                fill(connection, history, names, span)
            except TooMuch:
                raise NotPossibleHere(
                    f"the history at {path} holds more than a statement can read at once",
                    remedy="use a smaller --since, or a larger --resolution",
                ) from None
        return rows_of(connection, statement, time_left, may_be_cut=may_be_cut)
