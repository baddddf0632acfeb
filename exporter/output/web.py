"""The HTTP side: /, /metrics, /healthz, /readyz, and a server that no client can keep from answering the next one.

In: a function that gives a Snapshot. Out: responses; each request has a thread, their number and their patience are bounded.
"""

from __future__ import annotations

import contextlib
import html
import logging
import socket
import socketserver
import threading
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any
from wsgiref.simple_server import ServerHandler, WSGIRequestHandler, WSGIServer

from exporter import __version__, catalog
from exporter.errors import BadInput
from exporter.model import Snapshot
from exporter.output import protobuf, text
from exporter.output.negotiation import Format, accepts_gzip, choose_format
from exporter.output.own_metrics import OwnMetrics

log = logging.getLogger(__name__)

GZIP_LEVEL = 1  # level 9 costs 8 times the CPU for a sixth less (docs/measurements.md)
CLIENT_PATIENCE_SECONDS = 10  # for a request line, and for a client to take its response
_BLOCK_BYTES = 1 << 16
_GZIP_WINDOW = 31  # zlib's way to say: gzip header, largest window
_TURNED_AWAY = (
    b"HTTP/1.0 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Type: text/plain; charset=utf-8\r\n"
    b"Content-Length: 18\r\n\r\ntoo many requests\n"
)

Environ = dict[str, Any]
StartResponse = Callable[[str, list[tuple[str, str]]], Any]


