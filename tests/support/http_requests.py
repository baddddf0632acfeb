"""One request to a scripted server, through the client of the exporter."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from exporter.http_client.client import HttpClient
from exporter.http_client.deadline import Deadline
from exporter.http_client.proxy import proxy_for
from exporter.http_client.tls import client_context
from tests.support.patience import PATIENCE_SECONDS
from tests.support.receiver import Entry, receiver

JSON = {"Content-Type": "application/json"}
SHORT_SECONDS = 0.15  # for a response that does not come
SOON_SECONDS = 5.0  # far less than anything here would take without a deadline
MAX_BYTES = 1 << 20
CLOSED_EARLY = "connection closed before the response was complete"


class Received(NamedTuple):
    """A response with its whole body."""

    status: int
    headers: Mapping[str, str]
    body: bytes


def client_of(
    url: str, ca_file: Path | None = None, certificate: Path | None = None, key: Path | None = None
) -> HttpClient:
    """A client for a URL, with the proxy of the environment."""
    parts = urlsplit(url)
    return HttpClient(parts, proxy_for(parts), lambda: client_context(ca_file, certificate, key))


def post(
    url: str,
    body: bytes = b"{}",
    headers: Mapping[str, str] = JSON,
    *,
    timeout_seconds: float = PATIENCE_SECONDS,
    ca_file: Path | None = None,
    certificate: Path | None = None,
    key: Path | None = None,
) -> Received:
    """The response to one POST."""
    target = urlsplit(url)._replace(scheme="", netloc="").geturl() or "/"
    client = client_of(url, ca_file, certificate, key)
    with client.request("POST", target, headers, Deadline.after(timeout_seconds), body) as response:
        return Received(response.status, response.headers, bytes(response.read(MAX_BYTES)))


def response_of(*script: Entry) -> Received:
    """The response of a server with this script."""
    with receiver(script) as found:
        return post(found.url)


def raw(*parts: bytes, interval_seconds: float = 0.0) -> Entry:
    """These bytes, one part at a time, and then the end of the connection. Source of their syntax: RFC 9112."""

    def send(connection: Any, _: object) -> None:
        for part in parts:
            connection.send(part)
            if interval_seconds and connection.wait_for_end(interval_seconds):
                return
        connection.close_connection = True

    return Entry(send)


def elapsed_seconds(act: Callable[[], object]) -> float:
    """How long a call takes."""
    began = time.monotonic()
    act()
    return time.monotonic() - began
