"""The tool that asks other nodes, with real servers and TLS."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from exporter.config.fleet_flags import FleetFlags
from exporter.config.orchestrator import OrchestratorSettings
from exporter.errors import BadInput, NotPossibleHere
from exporter.fleet.rank_report import NodeReport
from exporter.history.scope import EVERYTHING
from exporter.serve.tools.fleet import FLEET
from tests.support.certificates import Certificates
from tests.support.fleet import clock, nodes_with, without_clocks
from tests.support.network_fixtures import issued, nothing_left_open, without_proxy
from tests.support.rank_reports import a_node
from tests.support.receiver import Entry, Receiver, answer, refused
from tests.support.traced import only
from tests.unit.fleet.test_job_verdict import late, victims

__all__ = ["issued", "nothing_left_open", "without_proxy"]
pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
FIRST, SECOND = a_node(*victims(0, 1)), a_node(*victims(2), late(3))
SELECT = "select rank, steps from steps"


def ranks(report: NodeReport) -> Entry:
    return answer(200, json.dumps(report.to_document()).encode(), content_type="application/json")


def rows(*lines: str, columns: tuple[str, ...] = ("rank", "steps")) -> Entry:
    end = {"rows": len(lines), "is_complete": True}
    body = "\n".join((json.dumps({"columns": columns}), *lines, json.dumps(end), ""))
    return answer(200, body.encode(), content_type="application/x-ndjson")


class Fleet:
    """names: of the nodes, in order. servers: of those that are not dead."""

    def __init__(self, flags: FleetFlags, names: list[str], servers: list[Receiver]) -> None:
        self.flags, self.names, self.servers = flags, names, servers

    def ask(self, **arguments: Any) -> dict[str, Any]:
        """The document; the history of this node is not read."""
        return FLEET.answer(Path("/nowhere/history.sqlite"), EVERYTHING, arguments, self.flags)

    def items(self, **arguments: Any) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.ask(**arguments)["items"]
        return found


@contextmanager
def fleet(issued: Certificates, *scripts: Entry, has_dead_node: bool = False, ahead_ns: int = 0) -> Iterator[Fleet]:
    """ahead_ns: how far all clocks are off."""
    with nodes_with(issued, *([one, clock(ahead_ns)] for one in scripts)) as (nodes, servers), refused() as dead:
        names = [f"{node.host}:{node.port}" for node in nodes]
        names += [dead.removeprefix("http://")] if has_dead_node else []
        flags = FleetFlags(
            *(",".join(names), 60.0, issued.authority, None, None, None),
            is_insecure=False,
            is_all_required=False,
            orchestrator=OrchestratorSettings(),
        )
        yield Fleet(flags, names, servers)


class TestVerdict:
    """Without a statement."""

    def test_late_rank_of_the_job_is_named_with_its_node(self, issued: Certificates) -> None:
        with fleet(issued, ranks(FIRST), ranks(SECOND)) as found:
            answered = found.ask()

        job = answered["items"][0]
        assert (job["type"], job["kind"], job["late"][0]["rank"]) == ("job", "slow_rank", "3")
        assert job["verdict"] == f"rank 3 on {found.names[1]} is late for 1 min"
        assert answered["summary"] == "1 of 1 jobs slow, ambiguous or standing still"

    def test_next_call_is_about_the_chains_of_that_node(self, issued: Certificates) -> None:
        with fleet(issued, ranks(FIRST), ranks(SECOND)) as found:
            following = found.ask()["next"]

        assert following == {"tool": "fleet", "arguments": {"nodes": found.names[1], "name": "worst-chains"}}

    def test_nodes_have_a_line_each(self, issued: Certificates) -> None:
        with fleet(issued, ranks(FIRST), ranks(SECOND)) as found:
            nodes = [one["node"] for one in found.items() if one["type"] == "node"]

        assert nodes == found.names

    def test_every_node_gets_the_span(self, issued: Certificates) -> None:
        with fleet(issued, ranks(FIRST)) as found:
            found.ask(since="90s")

            assert only(without_clocks(only(found.servers))).path == "/api/v1/ranks?since=90s"

    def test_dead_node_is_an_item_with_a_failure(self, issued: Certificates) -> None:
        with fleet(issued, ranks(FIRST), ranks(SECOND), has_dead_node=True) as found:
            answered = found.ask()

        failed = only([one for one in answered["items"] if one["type"] == "failure"])
        assert failed == {
            "type": "failure",
            "node": found.names[2],
            "failure": "unreachable",
            "message": "connection refused",
        }
        assert (answered["nodes_asked"], answered["nodes_failed"]) == (3, 1)
        assert answered["summary"].endswith("; 1 of 3 nodes failed, and nothing is known of them")

    @pytest.mark.parametrize("name", ["merge", "resolution"])
    def test_what_belongs_to_a_statement_is_refused_without_one(self, name: str, issued: Certificates) -> None:
        with fleet(issued) as found, pytest.raises(BadInput, match=f"^{name}: want a statement"):
            found.ask(**{name: "1m"})


class TestRows:
    """With a statement."""

    def test_node_is_the_first_column(self, issued: Certificates) -> None:
        with fleet(issued, rows('["3",10]'), rows('["4",20]')) as found:
            answered = found.ask(statement=SELECT)

        assert answered["items"] == [
            {"node": found.names[0], "rank": "3", "steps": 10},
            {"node": found.names[1], "rank": "4", "steps": 20},
        ]
        assert answered["summary"] == "2 rows"

    def test_merge_is_a_statement_over_the_rows_of_all(self, issued: Certificates) -> None:
        with fleet(issued, rows('["3",10]'), rows('["4",20]')) as found:
            items = found.items(statement=SELECT, merge="select sum(steps) as steps from rows")

        assert items == [{"steps": 30}]

    def test_failures_come_before_rows(self, issued: Certificates) -> None:
        """An answer that is cut has them."""
        with fleet(issued, rows('["3",10]'), has_dead_node=True) as found:
            items = found.items(statement=SELECT)

        assert [one.get("failure") for one in items] == ["unreachable", None]

    def test_only_named_nodes_get_the_request(self, issued: Certificates) -> None:
        with fleet(issued, rows('["3",10]'), rows('["4",20]')) as found:
            items = found.items(statement=SELECT, nodes=found.names[1])
            asked = [len(without_clocks(server)) for server in found.servers]

        assert [one["rank"] for one in items] == ["4"]
        assert asked == [0, 1]

    def test_clock_that_is_off_is_an_item_with_a_warning(self, issued: Certificates) -> None:
        with fleet(issued, rows('["3",10]'), ahead_ns=3630 * 10**9) as found:
            warning, row = found.items(statement=SELECT)

        assert (warning["type"], row["rank"]) == ("warning", "3")
        assert warning["message"].startswith(f"the clock of {found.names[0].partition(':')[0]} is 1 h ahead, ± ")

    def test_named_query_says_what_comes_next(self, issued: Certificates) -> None:
        with fleet(issued, has_dead_node=True) as found:
            following = found.ask(name="lost-by-cause")["next"]

        assert following == {"tool": "fleet", "arguments": {"name": "top-culprits"}}

    def test_answer_is_bounded_and_next_has_the_rest(self, issued: Certificates) -> None:
        """Each row has more than 100 bytes: 8 KiB hold fewer than 80 of them."""
        many = rows(*(f'["{"x" * 100}",{number}]' for number in range(200)))
        with fleet(issued, many) as found:
            answered = found.ask(statement=SELECT)

        assert answered["truncated"] is True
        assert answered["next"]["arguments"] == {"statement": SELECT, "offset": len(answered["items"])}
        assert len(json.dumps(answered)) < 8 << 10

    def test_more_rows_than_an_answer_is_made_of_are_refused(self, issued: Certificates) -> None:
        """Two nodes with 30,000 rows each."""
        half = rows(*(f'["3",{number}]' for number in range(30_000)))
        with fleet(issued, half, half) as found, pytest.raises(BadInput, match="more than 50,000 rows"):
            found.ask(statement=SELECT)

    @pytest.mark.parametrize(
        "arguments",
        [
            {"statement": "selekt 1"},
            {"statement": SELECT, "merge": "select x from rows"},
            {"statement": SELECT, "name": "open-chains"},
            {"statement": SELECT, "since": "soon"},
            {"statement": "select rank, rank from steps"},
            {"statement": SELECT, "nodes": "elsewhere:1"},
        ],
        ids=["statement", "merge", "both", "since", "columns", "nodes"],
    )
    def test_mistake_is_found_before_any_request(self, arguments: dict[str, str], issued: Certificates) -> None:
        with fleet(issued, rows()) as found:
            with pytest.raises(BadInput):
                found.ask(**arguments)
            asked = only(found.servers).requests

            assert len(asked) == 0

    def test_token_file_that_is_gone_is_no_mistake_of_the_caller(self, issued: Certificates, tmp_path: Path) -> None:
        with fleet(issued, rows()) as found:
            found.flags = found.flags._replace(token=tmp_path / "token")
            with pytest.raises(NotPossibleHere, match="cannot read"):
                found.ask(statement=SELECT)
