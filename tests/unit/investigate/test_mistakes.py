"""mistakes: one line for each reason, with the name that was probably meant."""

from __future__ import annotations

import pytest

from exporter.investigate.child import ChildFailed
from exporter.investigate.mistakes import refusal


def line(message: str, kind: str = "OperationalError") -> str:
    return refusal(ChildFailed(kind, message), 1.0).one_line()


class TestNames:
    @pytest.mark.parametrize(
        ("message", "remedy"),
        [
            ("no such table: operatons", "did you mean operations?"),
            ("no such table: Chain", "did you mean chains?"),
            ("no such column: cals", "did you mean calls?"),
            ("no such column: o.p99_second", "did you mean p99_seconds?"),
            ("no such column: errors", "errors is a column of operations"),
            ("no such column: zzzzzz", "see `gpu-stall-exporter query --schema`"),
        ],
    )
    def test_nearest_name_is_given(self, message: str, remedy: str) -> None:
        assert line(message) == f"{message}; {remedy}"

    def test_without_a_near_view_all_are_given(self) -> None:
        assert line("no such table: xyz").startswith(
            "no such table: xyz; the views are workloads, steps, step_buckets, operations"
        )

    def test_table_of_sqlite_is_not_a_view(self) -> None:
        assert line("access to sqlite_schema.sql is prohibited").startswith(
            "sqlite_schema is not a view; the views are"
        )


class TestReasons:
    @pytest.mark.parametrize(
        ("kind", "message", "expected"),
        [
            ("MemoryError", "", "the statement needs too much memory"),
            (ChildFailed.KILLED, "", "the statement needs too much memory"),
            (ChildFailed.LATE, "", "the statement took more than 1 s"),
            ("OperationalError", "interrupted", "the statement took more than 1 s"),
            ("DatabaseError", "not authorized", "a statement can only read the views: want one SELECT"),
            ("Warning", "You can only execute one statement at a time.", "more than one statement"),
            (
                "DatabaseError",
                "not authorized to use function: load_extension",
                "the function load_extension is not available in statements",
            ),
            ("OperationalError", 'near "selec": syntax error', 'invalid statement: near "selec": syntax error'),
        ],
    )
    def test_each_has_its_line(self, kind: str, message: str, expected: str) -> None:
        assert line(message, kind).partition("; ")[0] == expected

    def test_text_of_the_statement_is_cut(self) -> None:
        assert len(line(f"no such column: {'x' * 10_000}")) < 500
