"""Requests to one server, each over a connection of its own: one that is kept may be dead by the next request.

Those who measure round trips send several over one connection, one after another: HttpClient.connected(). Redirects are responses
like any other: nothing is sent to where they point.
"""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from urllib.parse import SplitResult

import h11

from exporter import __version__
from exporter.http_client.deadline import Deadline
from exporter.http_client.errors import (
    CLOSED_EARLY,
    ConnectionFailed,
    HttpFailure,
    NotHttp,
    ProxyFailed,
    RequestCancelled,
    ResponseTooLarge,
)
from exporter.http_client.proxy import DEFAULT_PORTS, Proxy, port_of
from exporter.http_client.stream import Stream
from exporter.http_client.tls import client_context

MAX_HEAD_BYTES = 1 << 16
MAX_PARTS = 1 << 16
"""Chunks of a body, or blocks as the network delivers them: a part of one byte costs as much CPU as a large one."""

_MAX_CHARACTERS = 200
_VERSION_PREFIX = b"HTTP/"


class HttpClient:
    """Sends one request at a time. url: scheme, host and port count.

    tls: makes the context of an https connection; called for each one, since certificate files may be rotated.
    connect_host: where the server is, if its certificate and its virtual hosts have another name; not with a proxy.
    """

    def __init__(
        self,
        url: SplitResult,
        proxy: Proxy | None = None,
        tls: Callable[[], ssl.SSLContext] = client_context,
        *,
        connect_host: str = "",
    ) -> None:
        self._url = url
        self._connect_host = connect_host or str(url.hostname)
        self._tls = tls if url.scheme == "https" else None
        self._proxy = proxy
        self._stream: Stream | None = None
        self._is_cancelled = False
        self._lock = threading.Lock()  # guards the two above

    @contextmanager
    def request(
        self, method: str, target: str, headers: Mapping[str, str], deadline: Deadline, body: bytes = b""
    ) -> Iterator[ResponseReader]:
        """The response, once its head has arrived; the connection ends with the block. Raises HttpFailure.

        target: path and query. deadline: from the look-up of the host name to the last byte of the body.
        """
        with self.connected(deadline) as connection:
            yield connection.request(method, target, {"Connection": "close", **headers}, body)

    @contextmanager
    def connected(self, deadline: Deadline) -> Iterator[HttpConnection]:
        """A connection, until the end of the block. Raises HttpFailure.

        deadline: from the look-up of the host name to the last byte of the last body.
        """
        with closing(Stream(deadline)) as stream:
            self._register(stream)
            self._connect(stream)
            yield HttpConnection(stream, self._request)

    def cancel(self) -> None:
        """Make the request in flight, and every later one, raise RequestCancelled. From any thread."""
        with self._lock:
            self._is_cancelled = True
            if self._stream is not None:
                self._stream.cancel()

    def _register(self, stream: Stream) -> None:
        with self._lock:
            if self._is_cancelled:
                raise RequestCancelled("request cancelled")
            self._stream = stream

    def _connect(self, stream: Stream) -> None:
        host, port = str(self._url.hostname), port_of(self._url)
        if self._proxy:
            stream.connect(self._proxy.host, self._proxy.port)
        else:
            stream.connect(self._connect_host, port)
        if self._tls:
            if self._proxy:
                _open_tunnel(stream, _authority(host, port), self._proxy)
            stream.start_tls(self._tls(), host.removesuffix("."))  # no certificate has the final dot

    def _request(self, method: str, target: str, headers: Mapping[str, str], body_bytes: int) -> h11.Request:
        if self._proxy and not self._tls:
            target = self._url._replace(path="", query="").geturl() + target
            headers = {**headers, **self._proxy.headers}
        port = port_of(self._url)
        defaults = {
            "Host": _authority(str(self._url.hostname), None if port == DEFAULT_PORTS[self._url.scheme] else port),
            "User-Agent": f"gpu-stall-exporter/{__version__}",
            "Accept-Encoding": "identity",
            **({} if method == "GET" else {"Content-Length": str(body_bytes)}),
        }
        given = {name.lower() for name in headers}
        return _h11_request(
            method,
            target,
            {**{name: value for name, value in defaults.items() if name.lower() not in given}, **headers},
        )


class HttpConnection:
    """Requests over one connection, each after the response to the one before has been read to its end."""

    def __init__(self, stream: Stream, made: Callable[[str, str, Mapping[str, str], int], h11.Request]) -> None:
        """made: a request of method, target, headers and the length of its body, with the headers that all have."""
        self._stream = stream
        self._made = made
        self._parser = _new_parser()

    def request(self, method: str, target: str, headers: Mapping[str, str], body: bytes = b"") -> ResponseReader:
        """The response, once its head has arrived. Raises HttpFailure, also where the server keeps no connection open."""
        if self._parser.our_state is not h11.IDLE:
            try:
                self._parser.start_next_cycle()
            except h11.LocalProtocolError as error:
                raise ConnectionFailed("the server keeps no connection open") from error
        return ResponseReader(self._stream, self._parser, self._made(method, target, headers, len(body)), body)


