"""`serve` and `mcp`: real clients, over TLS and over standard streams."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
import mcp_types as types
import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from exporter.fleet.clock_reading import clock_of
from exporter.serve.tools.registry import Offer
from exporter.service.connections import OF_ADDRESS_MAX, REQUEST_SECONDS
from exporter.service.http_server import HANDSHAKE_SECONDS
from tests.support.investigated import two_teams
from tests.support.patience import PATIENCE_SECONDS
from tests.support.serving import COMMAND, Serving, serving
from tests.support.traced import eventually


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    """One for all tests, which do not change it."""
    folder = tmp_path_factory.mktemp("serve")
    with serving(two_teams(folder), folder) as found:
        yield found


class TestStart:
    @pytest.mark.parametrize(
        ("flags", "message"),
        [
            ((), "serve wants a certificate: --web.config.file=FILE"),
            (("--web.insecure-no-tls",), "serve wants tokens: --web.token-file=FILE"),
            (("--web.insecure-no-tls", "--web.config.file=x"), "cannot be combined"),
            (("--web.insecure-no-tls", "--web.token-file=/none"), "--web.token-file: cannot read it: No such file"),
            (("--web.insecure-no-tls", "--web.insecure-no-tokens", "--web.listen-address=x"), "--web.listen-address"),
            (("--web.insecure-no-tls", "--web.insecure-no-tokens", "--nodes=gpu1"), "every client could ask all nodes"),
        ],
    )
    def test_refuses_to_start_unprotected(self, flags: tuple[str, ...], message: str) -> None:
        done = subprocess.run(
            [*COMMAND, "serve", *flags], capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False
        )

        assert done.returncode == 2
        assert message in done.stderr
        assert done.stderr.count("\n") == 1

    def test_needs_no_privileges(self, server: Serving) -> None:
        """A user that owns nothing, in the group of the history, on plain HTTP."""
        command = ("setpriv", "--reuid=65534", "--regid=65534", "--groups=adm", "--no-new-privs", "--bounding-set=-all")
        open_to_all = ("--web.insecure-no-tls", "--web.insecure-no-tokens", "--web.listen-address=127.0.0.1:0")
        process = subprocess.Popen(
            [*command, *COMMAND, "serve", *open_to_all],
            stderr=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
        )
        try:
            assert process.stderr is not None
            assert any("serving http://127.0.0.1:" in line for line in process.stderr)
        finally:
            process.terminate()
            process.communicate(timeout=PATIENCE_SECONDS)
        assert process.returncode == 0


class TestHttpApi:
    def test_versions_need_no_token(self, server: Serving) -> None:
        assert server.ask("/api/versions", token="none") == (200, {"versions": ["1.1"]})

    def test_explain(self, server: Serving) -> None:
        worst = server.call("explain")["chains"][0]

        assert (worst["cause"], worst["culprits"][0]["name"]) == ("cpu_contention", "stress-ng")

    def test_scope_of_a_token_holds_in_tools_and_sql(self, server: Serving) -> None:
        chains = server.call("explain", token="team-a")["chains"]
        reply = server.ask("/api/v1/sql", {"statement": "select rank from workloads"}, token="team-a")

        assert [one["chain_id"] for one in chains] == ["11111111"]
        assert reply.document["rows"] == [{"rank": "3"}]

    def test_timeline_is_streamed(self, server: Serving) -> None:
        status, trace = server.fetch(server.call("timeline")["files"][0]["path"])

        assert status == 200
        assert trace[0] == 0x0A  # the first packet

    def test_rows_are_streamed_to_a_client_that_accepts_lines(self, server: Serving) -> None:
        status, body = server.fetch(
            "/api/v1/sql", {"statement": "select rank from workloads"}, token="team-a", Accept="application/x-ndjson"
        )

        assert status == 200
        assert [json.loads(line) for line in body.splitlines()] == [
            {"columns": ["rank"]},
            ["3"],
            {"rows": 1, "is_complete": True},
        ]

    def test_clocks_are_those_of_this_machine(self, server: Serving) -> None:
        """Read between the request and its answer."""
        before = time.monotonic_ns()
        reply = server.ask("/api/v1/clock")
        after = time.monotonic_ns()

        assert reply.status == 200
        clock = clock_of(reply.document)
        assert before <= clock.received.monotonic_ns <= clock.sent.monotonic_ns <= after

    def test_explanation_is_whole(self, server: Serving) -> None:
        """A process has operations there, which the tool's answer leaves out."""
        reply = server.ask("/api/v1/explain?since=1h", token="team-a")

        assert reply.status == 200
        assert [(one["rank"], len(one["operations"])) for one in reply.document["processes"]] == [("3", 1)]

    @pytest.mark.parametrize(
        ("path", "body", "token", "status", "kind"),
        [
            ("/api/v1/health", None, "wrong", 401, "not_authenticated"),
            ("/api/v1/clock", None, "wrong", 401, "not_authenticated"),
            ("/api/v1/tools/explian", {}, "admin", 404, "not_found"),
            ("/nothing", None, "admin", 404, "not_found"),
            ("/api/v1/tools/explain", None, "admin", 405, "wrong_method"),
            ("/api/v1/tools/explain", b"{", "admin", 400, "bad_input"),
            ("/api/v1/tools/explain", [], "admin", 400, "bad_input"),
            ("/api/v1/tools/explain", {"since": "1h"}, "admin", 400, "bad_input"),
            ("/api/v1/tools/explain", {"arguments": {"since": "soon"}}, "admin", 400, "bad_input"),
            ("/api/v1/tools/episode", {"arguments": {"chain_id": "ffff"}}, "admin", 404, "not_found"),
            ("/api/v1/tools/episode", {"arguments": {"chain_id": "2222"}}, "team-a", 404, "not_found"),
            ("/api/v1/sql", {"statement": "drop table chains"}, "admin", 400, "bad_input"),
            ("/api/v1/explain?since=soon", None, "admin", 400, "bad_input"),
            ("/api/v1/explain?offset=1", None, "admin", 422, "unknown_input"),
            ("/api/v1/explain", None, "wrong", 401, "not_authenticated"),
            ("/api/v1/sql", bytes(300 << 10), "admin", 413, "too_large"),
        ],
    )
    def test_mistake_has_its_status_and_a_remedy(
        self, server: Serving, *, path: str, body: Any, token: str, status: int, kind: str
    ) -> None:
        reply = server.ask(path, body, token=token)

        assert (reply.status, reply.document["error"]["kind"]) == (status, kind)
        assert reply.document["error"]["message"]

    def test_another_name_is_refused(self, server: Serving) -> None:
        assert server.ask("/api/versions", Host="attacker.example").status == 421

    def test_mistake_in_a_statement_has_its_status_where_lines_are_accepted(self, server: Serving) -> None:
        reply = server.ask("/api/v1/sql", {"statement": "select x from node"}, Accept="application/x-ndjson")

        assert (reply.status, reply.document["error"]["kind"]) == (422, "unknown_input")

    def test_audit_has_the_reader_and_the_tool(self, server: Serving) -> None:
        server.call("status", token="team-a")

        wanted = r"reader=\"team-a\" address=127.0.0.1 method=\"POST\" path=\"/api/v1/tools/status\" tool=\"status\" status=200"
        assert eventually(lambda: wanted in server.log.read_text(), "the audit has it")


