"""Several nodes asked at once: the command against real servers."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters

from tests.support.investigated import later_windows, two_teams
from tests.support.patience import PATIENCE_SECONDS
from tests.support.serving import COMMAND, Serving, serving
from tests.support.traced import eventually


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """One that has two names."""
    folder = tmp_path_factory.mktemp("fleet")
    with serving(two_teams(folder), folder) as found:
        yield found


def flags_for(server: Serving, folder: Path, token: str = "admin") -> tuple[str, ...]:
    """By both names."""
    (folder / "token").write_text(server.tokens.get(token, token))
    port = urlsplit(server.url).port
    return (
        f"--nodes=127.0.0.1:{port},localhost:{port}",
        f"--nodes.ca={server.certificate}",
        f"--nodes.token-file={folder / 'token'}",
    )


def asked(
    server: Serving, folder: Path, *more: str, token: str = "admin", command: str = "query"
) -> subprocess.CompletedProcess[str]:
    patience = ("--nodes.deadline=60s", *(("--deadline=20s",) if command == "query" else ()))
    arguments = (*COMMAND, command, *flags_for(server, folder, token), *patience, *more)
    return subprocess.run(arguments, capture_output=True, text=True, timeout=2 * PATIENCE_SECONDS, check=False)


class TestQuery:
    def test_rows_of_all_nodes_are_merged(self, server: Serving, tmp_path: Path) -> None:
        """Each of the two has ranks 3 and 4."""
        done = asked(
            server,
            tmp_path,
            "--format=json",
            "--merge=select rank, count(distinct node) as nodes from rows group by rank order by rank",
            "select rank, steps from workloads",
        )

        assert (done.returncode, done.stderr) == (0, "")
        assert json.loads(done.stdout) == [{"rank": "3", "nodes": 2}, {"rank": "4", "nodes": 2}]

    def test_quantile_of_all_nodes_comes_from_their_buckets(self, server: Serving, tmp_path: Path) -> None:
        """Both have the same steps: the quantile is that of one, and the number twice that of one."""
        one = asked(
            server, tmp_path, "--format=jsonl", "select max(p99_seconds) as p99, sum(steps) as steps from steps"
        )
        both = asked(
            server,
            tmp_path,
            "--format=jsonl",
            "--merge=select histogram_quantile(0.99, upper_edge_seconds, steps) as p99, sum(steps) as steps from rows",
            "select upper_edge_seconds, sum(steps) as steps from step_buckets group by upper_edge_seconds",
        )
        single = json.loads(one.stdout.splitlines()[0])

        assert json.loads(both.stdout) == {"p99": single["p99"], "steps": 2 * single["steps"]}

    def test_scope_of_the_token_holds_on_every_node(self, server: Serving, tmp_path: Path) -> None:
        done = asked(server, tmp_path, "--format=jsonl", "select rank from workloads", token="team-a")

        assert [json.loads(line)["rank"] for line in done.stdout.splitlines()] == ["3", "3"]

    def test_statement_that_takes_too_long_is_a_slow_node(self, server: Serving, tmp_path: Path) -> None:
        """It ends where there is no row, so that it is not refused before it is sent."""
        endless = (
            "with recursive n(x) as (select steps from workloads union all select x + 1 from n) select max(x) from n"
        )
        done = asked(server, tmp_path, endless)

        assert (done.returncode, done.stdout) == (4, "")
        assert (
            done.stderr.count(": too slow: the statement took more than 2 s; add a WHERE, or use a smaller since") == 2
        )

    def test_unknown_token_is_the_failure_of_each_node(self, server: Serving, tmp_path: Path) -> None:
        done = asked(server, tmp_path, "select rank from workloads", token="wrong")

        assert (done.returncode, done.stdout) == (4, "")
        assert done.stderr.count(": not authenticated: no known token; send the header") == 2

    def test_certificate_of_an_unknown_authority_is_not_trusted(self, server: Serving, tmp_path: Path) -> None:
        done = asked(server, tmp_path, "--nodes.ca=/etc/ssl/certs/ca-certificates.crt", "select rank from workloads")

        assert done.returncode == 4
        assert done.stderr.count(": not trusted: the server's certificate is not trusted") == 2


class TestClocks:
    def test_clock_of_this_machine_is_not_off(self, server: Serving, tmp_path: Path) -> None:
        """Both nodes are this machine: the true offset is 0."""
        done = asked(server, tmp_path, "--format=json", command="explain")
        found = json.loads(done.stdout)
        clocks = [one["clock"] for one in found["nodes"]]

        assert (done.returncode, len(clocks), found["clock_warnings"]) == (0, 2, [])
        assert all(abs(one["ahead_seconds"]) <= one["bound_seconds"] for one in clocks)


class TestTop:
    """The table has what ended in the last 30 s: the test asks again if the answer took longer."""

    def test_table_has_the_workloads_of_all_nodes(self, tmp_path: Path) -> None:
        """Each of the two has ranks 3 and 4, with steps of 20 ms."""
        found = self._table(tmp_path)

        assert found["failed_nodes"] == []
        assert {(one["identity"]["node"], one["identity"]["rank"]) for one in found["workloads"]} == {
            (node, rank) for node in ("127.0.0.1", "localhost") for rank in ("3", "4")
        }
        assert all(one["step_seconds"] == pytest.approx(0.02) for one in found["workloads"])

    def test_scope_of_the_token_holds_on_every_node(self, tmp_path: Path) -> None:
        found = self._table(tmp_path, token="team-a")

        assert {one["identity"]["namespace"] for one in found["workloads"]} == {"team-a"}

    @staticmethod
    def _table(folder: Path, token: str = "admin") -> dict[str, Any]:
        """With rows."""
        history = two_teams(folder)

        def table(server: Serving) -> dict[str, Any] | None:
            later_windows(history)
            done = asked(server, folder, "--once", "--format=json", token=token, command="top")
            assert done.returncode == 0, done.stderr
            answer: dict[str, Any] = json.loads(done.stdout)
            return answer if answer["workloads"] else None

        with serving(history, folder) as server:
            found: dict[str, Any] = eventually(lambda: table(server), "it has rows")
        return found


class TestExport:
    def test_timeline_has_a_group_for_each_node(self, server: Serving, tmp_path: Path) -> None:
        done = asked(server, tmp_path, "--format=chrome", "--output=-", command="export")
        events = json.loads(done.stdout)["traceEvents"]
        groups = {one["args"]["name"] for one in events if one["name"] == "process_name"}

        assert done.returncode == 0
        for node in ("127.0.0.1", "localhost"):
            assert any(name.startswith(f"node {node} (clock") and "rank 3" in name for name in groups)


@pytest.fixture(scope="module")
def gateway(server: Serving, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """A server that knows the other one by both of its names, and has no history."""
    folder = tmp_path_factory.mktemp("gateway")
    flags = flags_for(server, folder)
    with serving(folder / "none.sqlite", folder, *flags, "--nodes.deadline=15s") as found:
        yield found


class TestTool:
    """The tool `fleet` of a server."""

    def test_statement_is_answered_by_each_node(self, gateway: Serving) -> None:
        found = gateway.call(
            "fleet",
            statement="select rank from workloads",
            merge="select rank, count(distinct node) as nodes from rows group by rank order by rank",
        )

        assert found["items"] == [{"rank": "3", "nodes": 2}, {"rank": "4", "nodes": 2}]
        assert (found["nodes_asked"], found["nodes_failed"]) == (2, 0)

    def test_verdict_has_a_line_about_each_node(self, gateway: Serving) -> None:
        found = gateway.call("fleet")

        assert [one["node"] for one in found["items"] if one["type"] == "node"] == ["127.0.0.1", "localhost"]

    def test_token_with_limits_does_not_see_more_through_other_nodes(self, gateway: Serving) -> None:
        listed = gateway.ask("/api/v1/tools/list", token="team-a").document["tools"]
        reply = gateway.ask("/api/v1/tools/fleet", {"arguments": {}}, token="team-a")

        assert "fleet" not in {one["name"] for one in listed}
        assert (reply.status, reply.document["error"]["kind"]) == (404, "not_found")

    def test_description_of_the_api_has_it_for_those_who_may(self, gateway: Serving) -> None:
        paths = {token: gateway.ask("/api/v1/openapi.json", token=token).document["paths"] for token in gateway.tokens}

        assert "/api/v1/tools/fleet" in paths["admin"]
        assert "/api/v1/tools/fleet" not in paths["team-a"]

    def test_server_without_nodes_has_none(self, server: Serving) -> None:
        assert server.ask("/api/v1/tools/fleet", {"arguments": {}}).status == 404

    def test_both_sides_audit_it(self, gateway: Serving, server: Serving) -> None:
        """The nodes know the token of the server that asks them, and not whose question it is."""
        gateway.call("fleet", statement="select rank from workloads")

        ours = (
            r"reader=\"admin\" address=127.0.0.1 method=\"POST\" path=\"/api/v1/tools/fleet\" tool=\"fleet\" status=200"
        )
        theirs = r"path=\"/api/v1/sql\" tool=\"query_sql\" status=200"
        assert eventually(lambda: ours in gateway.log.read_text(), "the server has it")
        assert eventually(lambda: theirs in server.log.read_text(), "the nodes have it")

    def test_assistant_asks_over_standard_streams(self, server: Serving, tmp_path: Path) -> None:
        arguments = [*COMMAND[1:], "mcp", f"--history.path={tmp_path}/none", *flags_for(server, tmp_path)]
        parameters = StdioServerParameters(command=COMMAND[0], args=arguments, cwd=Path(__file__).parents[2])

        async def found() -> tuple[set[str], int]:
            async with Client(parameters) as client:
                tools = await client.list_tools()
                answer = await client.call_tool("fleet", {"statement": "select rank from workloads"})
                return {one.name for one in tools.tools}, len(answer.structured_content["items"])

        names, items = asyncio.run(found())
        assert "fleet" in names
        assert items == 4
