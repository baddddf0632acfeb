"""Tools that read tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from exporter.errors import BadInput
from exporter.history.scope import EVERYTHING, Scope
from exporter.serve.pages.span import moment_text
from exporter.serve.tools.registry import Offer
from tests.support.history import SECOND
from tests.support.investigated import STACK, an_hour, two_teams

pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")

NAMESPACES = "select distinct namespace from "
TEAM_A = Scope(namespaces=frozenset(("team-a",)))


def ask(name: str, path: Path, scope: Scope = EVERYTHING, /, **arguments: Any) -> dict[str, Any]:
    return Offer().tool(name).answer(path, scope, arguments)


def before_its_end(path: Path, seconds: float) -> str:
    """So long before the end of the last window."""
    (row,) = ask("query_sql", path, statement="select max(ended_unix_seconds) as ended_unix_seconds from steps")["rows"]
    return moment_text(int((row["ended_unix_seconds"] - seconds) * SECOND))


class TestAt:
    """What was known 35 s ago: two of six windows, and not the chain that opened 29 s ago."""

    def test_calls(self, tmp_path: Path) -> None:
        path = an_hour(tmp_path)

        assert ask("operations", path, workload="rank=4", at=before_its_end(path, 35))["calls"] == 200

    def test_stacks(self, tmp_path: Path) -> None:
        path = an_hour(tmp_path)
        found = ask("stacks", path, at=before_its_end(path, 35))

        assert (found["slow_call_sites"], found["evidence_lines"]) == (1, 0)

    def test_chains_of_a_statement(self, tmp_path: Path) -> None:
        path = an_hour(tmp_path)
        found = ask("query_sql", path, statement="select chain_id from chains", at=before_its_end(path, 35))

        assert found["rows"] == [{"chain_id": "2" * 32}]

    def test_time_in_the_future_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(BadInput, match="want a time in the past"):
            ask("operations", an_hour(tmp_path), at="2999-01-01")


class TestOperations:
    def test_calls_of_six_windows_are_summed(self, tmp_path: Path) -> None:
        found = ask("operations", an_hour(tmp_path), workload="rank=4")

        (one,) = found["operations"]
        assert (one["operation"], one["calls"], one["errors"]) == ("ncclAllReduce", 600, 6)
        assert one["timed_seconds"] == pytest.approx(1.8)

    def test_labels_that_are_empty_are_left_out(self, tmp_path: Path) -> None:
        assert "pod" not in ask("operations", an_hour(tmp_path))["operations"][0]

    def test_scope_hides_calls_of_others(self, tmp_path: Path) -> None:
        found = ask("operations", two_teams(tmp_path), TEAM_A)

        assert {one["rank"] for one in found["operations"]} == {"3"}


class TestStacks:
    def test_slow_lines_come_first_then_evidence(self, tmp_path: Path) -> None:
        found = ask("stacks", an_hour(tmp_path))

        assert found["slow_call_sites"] == 1
        assert "train.py:142" in found["stacks"][0]["place"]
        assert [one["line"] for one in found["stacks"][1:]] == list(STACK)

    def test_evidence_of_one_chain(self, tmp_path: Path) -> None:
        assert ask("stacks", an_hour(tmp_path), chain_id="2222")["stacks"] == []

    def test_short_id_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(BadInput, match="at least 4"):
            ask("stacks", an_hour(tmp_path), chain_id="22")


class TestQuerySql:
    def test_rows_are_objects(self, tmp_path: Path) -> None:
        found = ask("query_sql", an_hour(tmp_path), statement="select rank, steps from workloads order by rank")

        assert found["rows"] == [{"rank": "3", "steps": 3000}, {"rank": "4", "steps": 3000}]

    def test_named_query_says_what_comes_next(self, tmp_path: Path) -> None:
        found = ask("query_sql", an_hour(tmp_path), name="lost-by-cause")

        assert found["rows"][0]["lost_seconds"] == 5.4
        assert found["next"] == {"tool": "query_sql", "arguments": {"name": "top-culprits"}}

    @pytest.mark.parametrize("view", ["workloads", "steps", "operations", "lost", "culprits", "thread_states"])
    def test_scope_holds_in_every_view_of_windows(self, tmp_path: Path, view: str) -> None:
        found = ask("query_sql", two_teams(tmp_path), TEAM_A, statement=NAMESPACES + view)

        assert found["rows"] == [{"namespace": "team-a"}]

    @pytest.mark.parametrize("view", ["chains", "chain_events"])
    def test_scope_holds_in_every_view_of_chains(self, tmp_path: Path, view: str) -> None:
        found = ask("query_sql", two_teams(tmp_path), TEAM_A, statement=NAMESPACES + view)

        assert found["rows"] == [{"namespace": "team-a"}]

    @pytest.mark.parametrize(
        "arguments",
        [
            {},
            {"statement": "select 1", "name": "stacks"},
            {"statement": "delete from chains"},
            {"statement": "select 1; select 2"},
            {"statement": "select rank, rank from workloads"},
            {"statement": "attach 'x' as y"},
            {"name": "unknown"},
            {"statement": "select 1", "resolution": "soon"},
        ],
    )
    def test_mistake_is_bad_input(self, tmp_path: Path, arguments: dict[str, str]) -> None:
        with pytest.raises(BadInput):
            ask("query_sql", an_hour(tmp_path), **arguments)

    def test_many_rows_are_cut(self, tmp_path: Path) -> None:
        statement = "with recursive n(x) as (select 1 union all select x + 1 from n where x < 3000) select x from n"
        found = ask("query_sql", an_hour(tmp_path), statement=statement)

        assert found["row_count"] == 3000
        assert found["truncated"] is True
        assert found["next"]["arguments"] == {"statement": statement, "offset": len(found["rows"])}