class TestWithoutHistory:
    def test_tools_that_read_it_fail_with_the_reason(self, tmp_path: Path) -> None:
        with serving(tmp_path / "none.sqlite", tmp_path) as server:
            replies = {
                name: server.ask(f"/api/v1/tools/{name}", {"arguments": arguments})
                for name, arguments in (("explain", {}), ("status", {}), ("query_sql", {"name": "stacks"}))
            }

        assert {reply.status for reply in replies.values()} == {503}
        assert "no history at" in replies["status"].document["error"]["message"]


class TestHostileClients:
    def test_clients_that_send_slowly_are_closed(self, server: Serving) -> None:
        """Other clients are answered while they are connected."""
        address = urlsplit(server.url)
        slow = []
        for _ in range(20):
            connection = socket.create_connection((address.hostname, address.port), PATIENCE_SECONDS)
            secured = server.trusting().wrap_socket(connection, server_hostname="localhost")
            secured.sendall(b"POST /api/v1/sql HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n")
            slow.append(secured)
        assert server.ask("/api/v1/health").status == 200
        for one in slow:
            one.settimeout(REQUEST_SECONDS + PATIENCE_SECONDS)
            with suppress(ConnectionError, ssl.SSLError):
                while one.recv(1024):
                    pass
            one.close()

    def test_one_address_has_so_many_connections(self, server: Serving) -> None:
        address = urlsplit(server.url)
        trusting, held = server.trusting(), []
        for _ in range(OF_ADDRESS_MAX + 5):
            connection = socket.create_connection((address.hostname, address.port), PATIENCE_SECONDS)
            with suppress(ConnectionError, ssl.SSLError):
                held.append(trusting.wrap_socket(connection, server_hostname="localhost"))
        refused = OF_ADDRESS_MAX + 5 - len(held)
        eventually(lambda: refused + sum(map(_is_closed, held)) >= 5, "five are closed")
        for one in held:
            one.close()

    def test_client_that_never_begins_tls_is_closed(self, server: Serving) -> None:
        address = urlsplit(server.url)
        with socket.create_connection((address.hostname, address.port), PATIENCE_SECONDS) as silent:
            silent.settimeout(HANDSHAKE_SECONDS + PATIENCE_SECONDS)

            assert silent.recv(1) == b""

    def test_many_calls_at_once_are_answered_or_refused(self, server: Serving) -> None:
        with ThreadPoolExecutor(50) as threads:
            statuses = [*threads.map(lambda _: server.ask("/api/v1/tools/status", {}).status, range(200))]

        assert set(statuses) <= {200, 429}
        assert 200 in statuses
        assert server.ask("/api/v1/health").status == 200

    def test_wrong_tokens_do_not_stop_right_ones(self, server: Serving) -> None:
        for number in range(120):
            assert server.ask("/api/v1/health", token=f"wrong-{number}").status in (401, 429)

        assert server.ask("/api/v1/health").status == 200


