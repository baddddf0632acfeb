"""query: a statement over a history at a path."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path

import pytest

from exporter.errors import BadInput, NotPossibleHere
from exporter.investigate.query import query
from exporter.investigate.result import Result
from exporter.investigate.tables import QuerySpan
from tests.support.history import SECOND
from tests.support.investigated import HOUR_SECONDS, an_hour

pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")


def ask(path: Path, statement: str) -> Result:
    now_unix_ns = time.time_ns()
    return query(path, statement, QuerySpan(now_unix_ns - HOUR_SECONDS * SECOND, now_unix_ns, None), 20.0)


class TestQuery:
    def test_views_can_be_joined(self, tmp_path: Path) -> None:
        found = ask(
            an_hour(tmp_path),
            "select w.comm, l.cause from workloads as w join lost as l using (workload) where l.cause = 'lock'",
        )

        assert [*found.rows()] == [["python", "lock"]]

    def test_statement_is_refused_before_the_history_is_read(self, tmp_path: Path) -> None:
        """There is none."""
        with pytest.raises(BadInput, match="no such table"):
            ask(tmp_path / "none.sqlite", "select * from unknown")

    def test_missing_history(self, tmp_path: Path) -> None:
        with pytest.raises(NotPossibleHere, match="no history at"):
            ask(tmp_path / "none.sqlite", "select * from steps")

    def test_damaged_windows(self, tmp_path: Path) -> None:
        path = an_hour(tmp_path)
        with sqlite3.connect(path) as connection:
            connection.execute("update windows set processes = x'00'")
        connection.close()

        with pytest.raises(NotPossibleHere, match="cannot read the history at"):
            ask(path, "select * from steps")
        assert len(ask(path, "select * from chains").lines) == 2

    def test_history_is_not_changed(self, tmp_path: Path) -> None:
        path = an_hour(tmp_path)
        before = path.read_bytes()
        ask(path, "select * from steps, chains")

        assert path.read_bytes() == before
