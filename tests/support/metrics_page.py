"""An HTTP server for tests of metrics readers: its response is given for each path."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PROTOBUF = "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited"

Respond = Callable[[BaseHTTPRequestHandler], None]
"""Answers one request."""


@dataclass
class Page:
    """A running server. base: its URL without a path. requests: the headers of every request, in order."""

    base: str
    requests: list[Message] = field(default_factory=list)


def responds(
    body: bytes, content_type: str = PROTOBUF, status: int = 200, headers: Mapping[str, str] | None = None
) -> Respond:
    """A complete response."""

    def respond(request: BaseHTTPRequestHandler) -> None:
        request.send_response(status)
        for name, value in {"Content-Type": content_type, "Content-Length": str(len(body)), **(headers or {})}.items():
            request.send_header(name, value)
        request.end_headers()
        request.wfile.write(body)

    return respond


@contextmanager
def page(pages: Mapping[str, Respond]) -> Iterator[Page]:
    """pages: path with its query -> response; other paths are not found."""
    found = Page("")

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found.requests.append(self.headers)
            pages.get(self.path, responds(b"", "text/plain", 404))(self)

        def log_message(self, *_arguments: object) -> None:
            """Print nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        found.base = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield found
        finally:
            server.shutdown()
            thread.join()