def _is_closed(connection: socket.socket) -> bool:
    connection.setblocking(False)
    try:
        return connection.recv(1) == b""
    except ssl.SSLWantReadError:
        return False
    except ConnectionError:
        return True


async def _over_http(server: Serving, mode: str) -> tuple[Any, ...]:
    headers = {"Authorization": f"Bearer {server.tokens['team-a']}"}
    async with (
        httpx2.AsyncClient(headers=headers, verify=server.trusting(), timeout=PATIENCE_SECONDS) as http,
        Client(streamable_http_client(f"{server.url}/mcp", http_client=http), mode=mode) as client,
    ):
        return await _investigation(client)


async def _investigation(client: Client) -> tuple[Any, ...]:
    """Version, names of tools, an answer, a failure, an unknown tool, the schema and the prompt."""
    tools = await client.list_tools()
    explained = await client.call_tool("explain", {})
    mistaken = await client.call_tool("explain", {"since": "soon"})
    with pytest.raises(MCPError) as unknown:
        await client.call_tool("explian", {})
    schema = await client.read_resource("schema://history")
    prompt = await client.get_prompt("investigate")
    return client.protocol_version, tools, explained, mistaken, unknown.value, schema, prompt


def _check(found: tuple[Any, ...]) -> None:
    _, tools, explained, mistaken, unknown, schema, prompt = found
    assert [one.name for one in tools.tools] == [*Offer().tools]
    assert all(one.annotations.read_only_hint for one in tools.tools)
    assert explained.structured_content["chains"][0]["chain_id"] == "11111111"
    assert "stress-ng is using" in explained.content[0].text
    assert mistaken.is_error
    assert mistaken.structured_content["error"]["kind"] == "bad_input"
    assert unknown.code == types.INVALID_PARAMS
    assert unknown.data["kind"] == "not_found"
    assert "lost_seconds" in schema.contents[0].text
    assert "explain" in prompt.messages[0].content.text


class TestModelContextProtocol:
    @pytest.mark.parametrize(("mode", "version"), [("auto", "2026-07-28"), ("legacy", "2025-11-25")])
    def test_official_client_investigates_over_https(self, server: Serving, mode: str, version: str) -> None:
        """With the token of a team: it sees its own chain."""
        found = asyncio.run(_over_http(server, mode))

        assert found[0] == version
        assert len(found[2].structured_content["chains"]) == 1
        _check(found)

    def test_official_client_investigates_over_standard_streams(self, tmp_path: Path) -> None:
        path = two_teams(tmp_path)

        async def investigated() -> tuple[Any, ...]:
            parameters = StdioServerParameters(
                command=COMMAND[0], args=[*COMMAND[1:], "mcp", f"--history.path={path}"], cwd=Path(__file__).parents[2]
            )
            async with Client(parameters) as client:
                return await _investigation(client)

        found = asyncio.run(investigated())

        assert len(found[2].structured_content["chains"]) == 3
        assert "11111111" in {one["chain_id"] for one in found[2].structured_content["chains"]}

    def test_wrong_token_is_refused(self, server: Serving) -> None:
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}

        assert server.ask("/mcp", body, token="wrong").status == 401
