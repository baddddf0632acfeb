"""Tables of a segment."""

from __future__ import annotations

import duckdb

from exporter.cluster.schema import EVENTS, SPANS, TABLES, WINDOWS, parameters, statements
from tests.support.cluster_rows import NOON, chain_event, chain_span, window


def filled() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(":memory:")
    for statement in statements():
        connection.execute(statement)
    for table, row in ((WINDOWS, window()), (EVENTS, chain_event()), (SPANS, chain_span())):
        connection.execute(table.insertion(), parameters([(NOON, "node", *row)]))
    return connection


class TestTables:
    def test_row_that_was_inserted_is_the_row_that_is_read(self) -> None:
        """Also the largest numbers, which pass through JSON."""
        connection = filled()
        largest = window(process=2, steps=2**63 - 1, lost_seconds=(1e18, 5e-324), node='a"\\\u20ac')
        connection.execute(WINDOWS.insertion(), parameters([(NOON, "node", *largest)]))

        for table, row in ((WINDOWS, window()), (EVENTS, chain_event()), (SPANS, chain_span())):
            found = connection.execute(f"select * from {table.name} limit 1").fetchall()[0]  # noqa: S608
            assert found == (NOON, "node", *(list(value) if isinstance(value, tuple) else value for value in row))
        assert connection.execute("select steps, lost_seconds, node from windows where process = 2").fetchall() == [
            (2**63 - 1, [1e18, 5e-324], 'a"\\\u20ac')
        ]

    def test_lists_of_windows_are_rows_of_views(self) -> None:
        connection = filled()

        assert connection.execute("select rank, cause, lost_seconds from lost order by cause").fetchall() == [
            ("3", "cpu_contention", 1.25),
            ("3", "io", 0.5),
        ]
        assert connection.execute("select culprit, lost_seconds from culprits").fetchall() == [("stress-ng", 1.25)]
        assert connection.execute("select seconds from thread_time where state = 'running'").fetchall() == [(8.0,)]
        assert connection.execute("select communicator, ranks, lag_seconds from communicators").fetchall() == [
            ("00000000000000ff", 8, 0.25),
            ("00000000000000fe", 2, None),
        ]
        assert connection.execute("select operation, calls, timed_calls, timed_seconds from calls").fetchall() == [
            ("cudaLaunchKernel", 1000, 500, 0.125)
        ]

    def test_names_of_columns_have_units(self) -> None:
        """Numbers that are not counts or ids."""
        units = {name for table in TABLES for name, kind in table.columns if "DOUBLE" in kind}

        assert {name for name in units if not name.endswith(("_seconds", "_lags", "_share", "_shares"))} == {
            "contribution"
        }
