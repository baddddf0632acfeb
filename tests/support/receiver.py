"""A receiver of OTLP over HTTP as tests need it: a real socket that records what comes and answers as its script says.

    with receiver([answer(503), drop()]) as found:
        push_to(found.url)
        first, second = found.awaited(2)

Each request takes the next entry of the script, and the last one stays; without a script all is well. A thread serves each
connection, which is kept alive by HTTP/1.1. At the end of the block every socket is closed, also while a client waits. An error
of the receiver itself fails the test then.
"""

from __future__ import annotations

import gzip
import http.client
import json
import select
import socket
import socketserver
import ssl
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from email.message import Message
from http.server import BaseHTTPRequestHandler
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsPartialSuccess,
    ExportMetricsServiceResponse,
)

from tests.support.patience import PATIENCE_SECONDS

LOOPBACK = "127.0.0.1"
ELSEWHERE = "receiver.example"
"""A host that only proxy() finds: a request to a loopback address never goes through a proxy."""

PROTOBUF = "application/x-protobuf"
_CHUNK_BYTES = 65536


@dataclass(frozen=True)
class Request:
    """A received request. path: of the request line. headers: in any case. connection: 1 for that of the first client.

    body: as it was sent. arrived_seconds: of the monotonic clock, when its last byte was there.
    """

    method: str
    path: str
    headers: Message
    body: bytes
    connection: int
    arrived_seconds: float

    @property
    def content(self) -> bytes:
        """The body, unpacked."""
        return gzip.decompress(self.body) if self.headers.get("Content-Encoding") == "gzip" else self.body

    @property
    def is_protobuf(self) -> bool:
        """By its content type."""
        return self.headers.get_content_type() == PROTOBUF


# --- scripts


class Entry(NamedTuple):
    """The response to one request. say: acts on the connection; None: it is not even read."""

    say: Callable[[_Connection, Request], object] | None


def answer(
    status: int = 200,
    body: bytes | None = None,
    headers: Mapping[str, str] | None = None,
    content_type: str | None = None,
) -> Entry:
    """A response. Without a body: an empty message, in the format of the request. Without a type: that of the request."""

    def say(connection: _Connection, request: Request) -> None:
        connection.send(_response(request, status, body, headers, content_type))

    return Entry(say)


def partial(rejected: int, message: str = "", field: str = "rejectedDataPoints") -> Entry:
    """200, but some were rejected; in the format of the request. field: of JSON; in protobuf one number is that of all three."""
    outcome = {field: str(rejected), "errorMessage": message}
    in_json = json.dumps({"partialSuccess": outcome}).encode()
    in_protobuf = ExportMetricsServiceResponse(
        partial_success=ExportMetricsPartialSuccess(rejected_data_points=rejected, error_message=message)
    ).SerializeToString()

    def say(connection: _Connection, request: Request) -> None:
        connection.send(_response(request, 200, in_protobuf if request.is_protobuf else in_json))

    return Entry(say)


def redirect(to: str, status: int = 307) -> Entry:
    """Another address."""
    return answer(status, headers={"Location": to})


def html(status: int = 200) -> Entry:
    """A web page, such as a login form or the page of another service."""
    return answer(status, b"<!doctype html><title>Hello</title>", content_type="text/html; charset=utf-8")


def hang() -> Entry:
    """No answer, until the test ends."""
    return Entry(lambda connection, _: connection.wait_for_end())


def drip(interval_seconds: float) -> Entry:
    """A success, one byte at a time. No read waits for longer than the interval, and all of it takes long."""

    def say(connection: _Connection, request: Request) -> None:
        for byte in _response(request, 200):
            connection.send(bytes([byte]))
            if connection.wait_for_end(interval_seconds):
                return

    return Entry(say)


def drop() -> Entry:
    """The connection is closed, without an answer."""

    def say(connection: _Connection, _: Request) -> None:
        connection.close_connection = True

    return Entry(say)


def never_read() -> Entry:
    """A connection that is accepted and never read, TLS handshake included. It is no request, so none is recorded.

    Holds for a new connection; a request on one that is kept alive is read, and not answered.
    """
    return Entry(None)


def _response(
    request: Request,
    status: int,
    body: bytes | None = None,
    headers: Mapping[str, str] | None = None,
    content_type: str | None = None,
) -> bytes:
    if body is None:
        body = b"" if request.is_protobuf else b"{}"
    lines = {
        "Content-Type": content_type or request.headers.get_content_type(),
        "Content-Length": str(len(body)),
        **(headers or {}),
    }
    head = f"HTTP/1.1 {status} {http.client.responses.get(status, 'Unknown')}\r\n"
    return (head + "".join(f"{name}: {value}\r\n" for name, value in lines.items()) + "\r\n").encode() + body


# --- servers


