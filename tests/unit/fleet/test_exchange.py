"""fleet.exchange: one request to one node that does not answer as it should."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from exporter.fleet.access import NodeAccess
from exporter.fleet.exchange import AnswerBounds, ByteBudget, NodeRequest, client_for, connection_of, exchanged
from exporter.fleet.failure import NodeFailureKind, NodeUnusable
from exporter.fleet.node import Node
from exporter.http_client.client import HttpConnection
from exporter.http_client.deadline import Deadline
from tests.support.certificates import Certificates
from tests.support.fleet import document, node_at, nodes_with
from tests.support.http_requests import raw
from tests.support.patience import PATIENCE_SECONDS
from tests.support.receiver import Entry, drop, html, receiver, redirect
from tests.support.traced import only

REQUEST = NodeRequest("/api/v1/explain?since=5m")


@contextmanager
def connected(node: Node, access: NodeAccess) -> Iterator[HttpConnection]:
    with connection_of(client_for(node, access), Deadline.after(PATIENCE_SECONDS)) as connection:
        yield connection


def failure_of(
    issued: Certificates, node: Node, request: NodeRequest = REQUEST, bytes_max: int = 1 << 20
) -> tuple[NodeFailureKind, str]:
    """Why a node has no answer."""
    access = NodeAccess(issued.client_context(), "secret")
    bounds = AnswerBounds(bytes_max, ByteBudget(1 << 30, 1))
    with pytest.raises(NodeUnusable) as raised, connected(node, access) as connection:
        exchanged(connection, request, access, bounds)
    return raised.value.kind, str(raised.value)


def failure_with(issued: Certificates, *script: Entry, **given: Any) -> tuple[NodeFailureKind, str]:
    """The same of a node whose server has this script."""
    with nodes_with(issued, script) as (nodes, _):
        return failure_of(issued, only(nodes), **given)


class TestConnection:
    """Connections that fail."""

    def test_closed_connection_is_unreachable(self, issued: Certificates) -> None:
        assert failure_with(issued, drop()) == (
            NodeFailureKind.UNREACHABLE,
            "connection closed before the response was complete",
        )

    def test_certificate_of_another_host_is_not_trusted(self, issued: Certificates) -> None:
        with receiver([document("1")], issued.server_context(is_wrong_host=True)) as server:
            kind, message = failure_of(issued, node_at(server.url, "n0"))
            requests = server.requests

        assert kind is NodeFailureKind.NOT_TRUSTED
        assert "certificate is not trusted" in message
        assert requests == []  # the token was not sent

    @pytest.mark.parametrize(("name", "is_trusted"), [("elsewhere.example", True), ("receiver.example", False)])
    def test_name_of_the_certificate_may_be_given(self, issued: Certificates, name: str, *, is_trusted: bool) -> None:
        """The connection goes to the address of the node; TLS and the header `Host` have the name."""
        access = NodeAccess(issued.client_context(), "secret", name)
        with receiver([document("1")], issued.server_context(is_wrong_host=True)) as server:
            node = node_at(server.url, "n0")
            with suppress(NodeUnusable), connected(node, access) as connection:
                exchanged(connection, REQUEST, access, AnswerBounds(1 << 20, ByteBudget(1 << 30, 1)))
            hosts = [request.headers["Host"] for request in server.requests]

        assert hosts == ([f"{name}:{node.port}"] if is_trusted else [])

    def test_node_without_tls_is_not_trusted(self, issued: Certificates) -> None:
        with receiver([document("1")]) as server:
            kind, _ = failure_of(issued, node_at(server.url, "n0"))

        assert kind is NodeFailureKind.NOT_TRUSTED

    def test_unknown_token_is_not_authenticated_with_the_words_of_the_node(self, issued: Certificates) -> None:
        error = {"kind": "not_authenticated", "status": 401, "message": "no known token", "remedy": "send one"}

        assert failure_with(issued, document(json.dumps({"error": error}), 401)) == (
            NodeFailureKind.NOT_AUTHENTICATED,
            "no known token; send one",
        )


class TestAnswers:
    """Responses that are no answer."""

    @pytest.mark.parametrize(
        ("status", "wanted"),
        [
            (400, NodeFailureKind.REFUSED),
            (404, NodeFailureKind.OTHER_VERSION),
            (421, NodeFailureKind.REFUSED),
            (429, NodeFailureKind.REFUSED),
            (503, NodeFailureKind.REFUSED),
            (504, NodeFailureKind.TOO_SLOW),
        ],
    )
    def test_status_decides_the_kind(self, status: int, wanted: NodeFailureKind, issued: Certificates) -> None:
        kind, message = failure_with(issued, html(status))

        assert kind is wanted
        assert message.startswith(f"status {status}")

    def test_node_without_a_view_of_this_version_is_of_another_one(self, issued: Certificates) -> None:
        error = {"kind": "unknown_input", "status": 422, "message": "no such table: step_buckets"}

        assert failure_with(issued, document(json.dumps({"error": error}), 422)) == (
            NodeFailureKind.OTHER_VERSION,
            "no such table: step_buckets",
        )

    def test_redirect_is_not_followed(self, issued: Certificates) -> None:
        """The token is for the node alone."""
        with receiver() as elsewhere:
            kind, message = failure_with(issued, redirect(f"{elsewhere.url}/api/v1/explain"))

            assert elsewhere.connections == 0
        assert kind is NodeFailureKind.NOT_READABLE
        assert message == f"status 307: redirects to {elsewhere.url}/api/v1/explain"

    def test_page_is_not_readable(self, issued: Certificates) -> None:
        assert failure_with(issued, html()) == (
            NodeFailureKind.NOT_READABLE,
            "content type text/html, not application/json",
        )

    def test_garbage_is_not_readable(self, issued: Certificates) -> None:
        assert failure_with(issued, raw(b"\0\1\2 garbage"))[0] is NodeFailureKind.NOT_READABLE

    def test_json_where_another_format_is_wanted_is_of_another_version(self, issued: Certificates) -> None:
        """An older server ignores what it does not know in Accept."""
        request = NodeRequest("/api/v1/sql", "application/x-ndjson", b"{}")

        assert failure_with(issued, document("{}"), request=request) == (
            NodeFailureKind.OTHER_VERSION,
            "its server does not answer with application/x-ndjson",
        )

    def test_words_of_a_node_are_printable_and_cut(self, issued: Certificates) -> None:
        hostile = {"error": {"message": "\x1b[2J" + "a" * 1000}}
        _, message = failure_with(issued, document(json.dumps(hostile), 400))

        assert message == "\ufffd[2J" + "a" * 295 + "…"

    def test_endless_head_is_not_readable(self, issued: Certificates) -> None:
        endless = raw(b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 100_000)

        assert failure_with(issued, endless)[0] is NodeFailureKind.NOT_READABLE


class TestBudget:
    """Bytes of all nodes together."""

    def test_half_is_shared_and_the_other_half_is_for_any_node(self) -> None:
        """1 MiB for two nodes: 256 KiB each, and 512 KiB for the one that comes first."""
        budget = ByteBudget(1 << 20, 2)
        budget.draw(512 << 10)

        assert budget.share_bytes == 256 << 10
        with pytest.raises(NodeUnusable, match="the answers of all nodes together are larger than 1 MiB"):
            budget.draw(1)

    def test_failed_node_gives_back_what_it_has_drawn(self, issued: Certificates) -> None:
        """It sends 150 KiB of what it has announced: 50 KiB are beyond its share of 100 KiB, and 100 KiB can be drawn."""
        budget = ByteBudget(200 << 10, 1)
        bounds = AnswerBounds(4 << 20, budget)
        head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1000000\r\n\r\n"
        with nodes_with(issued, [raw(head, b"1" * (150 << 10))]) as (nodes, _):
            access = NodeAccess(issued.client_context())
            with (
                pytest.raises(NodeUnusable, match="connection closed"),
                connected(only(nodes), access) as connection,
            ):
                exchanged(connection, REQUEST, access, bounds)

        budget.draw(100 << 10)

    def test_share_is_left_to_a_node_when_another_takes_all(self, issued: Certificates) -> None:
        budget = ByteBudget(1 << 20, 2)
        budget.draw(512 << 10)
        access = NodeAccess(issued.client_context())
        with (
            nodes_with(issued, [document("1" * (256 << 10))]) as (nodes, _),
            connected(only(nodes), access) as connection,
        ):
            body = exchanged(connection, REQUEST, access, AnswerBounds(1 << 20, budget))

        assert len(body) == 256 << 10


class TestBounds:
    """Answers that are too large."""

    def test_announced_length_above_the_bound_is_too_large(self, issued: Certificates) -> None:
        assert failure_with(issued, document("1" * 1001), bytes_max=1000) == (
            NodeFailureKind.TOO_LARGE,
            "response larger than 1000 bytes",
        )

    def test_body_without_a_length_is_cut_off_at_the_bound(self, issued: Certificates) -> None:
        head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n"
        endless = raw(head, *[b"1" * 65536] * 64)

        assert failure_with(issued, endless, bytes_max=1000)[0] is NodeFailureKind.TOO_LARGE
