"""One request to one node: the body of its answer, or why there is none.

In: a connection to a node, a request and the bounds of the answer. Out: bytes that have not been looked at, or NodeUnusable. A
redirect is a failure: the token is for this node alone. Proxies of the environment are not used.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final, NamedTuple
from urllib.parse import SplitResult

from exporter.fleet.access import NodeAccess
from exporter.fleet.failure import NodeFailureKind, NodeUnusable
from exporter.fleet.node import Node
from exporter.http_client.client import HttpClient, HttpConnection, ResponseReader
from exporter.http_client.deadline import Deadline
from exporter.http_client.errors import HttpFailure
from exporter.text import untrusted

_ERROR_BYTES_MAX: Final = 16 << 10
_KIND_OF_STATUS: Final[Mapping[int, NodeFailureKind]] = {
    401: NodeFailureKind.NOT_AUTHENTICATED,
    404: NodeFailureKind.OTHER_VERSION,
    405: NodeFailureKind.OTHER_VERSION,
    406: NodeFailureKind.OTHER_VERSION,
    422: NodeFailureKind.OTHER_VERSION,
    504: NodeFailureKind.TOO_SLOW,
}
"""Others are REFUSED. This version has every path of ours, and knows every name in statements: 404 and 422 are of another one."""


class NodeRequest(NamedTuple):
    """target: path and query. content_type: of the answer that is wanted. body: JSON, for a POST."""

    target: str
    content_type: str = "application/json"
    body: bytes | None = None

    @property
    def method(self) -> str:
        return "GET" if self.body is None else "POST"

    @property
    def headers(self) -> dict[str, str]:
        sent = {} if self.body is None else {"Content-Type": "application/json"}
        return {"Accept": self.content_type, **sent}


class ByteBudget:
    """Bytes that the answers of all nodes may have together. Half of them are shares: no node can take that of another.

    Used by many threads.
    """

    def __init__(self, bytes_max: int, nodes: int) -> None:
        self._bytes_max = bytes_max
        self.share_bytes = bytes_max // 2 // max(nodes, 1)
        self._left_bytes = bytes_max - self.share_bytes * nodes
        self._lock = threading.Lock()

    def draw(self, size_bytes: int) -> None:
        """For what a node receives beyond its share. Raises NodeUnusable when there is no more."""
        with self._lock:
            if size_bytes <= self._left_bytes:
                self._left_bytes -= size_bytes
                return
        raise NodeUnusable(
            NodeFailureKind.TOO_LARGE, f"the answers of all nodes together are larger than {self._bytes_max >> 20} MiB"
        )

    def give_back(self, size_bytes: int) -> None:
        with self._lock:
            self._left_bytes += size_bytes


class AnswerBounds(NamedTuple):
    """bytes_max: of one answer. budget: that of all nodes."""

    bytes_max: int
    budget: ByteBudget


def client_for(node: Node, access: NodeAccess) -> HttpClient:
    """A client whose request can be cancelled."""
    name = access.server_name or node.host
    host = f"[{name}]" if ":" in name else name
    url = SplitResult(access.scheme, f"{host}:{node.port}", "", "", "")
    context = access.context
    if context is None:
        return HttpClient(url, connect_host=node.host)
    return HttpClient(url, tls=lambda: context, connect_host=node.host)


@contextmanager
def connection_of(client: HttpClient, deadline: Deadline) -> Iterator[HttpConnection]:
    """A connection until the end of the block. Raises NodeUnusable, also for failures of requests within the block."""
    try:
        with client.connected(deadline) as connection:
            yield connection
    except HttpFailure as error:
        raise NodeUnusable.by(error) from None


def exchanged(connection: HttpConnection, request: NodeRequest, access: NodeAccess, bounds: AnswerBounds) -> bytearray:
    """The body. Raises NodeUnusable and HttpFailure."""
    headers = {**request.headers, **access.headers}
    response = connection.request(request.method, request.target, headers, request.body or b"")
    _check(response, request)
    return _body(response, bounds)


def _body(response: ResponseReader, bounds: AnswerBounds) -> bytearray:
    budget = bounds.budget
    body = bytearray()
    drawn_bytes = 0
    try:
        for part in response.parts(bounds.bytes_max):
            body += part
            beyond_bytes = len(body) - budget.share_bytes - drawn_bytes
            if beyond_bytes > 0:
                budget.draw(beyond_bytes)
                drawn_bytes += beyond_bytes
    except BaseException:
        budget.give_back(drawn_bytes)
        raise
    return body


def _check(response: ResponseReader, request: NodeRequest) -> None:
    """Raises NodeUnusable unless the body can be what is wanted."""
    if 300 <= response.status < 400:
        to = response.headers.get("location", "nowhere")
        raise NodeUnusable(NodeFailureKind.NOT_READABLE, f"status {response.status}: redirects to {to}")
    if response.status >= 400:
        kind = _KIND_OF_STATUS.get(response.status, NodeFailureKind.REFUSED)
        raise NodeUnusable(kind, _reason(response))
    if response.status != 200:
        raise NodeUnusable(NodeFailureKind.NOT_READABLE, f"status {response.status}")
    content_type = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    if content_type == request.content_type:
        return
    if content_type == "application/json":
        raise NodeUnusable(NodeFailureKind.OTHER_VERSION, f"its server does not answer with {request.content_type}")
    raise NodeUnusable(
        NodeFailureKind.NOT_READABLE, f"content type {content_type or 'missing'}, not {request.content_type}"
    )


def _reason(response: ResponseReader) -> str:
    """What the node says in its document of a failure, else its status."""
    status = f"status {response.status} {response.reason}".rstrip()
    try:
        document = untrusted.mapping(untrusted.small_json_value(response.read_prefix(_ERROR_BYTES_MAX)))
        error = untrusted.mapping(untrusted.member(document, "error"))
        message = untrusted.text(untrusted.member(error, "message"), untrusted.LINE_CHARACTERS)
        remedy = untrusted.text(error.get("remedy", ""), untrusted.LINE_CHARACTERS)
    except untrusted.Untrusted:
        return status
    return f"{message}; {remedy}" if remedy else message
