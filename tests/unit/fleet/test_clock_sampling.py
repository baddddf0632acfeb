"""clock_sampling: the offset of a node's clock over a connection that has brought an answer, with real servers and TLS."""

from __future__ import annotations

import json

import pytest

from exporter.fleet.access import NodeAccess
from exporter.fleet.asking import Asked, NodeAnswer, ask
from exporter.fleet.clock_offset import ClockOffset
from exporter.fleet.clock_reading import CLOCK_PATH, clock_document, node_clock
from exporter.fleet.clock_sampling import SAMPLES_MAX, is_enough
from exporter.fleet.exchange import NodeRequest
from exporter.http_client.deadline import Deadline
from tests.support.certificates import Certificates
from tests.support.fleet import clock, document, nodes_with
from tests.support.patience import PATIENCE_SECONDS
from tests.support.receiver import Entry, Request, answer, drop, hang, html
from tests.support.traced import only

AHEAD_NS = 52_000_000
ANSWER = document('"answer"')


def asked_of(issued: Certificates, *script: Entry) -> tuple[ClockOffset | None, list[Request]]:
    """The offset of a node that has answered, and the requests that it got."""
    given = Asked(
        NodeRequest("/api/v1/ranks"),
        NodeAccess(issued.client_context(), "secret"),
        Deadline.after(PATIENCE_SECONDS),
        compares_clocks=True,
    )
    with nodes_with(issued, script) as (nodes, servers):
        found = only(ask(nodes, given, lambda body: json.loads(bytes(body))))
        assert isinstance(found, NodeAnswer), found
        assert found.document == "answer"
        return found.clock, only(servers).requests


class TestOffset:
    def test_clock_that_is_ahead_is_within_the_stated_bound(self, issued: Certificates) -> None:
        """Both machines are this one: what it is ahead is known to the nanosecond."""
        found, _ = asked_of(issued, ANSWER, clock(AHEAD_NS))

        assert found is not None
        assert abs(found.ahead_ns - AHEAD_NS) <= found.bound_ns

    def test_requests_for_the_clock_take_the_connection_of_the_answer(self, issued: Certificates) -> None:
        """With the token, after the answer, and a few times at most."""
        _, (first, *others) = asked_of(issued, ANSWER, clock())

        assert first.path == "/api/v1/ranks"
        assert {one.path for one in others} == {CLOCK_PATH}
        assert 1 <= len(others) <= SAMPLES_MAX
        assert {one.connection for one in others} == {first.connection}
        assert {one.headers["Authorization"] for one in others} == {"Bearer secret"}


class TestEnough:
    """How many requests a clock is worth."""

    @pytest.mark.parametrize(
        ("trips_ms", "expected"),
        [
            ((), False),
            ((5,), True),
            ((6,), False),
            ((30, 5), True),
            ((40, 30), False),
            ((40, 31), True),
            ((40, 60), True),
            ((40, 30, 20), False),
            ((40, 30, 23), True),
            ((100, 70, 50, 35, 24), True),
        ],
        ids=str,
    )
    def test_further_request_is_made_while_round_trips_become_shorter(
        self, trips_ms: tuple[int, ...], *, expected: bool
    ) -> None:
        """By a quarter each, unless one is short enough, and five times at most."""
        assert is_enough([one * 1_000_000 for one in trips_ms]) is expected


class TestUnknown:
    """The answer of the node stands, whatever becomes of its clock."""

    @pytest.mark.parametrize(
        "entry",
        [
            document("{}", 404),
            document("{}"),
            html(),
            document("[" * 2000),
            answer(200, b"1" * 100_000),
            drop(),
            hang(),
        ],
        ids=["older version", "no clock", "page", "not JSON", "too large", "broken connection", "no answer"],
    )
    def test_node_that_does_not_say_has_no_offset(self, entry: Entry, issued: Certificates) -> None:
        found, (_, second) = asked_of(issued, ANSWER, entry)

        assert found is None
        assert second.path == CLOCK_PATH

    def test_server_that_closes_the_connection_has_no_offset(self, issued: Certificates) -> None:
        closing = answer(200, b'"answer"', {"Connection": "close"}, "application/json")
        found, requests = asked_of(issued, closing, clock())

        assert (found, len(requests)) == (None, 1)

    def test_clock_that_contradicts_itself_has_no_offset(self, issued: Certificates) -> None:
        """It answered before it had the request."""
        now = node_clock()
        turned = now._replace(received=now.sent, sent=now.received)
        turned = turned._replace(received=turned.received._replace(monotonic_ns=turned.sent.monotonic_ns + 1))

        assert asked_of(issued, ANSWER, document(json.dumps(clock_document(turned))))[0] is None
