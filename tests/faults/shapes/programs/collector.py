"""A collector of metrics, as MLflow's server: each request is JSON, and is answered when it is kept. Argument: an open socket."""

import json
import socket
import sys
from collections import deque
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import ClassVar

KEPT = 1000
PATIENCE_SECONDS = 60


class Handler(BaseHTTPRequestHandler):
    """One connection with many requests."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    kept: ClassVar[deque[dict[str, object]]] = deque(maxlen=KEPT)

    def do_POST(self) -> None:
        self.kept.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        answer = json.dumps({"kept": len(self.kept)}).encode()
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - as the base class names it
        """Nothing is printed."""


def main() -> None:
    server = HTTPServer(("127.0.0.1", 0), Handler, bind_and_activate=False)
    server.socket.close()
    server.socket = socket.socket(fileno=int(sys.argv[1]))
    server.timeout = PATIENCE_SECONDS
    server.handle_request()  # the connection of the job, until it ends


if __name__ == "__main__":
    main()
