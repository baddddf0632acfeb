"""Answers in full: rows of a statement and the explanation."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from exporter.errors import BadInput
from exporter.history.scope import EVERYTHING, Scope
from exporter.investigate.result import Result
from exporter.serve.bulk import EXPLANATION, RANKS, SQL_ROWS, Bulk, row_lines
from exporter.serve.tools.tool import ToolCall
from tests.support.investigated import an_hour, two_teams

WIDE = """\
with recursive n(i) as (select 1 union all select i + 1 from n where i < 100) select printf('%102400d', i) from n"""


def body_of(one: Bulk, history: Path, scope: Scope = EVERYTHING, **arguments: Any) -> list[Any]:
    """Its lines, decoded."""
    call = ToolCall(history, scope, one.checked(arguments))
    return [json.loads(line) for line in b"".join(one.frames(call)).splitlines()]


class TestRows:
    """Lines of JSON."""

    def test_first_line_has_the_columns_and_the_last_the_number_of_rows(self, tmp_path: Path) -> None:
        found = body_of(SQL_ROWS, an_hour(tmp_path), statement="select rank, pid from workloads order by rank")

        assert found == [
            {"columns": ["rank", "pid"]},
            ["3", 100],
            ["4", 200],
            {"rows": 2, "is_complete": True},
        ]

    def test_result_without_rows_has_both_lines(self, tmp_path: Path) -> None:
        found = body_of(SQL_ROWS, an_hour(tmp_path), statement="select rank from workloads where rank = 'none'")

        assert found == [{"columns": ["rank"]}, {"rows": 0, "is_complete": True}]

    def test_last_line_says_that_rows_are_left_out(self) -> None:
        *_, last = b"".join(row_lines(Result.of(["i"], [b"[1]"], is_complete=False))).splitlines()

        assert json.loads(last) == {"rows": 1, "is_complete": False}

    def test_bytes_above_the_limit_are_cut(self, tmp_path: Path) -> None:
        """Each row has 100 KiB, and the limit is 8 MiB: 81 rows fit."""
        *_, last = body_of(SQL_ROWS, an_hour(tmp_path), statement=WIDE)

        assert last == {"rows": 81, "is_complete": False}

    def test_infinity_is_null(self) -> None:
        lines = b"".join(row_lines(Result.of(["a", "b"], [b'[Infinity,"Infinity"]']))).splitlines()

        assert json.loads(lines[1]) == [None, "Infinity"]

    def test_frames_are_small(self) -> None:
        """Each is a chunk of the response."""
        frames = [*row_lines(Result.of(["a"], [b'["' + b"a" * 1020 + b'"]'] * 100))]

        assert max(map(len, frames)) < 34 << 10
        assert len(frames) > 2

    def test_named_query(self, tmp_path: Path) -> None:
        first, *_ = body_of(SQL_ROWS, an_hour(tmp_path), name="failed-calls")

        assert first == {"columns": ["node", "rank", "pod", "pid", "api", "operation", "errors", "calls"]}

    def test_scope_holds(self, tmp_path: Path) -> None:
        scope = Scope(None, frozenset(("team-a",)))

        assert body_of(SQL_ROWS, two_teams(tmp_path), scope, statement="select rank from workloads")[1:-1] == [["3"]]

    def test_offset_is_no_parameter(self) -> None:
        with pytest.raises(BadInput, match="there is no parameter 'offset'"):
            SQL_ROWS.checked({"statement": "select 1", "offset": 1})


class TestExplanation:
    def test_is_the_document_of_explain(self, tmp_path: Path) -> None:
        (found,) = body_of(EXPLANATION, an_hour(tmp_path), since="1h")

        assert (found["version"], found["status"]) == (1, "slow")
        assert [one["operations"][0]["operation"] for one in found["processes"] if one["pid"] == 200] == [
            "ncclAllReduce"
        ]

    def test_workload_selects(self, tmp_path: Path) -> None:
        (found,) = body_of(EXPLANATION, an_hour(tmp_path), workload="rank=4")

        assert [one["pid"] for one in found["processes"]] == [200]


class TestRanks:
    def test_ranks_of_the_span(self, tmp_path: Path) -> None:
        """Ages, and the open chain of rank 3."""
        (found,) = body_of(RANKS, an_hour(tmp_path), since="10m")
        third, fourth = found["ranks"]

        assert (found["version"], found["since_seconds"], third["pid"], fourth["pid"]) == (1, 600.0, 100, 200)
        assert 29 <= third["chains"][0]["began_seconds_ago"] <= 90

    def test_scope_holds(self, tmp_path: Path) -> None:
        (found,) = body_of(RANKS, two_teams(tmp_path), Scope(namespaces=frozenset(("team-a",))))

        assert [one["identity"]["namespace"] for one in found["ranks"]] == ["team-a"]

    def test_it_takes_a_span_alone(self, tmp_path: Path) -> None:
        with pytest.raises(BadInput, match="there is no parameter 'workload'"):
            body_of(RANKS, an_hour(tmp_path), workload="rank=3")
