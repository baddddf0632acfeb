"""What each request passes before it is answered, in this order: host, bearer, rate limit; and the audit, which has all of them.

Browsers send requests to any address that a name of an attacker leads to: only the names of this server are answered. A token
that is wrong is answered at once, and counts against the rate of its address.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, MutableMapping
from typing import Any, Final

from exporter.config.web_file import RateLimit
from exporter.serve.pages.layout import page_headers
from exporter.serve.pages.refusal import refusal_page
from exporter.serve.sessions import Sessions, session_id_of
from exporter.serve.tools.failure import Failure, StatusKind
from exporter.service.bearer import BearerCheck
from exporter.service.request_body import drop_body
from exporter.service.tokens import TokenFile, TokenReader
from exporter.text.printable import printable

log = logging.getLogger(__name__)

BODY_BYTES_MAX: Final = 256 << 10
_DROPPED_BYTES_MAX: Final = 1 << 20
SIGN_IN, SIGN_OUT, STATIC = "/sign-in", "/sign-out", "/static/"
OPEN_PATHS: Final = frozenset(("/api/versions", SIGN_IN, SIGN_OUT))
"""Answered without a token, as are files below STATIC: they say nothing about this machine."""

_READING_METHODS: Final = ("GET", "HEAD")
_OWN_SITES: Final = ("same-origin", "none")
"""A browser sends them where a page of this server asks, or its user by the address bar."""

_TOO_LARGE: Final = Failure(
    StatusKind.TOO_LARGE,
    f"the body has more than {BODY_BYTES_MAX} bytes",
    "send a smaller one, such as a shorter SELECT",
)

READER: Final = "gpustall.reader"
AUDIT: Final = "gpustall.audit"
_FOR_PROGRAMS: Final = ("/api/", "/mcp", STATIC)
_PATH_CHARACTERS: Final = 200

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


class Gate:
    """app: answers requests that pass. hosts: names that this server has. tokens: None: every client is LOCAL_READER.

    limit: of requests a second, for each reader, and for each address without one. sessions: of browsers; they only read.
    """

    def __init__(
        self, app: App, hosts: Collection[str], tokens: TokenFile | None, limit: RateLimit, sessions: Sessions
    ) -> None:
        self._app = app
        self._hosts = frozenset(name.lower() for name in hosts)
        self._tokens = tokens
        self._bearer = BearerCheck(tokens, limit)
        self._sessions = sessions

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        audit = scope[AUDIT] = {"reader": "", "tool": ""}
        began = time.monotonic()
        status = 0

        async def noted(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                given = list(message.get("headers", ()))
                names = {name for name, _ in given}
                message["headers"] = [*given, *(one for one in _HEADERS if one[0] not in names)]
            await send(message)

        try:
            failure = self._refusal(scope)
            if failure is None:
                await self._app(scope, _bounded(receive), noted)
            else:
                await drop_body(receive, _DROPPED_BYTES_MAX)
                await respond(scope, noted, failure)
        except TooLarge as body:
            if status == 0:
                if body.has_more:
                    await drop_body(receive, _DROPPED_BYTES_MAX)
                await respond(scope, noted, _TOO_LARGE)
        finally:
            self._audit(scope, audit, status, time.monotonic() - began)

    def _refusal(self, scope: Scope) -> Failure | None:
        headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
        if not self._is_ours(headers.get(b"host", "")):
            return Failure(
                StatusKind.WRONG_HOST,
                "this server has another name",
                "set --web.allowed-hosts to the name that is used",
            )
        origin = headers.get(b"origin")
        if origin is not None and not self._is_ours(origin.partition("://")[2]):
            return Failure(StatusKind.WRONG_HOST, "a page of another site asks", "open the server's own page")
        if int(headers.get(b"content-length") or 0) > BODY_BYTES_MAX:
            return _TOO_LARGE
        reader = self._bearer.reader(headers.get(b"authorization", "")) or self._reader_of_session(
            scope["method"], headers
        )
        address = str((scope.get("client") or ("",))[0])
        if not self._bearer.is_within_limit(reader, address):
            return Failure(StatusKind.TOO_MANY, "too many requests", "try again in a second")
        if reader is None and scope["path"] not in OPEN_PATHS and not scope["path"].startswith(STATIC):
            return Failure(
                StatusKind.NOT_AUTHENTICATED,
                "no known token",
                "send the header `Authorization: Bearer TOKEN`; `gpu-stall-exporter serve --new-token=NAME` makes one",
            )
        scope[READER] = reader
        scope[AUDIT]["reader"] = reader.name if reader else ""
        return None

    def _is_ours(self, host: str) -> bool:
        name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
        return name.lower().strip("[]").rstrip(".") in self._hosts

    def _reader_of_session(self, method: str, headers: Mapping[bytes, str]) -> TokenReader | None:
        """Whose token a browser has signed in with. A page of another site, and of another port, does not use it."""
        is_own = headers.get(b"sec-fetch-site", "none") in _OWN_SITES
        session_id = session_id_of(headers.get(b"cookie", ""))
        if self._tokens is None or b"authorization" in headers or method not in _READING_METHODS or not is_own:
            return None
        token_hash = self._sessions.token_hash(session_id) if session_id else None
        return self._tokens.tokens().reader_of_hash(token_hash) if token_hash else None

    def _audit(self, scope: Scope, audit: dict[str, str], status: int, took_seconds: float) -> None:
        client = scope.get("client") or ("", 0)
        log.info(
            "request reader=%s address=%s method=%s path=%s tool=%s status=%d seconds=%.3f",
            json.dumps(audit["reader"]),
            client[0],
            json.dumps(printable(scope["method"][:16])),
            json.dumps(printable(scope["path"][:_PATH_CHARACTERS])),
            json.dumps(audit["tool"]),
            status,
            took_seconds,
        )


class TooLarge(Exception):
    """A body is larger than it may be. has_more: of it has not arrived."""

    def __init__(self, *, has_more: bool) -> None:
        super().__init__()
        self.has_more = has_more


_HEADERS: Final = (
    (b"x-content-type-options", b"nosniff"),
    (b"cache-control", b"no-store"),
    (b"referrer-policy", b"no-referrer"),
)


def _bounded(receive: Receive) -> Receive:
    size_bytes = 0

    async def bounded() -> Message:
        nonlocal size_bytes
        message = await receive()
        size_bytes += len(message.get("body", b""))
        if size_bytes > BODY_BYTES_MAX:
            raise TooLarge(has_more=message.get("more_body", False))
        return message

    return bounded


async def respond(scope: Scope, send: Send, failure: Failure) -> None:
    """A failure as JSON, or as a page for a browser."""
    headers = {"content-type": "application/json"}
    body = json.dumps(failure.document()).encode()
    if wants_page(scope):
        query = scope.get("query_string", b"")
        path = scope.get("raw_path", b"/") + (b"?" + query if query else b"")
        headers, body = page_headers(), refusal_page(failure, path.decode("latin-1"))
    headers |= {"content-length": str(len(body))}
    if failure.kind is StatusKind.NOT_AUTHENTICATED:
        headers |= {"www-authenticate": "Bearer"}
    sent = [(name.encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": failure.kind.status, "headers": sent})
    await send({"type": "http.response.body", "body": body})


def wants_page(scope: Scope) -> bool:
    """Whether a person asks: a browser, for a path that is not for programs."""
    accepted = next((value for name, value in scope["headers"] if name == b"accept"), b"")
    return b"text/html" in accepted and not scope["path"].startswith(_FOR_PROGRAMS)
