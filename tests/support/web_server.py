"""The exporter's web server on a free port of the loopback interface, with given pages."""

from __future__ import annotations

import http.client
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from exporter import catalog
from exporter.model import Snapshot
from exporter.output.web.access import AccessControl
from exporter.output.web.connections import UserOf, no_user
from exporter.output.web.limits import ServerLimits
from exporter.output.web.listeners import listening
from exporter.output.web.pages import Pages
from exporter.output.web.server import Server
from exporter.own_metrics.store import OwnMetrics
from tests.support.patience import PATIENCE_SECONDS
from tests.support.records import point, snapshot_of

Address = tuple[str, int]
SNAPSHOT = snapshot_of(catalog.cuda.OPERATIONS, point(12, "runtime", "cudaMalloc"))
SERIES = b"gpustall_cuda_operations_total{"
LARGE = snapshot_of(catalog.cuda.OPERATIONS, *(point(n, "runtime", f"{n:020000}") for n in range(400)))
"""Larger than every socket buffer, 8 MB. Of few series, since a page of many takes seconds on a busy machine."""


@contextmanager
def serving(
    pages: Pages,
    *,
    config_file: Path | None = None,
    is_health_open: bool = False,
    user_of: UserOf = no_user,
    **limits: float,
) -> Iterator[Address]:
    """The address of a running server. limits: of ServerLimits."""
    listeners = listening([("127.0.0.1", 0)])
    server_limits = ServerLimits(**{"max_requests": 5, **limits})  # type: ignore[arg-type]
    server = Server(
        listeners, pages, AccessControl(config_file), server_limits, is_health_open=is_health_open, user_of=user_of
    )
    address = listeners[0].getsockname()
    server.start()
    try:
        yield address
    finally:
        server.close()


class Answer:
    """The response to one request on a connection of its own. body: still compressed, if it was."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        self.status, self.headers, self.body = response.status, response.headers, response.read()


def get(
    address: Address, path: str = "/metrics", method: str = "GET", context: ssl.SSLContext | None = None, **headers: str
) -> Answer:
    """headers: Accept_Encoding="gzip". context: of a TLS client."""
    connection = (
        http.client.HTTPSConnection(*address, timeout=PATIENCE_SECONDS, context=context)
        if context
        else http.client.HTTPConnection(*address, timeout=PATIENCE_SECONDS)
    )
    try:
        connection.request(method, path, headers={name.replace("_", "-"): value for name, value in headers.items()})
        return Answer(connection.getresponse())
    finally:
        connection.close()


def exchange(address: Address, request: bytes) -> bytes:
    """All bytes that the server sends for these bytes, until it closes the connection."""
    with socket.create_connection(address, timeout=PATIENCE_SECONDS) as client:
        client.sendall(request)
        return b"".join(iter(lambda: client.recv(65536), b""))


def pages(snapshot: Callable[[], Snapshot] = lambda: SNAPSHOT) -> Pages:
    """Pages of one series."""
    return Pages(snapshot, OwnMetrics(), lambda: True, with_exporter_metrics=False)


@contextmanager
def connected(address: Address, count: int) -> Iterator[list[socket.socket]]:
    """So many silent clients."""
    with ExitStack() as stack:
        yield [stack.enter_context(socket.create_connection(address, timeout=PATIENCE_SECONDS)) for _ in range(count)]
