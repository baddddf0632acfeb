"""Nodes for tests of the fleet: scripted servers with TLS, and addresses at which nothing answers."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any
from urllib.parse import urlsplit

from exporter.fleet.clock_reading import CLOCK_PATH, ClockReading, clock_document, node_clock
from exporter.fleet.node import Node
from tests.support.certificates import Certificates
from tests.support.receiver import LOOPBACK, Entry, Receiver, Request, answer, receiver, refused


def document(text: str, status: int = 200) -> Entry:
    """A response of JSON."""
    return answer(status, text.encode(), content_type="application/json")


def clock(ahead_ns: int = 0) -> Entry:
    """The clocks of this machine as those of a node whose time of day is so much ahead."""

    def ahead(reading: ClockReading) -> ClockReading:
        return reading._replace(unix_ns=reading.unix_ns + ahead_ns)

    def say(connection: Any, request: Request) -> None:
        found = node_clock()
        shifted = found._replace(received=ahead(found.received), sent=ahead(found.sent))
        to = document(json.dumps(clock_document(shifted)))
        assert to.say is not None
        to.say(connection, request)

    return Entry(say)


def without_clocks(server: Receiver) -> list[Request]:
    """The requests to a node, but those for its clock."""
    return [one for one in server.requests if one.path != CLOCK_PATH]


def node_at(url: str, name: str) -> Node:
    """The node of a server."""
    parts = urlsplit(url)
    assert parts.hostname is not None
    assert parts.port is not None
    return Node(name, parts.hostname, parts.port)


@contextmanager
def nodes_with(issued: Certificates, *scripts: Sequence[Entry]) -> Iterator[tuple[list[Node], list[Receiver]]]:
    """Nodes `n0`, `n1` and so on, each with a server of its own and with TLS."""
    with ExitStack() as stack:
        servers = [stack.enter_context(receiver(script, issued.server_context())) for script in scripts]
        yield [node_at(server.url, f"n{number}") for number, server in enumerate(servers)], servers


@contextmanager
def dead_node(name: str) -> Iterator[Node]:
    """A node on which no server runs."""
    with refused() as url:
        yield node_at(url, name)


@contextmanager
def hanging_nodes(count: int) -> Iterator[list[Node]]:
    """Nodes whose kernel takes connections that no program accepts: TLS does not begin."""
    with socket.create_server((LOOPBACK, 0), backlog=2 * count) as listening:
        port = listening.getsockname()[1]
        yield [Node(f"h{number}", LOOPBACK, port) for number in range(count)]