class Application:
    """The WSGI application. snapshot: gives the current numbers; is_ready: whether probes are attached and ticking."""

    def __init__(
        self,
        snapshot: Callable[[], Snapshot],
        own: OwnMetrics,
        is_ready: Callable[[], bool],
        *,
        telemetry_path: str = "/metrics",
        with_exporter_metrics: bool = True,
    ) -> None:
        self._snapshot = snapshot
        self._own = own
        self._is_ready = is_ready
        self._telemetry_path = telemetry_path
        self._with_exporter_metrics = with_exporter_metrics

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """One request. HEAD is answered with the headers of GET and without its body, which wsgiref would send."""
        if environ["REQUEST_METHOD"] == "HEAD":
            self._answer(environ, start_response)
            return []
        if environ["REQUEST_METHOD"] != "GET":
            return _plain(start_response, "405 Method Not Allowed", "only GET and HEAD\n", [("Allow", "GET, HEAD")])
        return self._answer(environ, start_response)

    def _answer(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        path = environ.get("PATH_INFO", "/")
        if path == self._telemetry_path:
            return self._metrics(environ, start_response)
        if path == "/healthz":
            return _plain(start_response, "200 OK", "ok\n")
        if path == "/readyz":
            if self._is_ready():
                return _plain(start_response, "200 OK", "ready\n")
            return _plain(start_response, "503 Service Unavailable", "not ready: no tick has finished yet\n")
        if path == "/":
            return self._landing(start_response)
        return _plain(start_response, "404 Not Found", f"not found; metrics are at {self._telemetry_path}\n")

    def _metrics(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        fmt = choose_format(environ.get("HTTP_ACCEPT", ""))
        snapshot = self._snapshot()
        started_at = time.monotonic()
        headers = [("Content-Type", fmt.value), ("Vary", "Accept, Accept-Encoding")]
        pieces = self._pieces(snapshot, fmt)
        if accepts_gzip(environ):
            headers.append(("Content-Encoding", "gzip"))
            pieces = _gzipped(pieces)
        body = list(_blocks(pieces))
        self._own.set(catalog.RENDER_DURATION, time.monotonic() - started_at, fmt.name.lower())
        headers.append(("Content-Length", str(sum(map(len, body)))))
        start_response("200 OK", headers)
        return body

    def _pieces(self, snapshot: Snapshot, fmt: Format) -> Iterator[bytes]:
        if self._with_exporter_metrics:
            yield self._own.render(fmt)
        if fmt is Format.PROTOBUF:
            yield from protobuf.render(snapshot)
            return
        for piece in text.render(snapshot, fmt):
            yield piece.encode()
        if fmt is Format.OPENMETRICS:
            yield b"# EOF\n"

    def _landing(self, start_response: StartResponse) -> Iterable[bytes]:
        path = html.escape(self._telemetry_path)
        page = (
            '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>gpu-stall-exporter</title>'
            "<style>body{font-family:sans-serif;margin:3em;max-width:40em}li{margin:.4em 0}</style></head><body>"
            f"<h1>gpu-stall-exporter</h1><p>Says why a GPU waits. Version {__version__}.</p><ul>"
            f'<li><a href="{path}">{path}</a>: metrics</li><li><a href="/healthz">/healthz</a>: the process answers</li>'
            '<li><a href="/readyz">/readyz</a>: probes are in place</li></ul></body></html>\n'
        )
        body = page.encode()
        start_response("200 OK", [("Content-Type", "text/html; charset=utf-8"), ("Content-Length", str(len(body)))])
        return [body]


def _plain(
    start_response: StartResponse, status: str, message: str, extra: list[tuple[str, str]] | None = None
) -> Iterable[bytes]:
    body = message.encode()
    headers = [("Content-Type", "text/plain; charset=utf-8"), ("Content-Length", str(len(body)))]
    start_response(status, headers + (extra or []))
    return [body]


def _blocks(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Joined to what is worth a system call; never all of them, which may be tens of megabytes."""
    held: list[bytes] = []
    size_bytes = 0
    for piece in pieces:
        held.append(piece)
        size_bytes += len(piece)
        if size_bytes >= _BLOCK_BYTES:
            yield b"".join(held)
            held, size_bytes = [], 0
    if held:
        yield b"".join(held)


def _gzipped(pieces: Iterator[bytes]) -> Iterator[bytes]:
    compressor = zlib.compressobj(GZIP_LEVEL, zlib.DEFLATED, _GZIP_WINDOW)
    for piece in pieces:
        yield compressor.compress(piece)
    yield compressor.flush()


class _Response(ServerHandler):
    """The response to one request. A defect of ours is logged once, in our format, and answered with 500."""

    error_body = b"internal error; the exporter's log says more\n"
    server_software = f"gpu-stall-exporter/{__version__}"

    def log_exception(self, exc_info: Any) -> None:
        """Instead of a traceback on standard error. A client too slow to take its response is no defect and no news."""
        if not isinstance(exc_info[1], TimeoutError):
            log.error("a request failed", exc_info=exc_info)


class _Request(WSGIRequestHandler):
    """One connection: quiet, impatient, and without a word about the Python that runs it."""

    server_version = f"gpu-stall-exporter/{__version__}"
    sys_version = ""

    def setup(self) -> None:
        """Before the first byte is read: how long to wait for each."""
        super().setup()
        self.connection.settimeout(self.server.patience_seconds)  # type: ignore[attr-defined] # it is a Server

    def handle(self) -> None:
        try:
            self.raw_requestline = self.rfile.readline(65537)
            if len(self.raw_requestline) > 65536:
                self.requestline = self.request_version = self.command = ""
                self.send_error(414)
                return
            if not self.parse_request():
                return
            handler = _Response(
                self.rfile,
                self.wfile,  # type: ignore[arg-type] # a buffered writer is what wsgiref passes as well
                self.get_stderr(),
                self.get_environ(),
                multithread=True,
            )
            handler.request_handler = self  # type: ignore[attr-defined] # what wsgiref's own handle() does
            handler.run(self.server.get_app())  # type: ignore[attr-defined] # it is a WSGIServer
        except (TimeoutError, ConnectionError):
            self.close_connection = True  # the client went away or never spoke

    def log_message(self, *_arguments: object) -> None:
        """A scrape is no news."""


class Server(socketserver.ThreadingMixIn, WSGIServer):
    """A WSGI server with a thread per request, at most `max_requests` at a time; one more is told to come again.

    patience_seconds: how long a client may neither say nor take anything.
    """

    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def __init__(
        self,
        address: tuple[str, int],
        application: Application,
        max_requests: int,
        patience_seconds: float = CLIENT_PATIENCE_SECONDS,
    ) -> None:
        self.patience_seconds = patience_seconds
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        self._room = threading.BoundedSemaphore(max_requests)
        try:
            super().__init__(address, _Request)
        except (OSError, OverflowError) as error:
            host, port = address
            raise BadInput(
                f"cannot listen on {host}:{port}: {getattr(error, 'strerror', None) or error}",
                remedy="choose another --web.listen-address",
            ) from error
        self.set_app(application)

    def server_bind(self) -> None:
        """Bind without the reverse name look-up of http.server, which can hang for seconds."""
        socketserver.TCPServer.server_bind(self)
        host, port = self.server_address[:2]
        self.server_name, self.server_port = str(host), int(port)
        self.setup_environ()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Give the connection a thread, or turn it away when there are too many."""
        if not self._room.acquire(blocking=False):
            with contextlib.suppress(OSError):  # its buffer is empty: this neither waits nor fails, unless it is gone
                request.setblocking(False)
                request.send(_TURNED_AWAY)
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:
            self._room.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """In the thread of one connection."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._room.release()

    def handle_error(self, _request: Any, _client_address: Any) -> None:
        """A broken client is no news; errors of the application are answered with 500 and logged by wsgiref."""