class ResponseReader:
    """headers: by lower-case name. Its methods raise HttpFailure."""

    def __init__(self, stream: Stream, parser: h11.Connection, request: h11.Request, body: bytes = b"") -> None:
        self._stream = stream
        self._parser = parser
        self._head_bytes: int | None = 0  # received so far; None when the head is complete
        self._start = b""
        self._is_closed = self._is_read = False
        stream.send(self._parser.send(request) or b"")
        self._parser.send(h11.Data(data=body))
        self._parser.send(h11.EndOfMessage())
        stream.send(body)
        head = self._head()
        self.status = head.status_code
        self.reason = head.reason.decode("latin-1")
        self.headers = {name.decode("ascii"): value.decode("latin-1") for name, value in head.headers}

    def read_some(self) -> bytes:
        """The next part of the body, at least a byte; b"" at its end."""
        while not self._is_read:
            event = self._next_event()
            if isinstance(event, h11.Data) and event.data:
                return bytes(event.data)
            self._is_read = isinstance(event, h11.EndOfMessage)
        return b""

    def parts(self, max_bytes: int) -> Iterator[bytes]:
        """The body as it arrives. Raises ResponseTooLarge, without waiting for a body whose announced length is too large."""
        too_large = ResponseTooLarge(f"response larger than {max_bytes} bytes")
        if int(self.headers.get("content-length", 0)) > max_bytes:
            raise too_large
        received_bytes = 0
        for _ in range(MAX_PARTS):
            part = self.read_some()
            received_bytes += len(part)
            if received_bytes > max_bytes:
                raise too_large
            if not part:
                return
            yield part
        raise ResponseTooLarge(f"response in more than {MAX_PARTS} parts")

    def read(self, max_bytes: int) -> bytearray:
        """The whole body. Raises ResponseTooLarge, as parts()."""
        body = bytearray()  # a list of parts would cost much more than their bytes when each has one
        for part in self.parts(max_bytes):
            body += part
        return body

    def read_prefix(self, max_bytes: int) -> bytes:
        """The body up to a length; the rest is not received."""
        body = bytearray()
        while len(body) < max_bytes and (part := self.read_some()):
            body += part
        return bytes(body[:max_bytes])

    def _head(self) -> h11.Response:
        while True:
            event = self._next_event()
            if isinstance(event, h11.Response):
                self._head_bytes = None
                return event  # what came before it was `100 Continue` or the like

    def _next_event(self) -> object:
        try:
            while (event := self._parser.next_event()) is h11.NEED_DATA:
                data = self._stream.receive()
                self._is_closed = not data
                self._check_head(data)
                self._parser.receive_data(data)
        except h11.RemoteProtocolError as error:
            if self._is_closed:
                raise ConnectionFailed(CLOSED_EARLY) from error
            raise NotHttp(f"response is not HTTP: {str(error)[:_MAX_CHARACTERS]}") from error
        else:
            return event

    def _check_head(self, data: bytes) -> None:
        """Refuse at once what cannot become a head: h11 waits for the empty line that ends it."""
        if self._head_bytes is None or not data:
            return
        if self._head_bytes > MAX_HEAD_BYTES:
            raise NotHttp(f"response head larger than {MAX_HEAD_BYTES} bytes")
        self._head_bytes += len(data)
        self._start = (self._start + data)[: len(_VERSION_PREFIX)]
        if not _VERSION_PREFIX.startswith(self._start):
            raise NotHttp(f"response is not HTTP: it begins with {self._start!r}")


def _new_parser() -> h11.Connection:
    return h11.Connection(h11.CLIENT, max_incomplete_event_size=2 * MAX_HEAD_BYTES)


def _open_tunnel(stream: Stream, authority: str, proxy: Proxy) -> None:
    request = _h11_request("CONNECT", authority, {"Host": authority, **proxy.headers})
    response = ResponseReader(stream, _new_parser(), request)
    if not 200 <= response.status < 300:
        raise ProxyFailed(f"the proxy opened no tunnel: {response.status} {response.reason[:_MAX_CHARACTERS]}")


def _h11_request(method: str, target: str, headers: Mapping[str, str]) -> h11.Request:
    try:
        return h11.Request(method=method, target=target, headers=[(name, one.strip()) for name, one in headers.items()])
    except (h11.LocalProtocolError, UnicodeError) as error:
        raise HttpFailure("the URL or a header has a character that HTTP does not allow there") from error


def _authority(host: str, port: int | None) -> str:
    """`gpu7:4318`, `[::1]`."""
    name = f"[{host}]" if ":" in host else host
    return name if port is None else f"{name}:{port}"
