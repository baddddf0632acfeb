"""A receiver that refuses large requests, for the scripts of tests.support.receiver."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.support.receiver import Entry, Request, answer

CONTENT_TOO_LARGE = answer(413, b"<html>413 Request Entity Too Large</html>", content_type="text/html")
COLLECTOR_TOO_LARGE = answer(400, b'{"code":3,"message":"http: request body too large"}')
GATEWAY_TOO_LARGE = answer(429, b'{"code":8,"message":"grpc: received message larger than max (9 vs. 4)"}')


def unless(is_refused: Callable[[Request], bool], refusal: Entry = CONTENT_TOO_LARGE) -> Entry:
    """Success, but for some requests."""
    accepted = answer()

    def say(connection: Any, request: Request) -> None:
        entry = refusal if is_refused(request) else accepted
        assert entry.say is not None
        entry.say(connection, request)

    return Entry(say)