class _Server(socketserver.ThreadingTCPServer):
    """A server whose connections all end with it. is_ended: waited for by what would wait forever."""

    block_on_close = True  # server_close() waits for the threads, which have all been woken
    request_queue_size = 128

    def __init__(self, handler: type[_Handler]) -> None:
        super().__init__((LOOPBACK, 0), handler)
        self.is_ended = threading.Event()
        self.changed = threading.Condition()
        self.connections = 0
        self._open: set[socket.socket] = set()
        self._errors: list[BaseException] = []

    @property
    def address(self) -> str:
        """`127.0.0.1:41093`."""
        return f"{LOOPBACK}:{self.server_address[1]}"

    def enter(self, connection: socket.socket) -> int:
        """Have a socket shut down at the end; returns how many there were."""
        with self.changed:
            self._open.add(connection)
            if self.is_ended.is_set():
                _shut_down(connection)
            self.connections += 1
            self.changed.notify_all()
            return self.connections

    def leave(self, connection: socket.socket) -> None:
        """Close it before."""
        with self.changed:
            self._open.discard(connection)
            connection.close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Keep it for the end, unless a socket failed: the client has left or refused the certificate, or all is over."""
        error = sys.exc_info()[1]
        if error is not None and not isinstance(error, OSError):
            self._errors.append(error)

    def end(self) -> None:
        """Wake and close everything."""
        self.is_ended.set()
        self.shutdown()
        with self.changed:
            for connection in self._open:
                _shut_down(connection)
        self.server_close()
        if self._errors:
            raise self._errors[0]


def _shut_down(connection: socket.socket) -> None:
    with suppress(OSError):  # the client was faster
        # Not the method of SSLSocket, which takes the TLS state away from the thread that is reading.
        socket.socket.shutdown(connection, socket.SHUT_RDWR)


class _Handler(BaseHTTPRequestHandler):
    """Common to the connections of the receiver and of the proxy."""

    protocol_version = "HTTP/1.1"
    server: _Server

    def log_message(self, *_: Any) -> None:
        """Print nothing."""

    def setup(self) -> None:
        """Let the connection end with the server."""
        self.number = self.server.enter(self.request)
        super().setup()

    def finish(self) -> None:
        """Close."""
        super().finish()
        self.server.leave(self.connection)

    def send(self, payload: bytes) -> None:
        """Bytes, at once."""
        self.wfile.write(payload)

    def wait_for_end(self, seconds: float | None = None) -> bool:
        """Wait until the server ends, at most so many seconds. Returns whether it has ended."""
        is_ended = self.server.is_ended.wait(seconds)
        if is_ended:
            self.close_connection = True
        return is_ended


class _Connection(_Handler):
    """One client of the receiver."""

    server: _Receiver

    def setup(self) -> None:
        """Wrap the socket in TLS; the handshake is in the connection's own thread, so that a slow client delays no other."""
        self._is_read = not self.server.takes_unread()
        if self._is_read and self.server.tls is not None:
            self.request = self.server.tls.wrap_socket(self.request, server_side=True, do_handshake_on_connect=False)
        super().setup()

    def handle(self) -> None:
        """Serve until one side closes."""
        if not self._is_read:
            self.wait_for_end()
            return
        if isinstance(self.connection, ssl.SSLSocket):
            self._shake_hands(self.connection)
        super().handle()

    def _shake_hands(self, connection: ssl.SSLSocket) -> None:
        """Read on after a failed handshake: to close while the client still sends would overtake the alert."""
        try:
            connection.do_handshake()
        except ssl.SSLError:
            socket.socket.shutdown(connection, socket.SHUT_WR)
            while socket.socket.recv(connection, _CHUNK_BYTES):
                pass
            raise

    def do_POST(self) -> None:
        """Record, then do as the script says."""
        if "Transfer-Encoding" in self.headers:
            raise AssertionError("this receiver reads no chunks")
        length = int(self.headers.get("Content-Length", 0))
        body = self.rfile.read(length)
        if len(body) < length:
            raise ConnectionError("the client left in the middle of a body")
        request = Request(self.command, self.path, self.headers, body, self.number, time.monotonic())
        entry = self.server.record(request)
        if entry.say is None:
            self.wait_for_end()
        else:
            entry.say(self, request)

    # A client that follows a redirect may change the method.
    do_GET = do_POST  # noqa: N815 - the interface
    do_PUT = do_POST  # noqa: N815 - the interface


class _Receiver(_Server):
    """The script and the requests so far."""

    def __init__(self, script: Sequence[Entry], tls: ssl.SSLContext | None) -> None:
        super().__init__(_Connection)
        self.tls = tls
        self.requests: list[Request] = []
        self._script = list(script)

    def record(self, request: Request) -> Entry:
        """Record a request; returns its entry of the script."""
        with self.changed:
            self.requests.append(request)
            self.changed.notify_all()
            return self._next()

    def takes_unread(self) -> bool:
        """Whether a new connection is not to be read."""
        with self.changed:
            return self._script[0].say is None and self._next().say is None

    def _next(self) -> Entry:
        return self._script.pop(0) if len(self._script) > 1 else self._script[0]


