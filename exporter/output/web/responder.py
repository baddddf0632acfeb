"""The response to a request: access rules first, then a page, with a limit on pages that are rendered or sent at a time.

Pages are made in two threads; requests for the same page at a time share one rendering.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from exporter.errors import ExporterError
from exporter.output.web.access import AccessRules
from exporter.output.web.connections import ClientConnection, ConnectionTable, Stage, UserOf, client_of
from exporter.output.web.http_exchange import CLOSE
from exporter.output.web.limits import ServerLimits
from exporter.output.web.messages import Headers, Request, Response, plain
from exporter.output.web.pages import HEALTH, READINESS, Pages

log = logging.getLogger(__name__)

_HEALTH_PAGES = (HEALTH, READINESS)
_MAX_CHECKING_PEERS, _MAX_CHECKS_PER_PEER = 32, 2  # whose passwords wait to be compared
_RETRY_SECONDS = 0.1


class Responder:
    """Used by the event loop's thread. is_health_open: /healthz and /readyz need no password."""

    def __init__(
        self,
        pages: Pages,
        limits: ServerLimits,
        connections: ConnectionTable,
        *,
        is_health_open: bool,
        user_of: UserOf,
    ) -> None:
        self._user_of = user_of
        self._pages = pages
        self._limits = limits
        self._connections = connections
        self._is_health_open = is_health_open
        self._page_threads = ThreadPoolExecutor(2, "page")
        self._password_thread = ThreadPoolExecutor(1, "password")
        self._slots = asyncio.Semaphore(limits.max_requests)
        self._renderings: dict[tuple[object, ...], asyncio.Future[Response]] = {}

    def close(self) -> None:
        """Wait for the threads."""
        self._page_threads.shutdown()
        self._password_thread.shutdown()

    @contextlib.asynccontextmanager
    async def response(
        self, rules: AccessRules, connection: ClientConnection, request: Request
    ) -> AsyncIterator[Response]:
        """The response, to be sent within the block: a page that must be rendered keeps a slot until then."""
        headers = rules.config.headers
        refusal = await self._refusal(rules, connection, request)
        if refusal is not None:
            yield _with_headers(refusal, headers)
            return
        key = self._pages.sharing_key(request)
        if key is None:
            yield _with_headers(self._page(request), headers)
            return
        if not await self._acquire_slot():
            yield plain(503, "too many requests\n", ("Retry-After", "1"), *headers)
            return
        try:
            yield _with_headers(await self._shared_page(key, request), headers)
        finally:
            self._slots.release()

    async def _refusal(self, rules: AccessRules, connection: ClientConnection, request: Request) -> Response | None:
        if self._is_health_open and request.path in _HEALTH_PAGES:
            return None
        if rules.bucket and not rules.bucket.take(time.monotonic()):
            return plain(429, "too many requests\n")
        authorization = request.headers.get("authorization", "")
        is_known = rules.users.cached_result(authorization)
        if is_known is None:
            connection.peer = connection.peer or client_of(connection.client, self._user_of)
            checking = self._connections.peers(Stage.CHECKING)
            peers = {*checking, connection.peer}
            if len(peers) > _MAX_CHECKING_PEERS or checking.count(connection.peer) >= _MAX_CHECKS_PER_PEER:
                return plain(503, "too many passwords\n", ("Retry-After", "1"), CLOSE)
            connection.enter(Stage.CHECKING)
            loop = asyncio.get_running_loop()
            is_known = await loop.run_in_executor(self._password_thread, rules.users.check, authorization)
            connection.enter(Stage.RESPONDING)
        return None if is_known else plain(401, "unauthorized\n", ("WWW-Authenticate", "Basic"), CLOSE)

    async def _acquire_slot(self) -> bool:
        """Wait for a slot, and evict the clients that have been receiving their response for longest."""
        until = time.monotonic() + self._limits.slot_wait_seconds
        while time.monotonic() < until:
            try:
                async with asyncio.timeout(_RETRY_SECONDS):
                    await self._slots.acquire()
            except TimeoutError:
                self._connections.evict(Stage.SENDING, self._limits.guaranteed_seconds)
            else:
                return True
        return False

    async def _shared_page(self, key: tuple[object, ...], request: Request) -> Response:
        """The page, whose rendering is shared with requests with the same key that arrive before it is ready."""
        if key not in self._renderings:
            made = asyncio.get_running_loop().run_in_executor(self._page_threads, self._page, request)
            self._renderings[key] = made
            made.add_done_callback(lambda _: self._renderings.pop(key))
        return await asyncio.shield(self._renderings[key])

    def _page(self, request: Request) -> Response:
        try:
            return self._pages.answer(request)
        except ExporterError as error:  # such as a kernel that refuses to read a map; the tick logs it
            return plain(503, f"no metrics: {error.one_line()}\n")
        except Exception:
            log.exception("request for %s failed: internal error (bug)", request.path)
            return plain(500, "internal error; see the exporter's log\n")


def _with_headers(response: Response, headers: Headers) -> Response:
    return replace(response, headers=(*response.headers, *headers)) if headers else response
