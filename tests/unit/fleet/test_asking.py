"""fleet.asking: many nodes at once, with real servers and TLS."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from exporter.errors import NotPossibleHere
from exporter.fleet.access import NodeAccess
from exporter.fleet.asking import AT_ONCE_MAX, Asked, NodeAnswer, ask
from exporter.fleet.exchange import NodeRequest
from exporter.fleet.failure import NodeFailure, NodeFailureKind, NodeUnusable
from exporter.fleet.node import Node
from exporter.http_client.deadline import Deadline
from exporter.text.untrusted import small_json_value
from tests.support.certificates import Certificates
from tests.support.fleet import dead_node, document, hanging_nodes, nodes_with
from tests.support.http_requests import SHORT_SECONDS
from tests.support.patience import PATIENCE_SECONDS
from tests.support.receiver import drip, hang, receiver
from tests.support.threads import no_more_threads
from tests.support.traced import only

REQUEST = NodeRequest("/api/v1/explain?since=5m")


def asked(issued: Certificates, seconds: float = PATIENCE_SECONDS, **changes: Any) -> Asked:
    """The request to all nodes."""
    given = Asked(REQUEST, NodeAccess(issued.client_context(), "secret"), Deadline.after(seconds))
    return given._replace(**changes)


def read(body: bytearray) -> Any:
    return small_json_value(bytes(body))


def failure_with(issued: Certificates, *script: Any, **changes: Any) -> NodeFailure:
    """That of a single node with this script."""
    with nodes_with(issued, script) as (nodes, _):
        found = only(ask(nodes, asked(issued, **changes), read))
    assert isinstance(found, NodeFailure)
    return found


class TestAnswers:
    """Nodes that answer."""

    def test_results_stand_in_the_order_of_the_nodes(self, issued: Certificates) -> None:
        scripts = [[document("1")], [document("2")], [document("3")]]
        with nodes_with(issued, *scripts) as (nodes, _):
            found = ask(nodes, asked(issued), read)

        assert [(one.node.name, one.document) for one in found if isinstance(one, NodeAnswer)] == [
            ("n0", 1),
            ("n1", 2),
            ("n2", 3),
        ]

    def test_every_node_gets_the_request_with_the_token(self, issued: Certificates) -> None:
        with nodes_with(issued, [document("1")], [document("2")]) as (nodes, servers):
            ask(nodes, asked(issued), read)
            received = [only(server.requests) for server in servers]

        assert [(one.method, one.path) for one in received] == [("GET", "/api/v1/explain?since=5m")] * 2
        assert [one.headers["Authorization"] for one in received] == ["Bearer secret"] * 2

    def test_body_makes_it_a_post_of_json(self, issued: Certificates) -> None:
        request = NodeRequest("/api/v1/sql", body=b'{"statement": "select 1"}')
        with nodes_with(issued, [document("1")]) as (nodes, servers):
            ask(nodes, asked(issued, request=request), read)
            received = only(only(servers).requests)

        assert (received.method, received.body) == ("POST", b'{"statement": "select 1"}')
        assert received.headers["Content-Type"] == "application/json"

    def test_node_that_wants_a_certificate_gets_it(self, issued: Certificates) -> None:
        access = NodeAccess(issued.client_context(shows_certificate=True))
        with receiver([document("1")], issued.server_context(wants_client=True)) as server:
            port = int(server.url.rpartition(":")[2])
            found = only(ask([Node("n0", "127.0.0.1", port)], asked(issued, access=access), read))

        assert isinstance(found, NodeAnswer)
        assert found.document == 1

    def test_proxy_of_the_environment_is_not_used(self, issued: Certificates, monkeypatch: pytest.MonkeyPatch) -> None:
        """A node of the cluster is no site of the internet."""
        with receiver() as proxy, nodes_with(issued, [document("1")]) as (nodes, _):
            monkeypatch.setenv("https_proxy", proxy.url)
            named = [node._replace(host="localhost") for node in nodes]
            found = only(ask(named, asked(issued), read))

            assert proxy.connections == 0
        assert isinstance(found, NodeAnswer)

    def test_more_nodes_than_requests_at_once(self, issued: Certificates) -> None:
        """Their connections are refused, all of them."""
        with dead_node("dead") as dead:
            found = ask([dead] * (AT_ONCE_MAX + 100), asked(issued), read)

        assert [one.kind for one in found if isinstance(one, NodeFailure)] == [NodeFailureKind.UNREACHABLE] * 612

    def test_no_nodes_have_no_results(self, issued: Certificates) -> None:
        assert ask([], asked(issued), read) == []

    def test_without_a_context_the_request_is_plain_http(self, issued: Certificates) -> None:
        with receiver([document("1")]) as server:
            port = int(server.url.rpartition(":")[2])
            found = only(ask([Node("n0", "127.0.0.1", port)], asked(issued, access=NodeAccess(None)), read))

        assert isinstance(found, NodeAnswer)


class TestFailures:
    """A node that fails, fails alone and is named."""

    def test_others_answer_beside_a_dead_node(self, issued: Certificates) -> None:
        with nodes_with(issued, [document("1")], [document("2")]) as (nodes, _), dead_node("dead") as dead:
            found = ask([nodes[0], dead, nodes[1]], asked(issued), read)

        assert found[1] == NodeFailure(dead, NodeFailureKind.UNREACHABLE, "connection refused")
        assert [one.document for one in found if isinstance(one, NodeAnswer)] == [1, 2]

    def test_without_any_thread_nothing_is_possible(self, issued: Certificates) -> None:
        with no_more_threads(), pytest.raises(NotPossibleHere, match="no thread can be started"):
            ask([Node("n0", "127.0.0.1")], asked(issued), read)

    def test_name_without_an_address_is_unreachable(self, issued: Certificates) -> None:
        found = only(ask([Node("n0", "gpu..7")], asked(issued), read))

        assert isinstance(found, NodeFailure)
        assert found.kind is NodeFailureKind.UNREACHABLE
        assert found.message.startswith("cannot resolve the host name")

    def test_reader_may_refuse_an_answer(self, issued: Certificates) -> None:
        def refuse(_: bytearray) -> None:
            raise NodeUnusable(NodeFailureKind.OTHER_VERSION, "it has other columns")

        with nodes_with(issued, [document("1")]) as (nodes, _):
            found = only(ask(nodes, asked(issued), refuse))

        assert found == NodeFailure(nodes[0], NodeFailureKind.OTHER_VERSION, "it has other columns")

    def test_body_that_is_not_json_is_not_readable(self, issued: Certificates) -> None:
        assert failure_with(issued, document("{")).kind is NodeFailureKind.NOT_READABLE


class TestBounds:
    """Bytes and time."""

    def test_all_answers_together_have_a_bound(self, issued: Certificates) -> None:
        """Two of 700 KiB do not fit into 1 MiB."""
        text = '"' + "a" * (700 << 10) + '"'
        with nodes_with(issued, [document(text)], [document(text)]) as (nodes, _):
            found = ask(nodes, asked(issued, all_bytes_max=1 << 20), read)

        assert NodeFailureKind.TOO_LARGE in {one.kind for one in found if isinstance(one, NodeFailure)}

    @pytest.mark.parametrize("entry", [hang(), drip(0.05)], ids=["silent", "dripping"])
    def test_slow_node_is_named_at_the_deadline(self, entry: Any, issued: Certificates) -> None:
        assert failure_with(issued, entry, deadline=Deadline.after(SHORT_SECONDS))[1:] == (
            NodeFailureKind.TOO_SLOW,
            "no complete response within 0.15 s",
        )

    def test_two_hundred_hanging_nodes_are_left_at_the_deadline(self, issued: Certificates) -> None:
        """They would hang for ever."""
        with hanging_nodes(200) as nodes:
            found = ask(nodes, asked(issued, seconds=SHORT_SECONDS), read)

        assert {one.kind for one in found if isinstance(one, NodeFailure)} == {NodeFailureKind.TOO_SLOW}
        assert len(found) == 200

    def test_answer_that_has_come_is_kept_when_another_node_hangs(self, issued: Certificates) -> None:
        """The deadline is over as soon as the one answer is read."""
        given = asked(issued)

        def read_last(body: bytearray) -> Any:
            given.deadline.at = given.deadline.clock()
            return read(body)

        with hanging_nodes(1) as hanging, nodes_with(issued, [document("1")]) as (nodes, _):
            found = ask([*hanging, *nodes], given, read_last)

        assert isinstance(found[0], NodeFailure)
        assert found[0].kind is NodeFailureKind.TOO_SLOW
        assert isinstance(found[1], NodeAnswer)

    def test_answers_are_read_in_the_thread_of_the_caller(self, issued: Certificates) -> None:
        """One decoder at a time holds the interpreter."""
        with nodes_with(issued, [document("1")]) as (nodes, _):
            found = only(ask(nodes, asked(issued), lambda _: threading.current_thread()))

        assert isinstance(found, NodeAnswer)
        assert found.document is threading.current_thread()
