"""The web server: connections in an event loop of its own thread, pages in the Responder's threads.

A client may send nothing, or a byte a second, or not receive its response, or open a thousand connections: other requests are
served. Connections are bounded, and the one that has been idle for longest makes room for a new one; a request, its response and
the pause between two requests have time limits (limits.ServerLimits).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
import threading
import time
from collections.abc import Sequence
from functools import partial
from typing import Any

from exporter.output.web.access import AccessControl, AccessRules
from exporter.output.web.connections import ClientConnection, ConnectionTable, Stage, UserOf, no_user
from exporter.output.web.http_exchange import CLOSE, HEAD_BYTES, HttpExchange
from exporter.output.web.limits import ServerLimits
from exporter.output.web.listeners import url_of
from exporter.output.web.messages import plain
from exporter.output.web.pages import Pages
from exporter.output.web.request_head import BadRequest
from exporter.output.web.responder import Responder

log = logging.getLogger(__name__)

_CLOSE_SECONDS = 1.0
_RETRY_SECONDS = 0.1


class Server:
    """Serves from start() to close(). listeners: listening sockets, which close() closes.

    is_health_open: /healthz and /readyz need no password.
    """

    def __init__(
        self,
        listeners: Sequence[socket.socket],
        pages: Pages,
        access: AccessControl,
        limits: ServerLimits,
        *,
        is_health_open: bool = False,
        user_of: UserOf = no_user,
    ) -> None:
        self.listeners = tuple(listeners)
        self._access = access
        self._limits = limits
        self._connections = ConnectionTable(limits.max_connections)
        self._responder = Responder(pages, limits, self._connections, is_health_open=is_health_open, user_of=user_of)
        self._thread = threading.Thread(target=self._run, name="web", daemon=True)
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()

    def urls(self) -> list[str]:
        """The URL of each listener."""
        is_tls = self._access.rules().context is not None
        return [url_of(listener, is_tls=is_tls) for listener in self.listeners]

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def close(self) -> None:
        """Accept no more connections, and end the open ones within a second. From any thread but the server's."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join()
        else:
            self._loop.close()
        self._responder.close()
        for listener in self.listeners:
            listener.close()

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            self._loop.set_exception_handler(_log_defect)
            runner.run(self._serve())

    async def _serve(self) -> None:
        accepting = [asyncio.create_task(self._accept(listener)) for listener in self.listeners]
        await self._stop.wait()
        for task in accepting:
            task.cancel()
        tasks = {one.task for one in self._connections if one.task}
        for one in self._connections:
            if one.stage in (Stage.IDLE, Stage.CHECKING) and one.task:
                one.task.cancel()
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=_CLOSE_SECONDS)
            for task in late:
                task.cancel()
        await asyncio.gather(*accepting, *tasks, return_exceptions=True)

    async def _accept(self, listener: socket.socket) -> None:
        listener.setblocking(False)
        is_failing = False
        while True:
            try:
                client, _ = await self._loop.sock_accept(listener)
            except OSError as error:  # such as too many open files: a connection must end before another is accepted
                if not is_failing:
                    log.error(
                        "cannot accept connections: %s; closing idle connections until this succeeds", error.strerror
                    )
                is_failing = True
                self._connections.evict(Stage.IDLE)
                await asyncio.sleep(_RETRY_SECONDS)
                continue
            is_failing = False
            if not self._connections.has_room():
                client.close()
                continue
            connection = ClientConnection(client)
            self._connections.add(connection)
            connection.task = self._loop.create_task(self._handle(connection))
            connection.task.add_done_callback(partial(self._end, connection))

    async def _handle(self, connection: ClientConnection) -> None:
        """A connection from its first byte to its end."""
        # Errors of a client, or of its bytes, are not logged: any client could fill the log.
        with contextlib.suppress(OSError, asyncio.CancelledError):
            async with asyncio.timeout(self._limits.request_seconds):
                await self._first_byte(connection.client)
                rules = self._access.rules()
                reader, writer = await self._open(connection.client, rules.context)
            try:
                allowed_until = rules.allowed_until(writer.get_extra_info("ssl_object"))
                if time.time() < allowed_until:
                    await self._serve_requests(connection, HttpExchange(reader, writer), rules, allowed_until)
                await _close(writer)
            except BaseException:
                if connection.stage is Stage.SENDING:
                    connection.reset()
                raise
            finally:
                writer.transport.abort()

    def _end(self, connection: ClientConnection, _task: asyncio.Task[None]) -> None:
        """Called after the connection's task, which may have been cancelled before it began."""
        self._connections.discard(connection)
        connection.client.close()

    async def _first_byte(self, client: socket.socket) -> None:
        """Wait for data: until then a connection costs next to nothing, with TLS or without."""
        arrived = asyncio.Event()
        self._loop.add_reader(client, arrived.set)
        try:
            await arrived.wait()
        finally:
            self._loop.remove_reader(client)

    async def _open(
        self, client: socket.socket, context: ssl.SSLContext | None
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader = asyncio.StreamReader(limit=HEAD_BYTES, loop=self._loop)
        protocol = asyncio.StreamReaderProtocol(reader, loop=self._loop)
        transport, _ = await self._loop.connect_accepted_socket(lambda: protocol, client, ssl=context)
        return reader, asyncio.StreamWriter(transport, protocol, reader, self._loop)

    async def _serve_requests(
        self, connection: ClientConnection, exchange: HttpExchange, opened: AccessRules, allowed_until: float
    ) -> None:
        """One request after another, until either side closes, the TLS settings change or the client's certificate expires."""
        until = connection.since + self._limits.request_seconds
        while True:
            try:
                async with asyncio.timeout_at(self._loop.time() + until - time.monotonic()):
                    request = await exchange.request()
            except BadRequest as error:
                if exchange.may_respond:
                    connection.enter(Stage.SENDING)
                    async with asyncio.timeout(self._limits.response_seconds):
                        await exchange.send(plain(error.status, "bad request\n", CLOSE))
                return
            rules = self._access.rules()
            if request is None or rules.config.tls != opened.config.tls or time.time() >= allowed_until:
                return
            connection.enter(Stage.RESPONDING)
            async with self._responder.response(rules, connection, request) as response:
                connection.enter(Stage.SENDING)
                async with asyncio.timeout(self._limits.response_seconds):
                    await exchange.send(response, is_head=request.method == "HEAD")
            if not exchange.start_next():
                return
            connection.enter(Stage.IDLE)
            async with asyncio.timeout(self._limits.idle_seconds):
                await exchange.wait_for_data()
            until = time.monotonic() + self._limits.request_seconds


async def _close(writer: asyncio.StreamWriter) -> None:
    """The client has a moment to receive what was sent."""
    writer.close()
    async with asyncio.timeout(_CLOSE_SECONDS):
        await writer.wait_closed()


def _log_defect(_loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """asyncio would print it. A client that disconnects is not a defect."""
    error = context.get("exception")
    if not isinstance(error, OSError):
        log.error("connection failed: %s", context.get("message"), exc_info=error)