@dataclass(frozen=True)
class Receiver:
    """A receiver that runs. url: of the endpoint, without a path."""

    url: str
    _server: _Receiver

    @property
    def url_behind_proxy(self) -> str:
        """The endpoint as a host that only proxy() finds."""
        return self.url.replace(LOOPBACK, ELSEWHERE)

    @property
    def requests(self) -> list[Request]:
        """All requests so far, in order."""
        with self._server.changed:
            return list(self._server.requests)

    @property
    def connections(self) -> int:
        """How many were accepted, silent ones included."""
        with self._server.changed:
            return self._server.connections

    def awaited_connection(self) -> None:
        """Wait until a client has connected."""
        with self._server.changed:
            assert self._server.changed.wait_for(lambda: self._server.connections, PATIENCE_SECONDS), "no connection"

    def awaited(self, count: int) -> list[Request]:
        """The requests, as soon as there are so many."""
        with self._server.changed:
            came = self._server.changed.wait_for(lambda: len(self._server.requests) >= count, PATIENCE_SECONDS)
            assert came, f"{len(self._server.requests)} requests within {PATIENCE_SECONDS} s, and not {count}"
            return list(self._server.requests)


@contextmanager
def receiver(script: Sequence[Entry] = (), tls: ssl.SSLContext | None = None) -> Iterator[Receiver]:
    """A receiver on a free port of the loopback interface. tls: it speaks HTTPS."""
    server = _Receiver(script or [answer()], tls)
    with _serving(server):
        yield Receiver(f"{'https' if tls else 'http'}://{server.address}", server)


@contextmanager
def _serving(server: _Server) -> Iterator[None]:
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield
    finally:
        server.end()
        thread.join()


@contextmanager
def refused() -> Iterator[str]:
    """The address of a port on which nothing listens; it is reserved during the block."""
    with socket.socket() as bound:
        bound.bind((LOOPBACK, 0))
        yield f"http://{LOOPBACK}:{bound.getsockname()[1]}"


# --- the proxy


class Proxied(NamedTuple):
    """A request to a proxy. line: `CONNECT 127.0.0.1:4318 HTTP/1.1`. authorization: None for no such header."""

    line: str
    authorization: str | None


class _ProxyConnection(_Handler):
    """One client of the proxy."""

    server: _Proxy

    def _record(self) -> None:
        with self.server.changed:
            self.server.requests.append(Proxied(self.requestline, self.headers.get("Proxy-Authorization")))

    def do_CONNECT(self) -> None:
        """A tunnel."""
        self._record()
        self._relay(self.path, b"", greeting=b"HTTP/1.1 200 Connection established\r\n\r\n")

    def do_POST(self) -> None:
        """One request, handed on without what is meant for the proxy."""
        self._record()
        target = urlsplit(self.path)
        for name in ("Proxy-Authorization", "Proxy-Connection", "Connection"):
            del self.headers[name]
        self.headers["Connection"] = "close"
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        path = target._replace(scheme="", netloc="").geturl() or "/"
        head = f"{self.command} {path} HTTP/1.1\r\n" + "".join(f"{k}: {v}\r\n" for k, v in self.headers.items())
        self._relay(target.netloc, f"{head}\r\n".encode() + body)

    do_GET = do_POST  # noqa: N815 - the interface

    def _relay(self, target: str, request: bytes, greeting: bytes = b"") -> None:
        """Connect, send both sides their first bytes, then relay until one side closes."""
        self.close_connection = True
        host, _, port = target.rpartition(":")
        try:
            upstream = socket.create_connection((LOOPBACK if host.removesuffix(".") == ELSEWHERE else host, int(port)))
        except OSError:
            self.send(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            return
        self.server.enter(upstream)
        try:
            upstream.sendall(request)
            self.send(greeting)
            other = {self.connection: upstream, upstream: self.connection}
            while True:
                for side in select.select(list(other), [], [])[0]:
                    chunk = side.recv(_CHUNK_BYTES)
                    if not chunk:
                        return
                    other[side].sendall(chunk)
        finally:
            self.server.leave(upstream)


class _Proxy(_Server):
    """The requests so far."""

    def __init__(self) -> None:
        super().__init__(_ProxyConnection)
        self.requests: list[Proxied] = []


@dataclass(frozen=True)
class Proxy:
    """A proxy that runs. url: http, with nothing to log in with."""

    url: str
    _server: _Proxy

    @property
    def requests(self) -> list[Proxied]:
        """All requests so far, in order."""
        with self._server.changed:
            return list(self._server.requests)


@contextmanager
def proxy() -> Iterator[Proxy]:
    """A forward proxy on a free port of the loopback interface: absolute addresses for http, tunnels for https.

    It finds receivers of this machine under the name ELSEWHERE too.
    """
    server = _Proxy()
    with _serving(server):
        yield Proxy(f"http://{server.address}", server)
