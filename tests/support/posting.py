"""One request to a receiver with a script, and what came of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from exporter.output.otlp.post import HttpResponse, Poster
from tests.support.pushing import target
from tests.support.receiver import (
    Entry,
    receiver,
)

JSON = {"Content-Type": "application/json"}
SHORT_SECONDS = 0.15  # for an answer that does not come
SOON_SECONDS = 5.0  # far less than anything here would take that nobody breaks off
PATIENCE_SECONDS = 30.0
PROXY_VARIABLES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")
BROKEN_OFF = "it closed the connection without a whole answer"


def posted(
    url: str,
    body: bytes = b"{}",
    headers: Mapping[str, str] = JSON,
    timeout_seconds: float = PATIENCE_SECONDS,
    **settings: object,
) -> HttpResponse:
    """The answer to one request."""
    return Poster(target(url, **settings)).post(body, headers, timeout_seconds)


def answered_by(*script: Entry) -> HttpResponse:
    """The answer to the first request."""
    with receiver(script) as found:
        return posted(found.url)


def raw(*parts: bytes, interval_seconds: float = 0.0) -> Entry:
    """These bytes, one part after the other, and then the end of the connection. Source of them: RFC 9112."""

    def say(connection: Any, _: object) -> None:
        for part in parts:
            connection.send(part)
            if interval_seconds and connection.wait_for_end(interval_seconds):
                return
        connection.close_connection = True

    return Entry(say)


def elapsed(act: Callable[[], object]) -> float:
    """Seconds."""
    began = time.monotonic()
    act()
    return time.monotonic() - began
