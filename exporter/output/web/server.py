"""The server: connections in an event loop of a thread of its own, pages made in two more.

A client may say nothing, say it a byte a second, take its answer as slowly, or be a thousand: the next one is served. Silent
connections are bounded, and the one that has been silent for longest makes room for a new one; a request has so many seconds
to be said, and its answer so many to be taken; equal requests at a time are answered by one rendering.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import logging
import socket
import ssl
import struct
import threading
import time
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from email.utils import formatdate
from functools import partial
from http import HTTPStatus
from typing import Any
from urllib.parse import unquote

import h11

from exporter import __version__
from exporter.output.web.access import AccessControl, AccessRules
from exporter.output.web.listeners import url_of
from exporter.output.web.messages import Headers, Request, Response, plain
from exporter.output.web.pages import HEALTH, READINESS, Pages

log = logging.getLogger(__name__)

_SERVER = f"gpu-stall-exporter/{__version__}"
_HEAD_BYTES = 16_384
_BODY_BYTES = 65_536
_WRITE_BYTES = 1 << 16
_LAST = ("Connection", "close")
_HEALTH_PAGES = (HEALTH, READINESS)
_CLOSE_SECONDS = 1.0
_CHECKS, _CHECKS_EACH = 32, 2  # passwords that wait to be compared, of all clients and of one address
_AT_ONCE = struct.pack("ii", 1, 0)  # struct linger: reset, and keep nothing in the kernel
_RETRY_SECONDS = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerLimits:
    """max_requests: whose answers are being made or taken at a time, and max_connections: that are open.

    Seconds: request_seconds for a request to be said, from the connection on, handshake included; idle_seconds for the next
    one on the same connection to begin; response_seconds for an answer to be taken, and place_seconds when others wait;
    wait_seconds that a request waits when there are too many.
    """

    max_requests: int
    max_connections: int = 256
    request_seconds: float = 10.0
    idle_seconds: float = 150.0
    response_seconds: float = 30.0
    place_seconds: float = 0.4
    wait_seconds: float = 0.8


class _Stage(enum.Enum):
    """What a connection does. SILENT: it is waited for. CHECKING: its password is. TAKING: its answer is on the way."""

    SILENT = enum.auto()
    CHECKING = enum.auto()
    ANSWERING = enum.auto()
    TAKING = enum.auto()


@dataclass(eq=False, slots=True)
class _Connection:
    """One client. peer: its address. since: when its stage began."""

    client: socket.socket
    peer: str
    task: asyncio.Task[None] | None = None
    stage: _Stage = _Stage.SILENT
    since: float = field(default_factory=time.monotonic)

    def enter(self, stage: _Stage) -> None:
        self.stage, self.since = stage, time.monotonic()


class Server:
    """Serves from start() to close(). listeners: sockets that listen; they are closed with it.

    is_health_open: whether /healthz and /readyz are told to clients without a password.
    """

    def __init__(
        self,
        listeners: Sequence[socket.socket],
        pages: Pages,
        gatekeeper: AccessControl,
        limits: ServerLimits,
        *,
        is_health_open: bool = False,
    ) -> None:
        self.listeners = tuple(listeners)
        self.gatekeeper = gatekeeper
        self._pages = pages
        self._limits = limits
        self._is_health_open = is_health_open
        self._connections: set[_Connection] = set()
        self._in_work: dict[tuple[object, ...], asyncio.Future[Response]] = {}
        self._thread = threading.Thread(target=self._run, name="web", daemon=True)
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._places = asyncio.Semaphore(limits.max_requests)

    def urls(self) -> list[str]:
        """Of its listeners, with the port of each."""
        is_tls = self.gatekeeper.gate().context is not None
        return [url_of(listener, is_tls=is_tls) for listener in self.listeners]

    def start(self) -> None:
        """From here on requests are answered."""
        self._thread.start()

    def close(self) -> None:
        """Nobody new comes in; who is being answered has a second. From any thread but its own."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join()
        else:
            self._loop.close()
        for listener in self.listeners:
            listener.close()

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            self._loop.set_exception_handler(_tell_of_defect)
            runner.run(self._serve())

    async def _serve(self) -> None:
        with ThreadPoolExecutor(2, "page") as self._makers, ThreadPoolExecutor(1, "password") as self._checkers:
            accepting = [asyncio.create_task(self._accept(listener)) for listener in self.listeners]
            await self._stop.wait()
            for task in accepting:
                task.cancel()
            tasks = {one.task for one in self._connections if one.task}
            for one in self._connections:
                if one.stage in (_Stage.SILENT, _Stage.CHECKING) and one.task:
                    one.task.cancel()
            if tasks:
                _, late = await asyncio.wait(tasks, timeout=_CLOSE_SECONDS)
                for task in late:
                    task.cancel()
            await asyncio.gather(*accepting, *tasks, return_exceptions=True)

    async def _accept(self, listener: socket.socket) -> None:
        listener.setblocking(False)
        is_told = False
        while True:
            try:
                client, peer = await self._loop.sock_accept(listener)
            except OSError as error:  # too many open files, for one: somebody must leave before anybody can come
                if not is_told:
                    log.error("a connection cannot be accepted: %s", error.strerror)
                is_told = True
                self._drop(_Stage.SILENT)
                await asyncio.sleep(_RETRY_SECONDS)
                continue
            is_told = False
            if len(self._connections) >= self._limits.max_connections and not self._drop(_Stage.SILENT):
                client.close()
                continue
            connection = _Connection(client, peer[0] if isinstance(peer, tuple) else "")
            self._connections.add(connection)
            connection.task = self._loop.create_task(self._attend(connection))
            connection.task.add_done_callback(partial(self._end, connection))

    def _drop(self, stage: _Stage, least_seconds: float = 0.0) -> bool:
        """Close the connection that has been at a stage for longest. Returns whether there was one."""
        longest = min((one for one in self._connections if one.stage is stage), key=lambda one: one.since, default=None)
        if longest is None or longest.task is None or time.monotonic() - longest.since < least_seconds:
            return False
        self._connections.remove(longest)
        longest.task.cancel()
        return True

    async def _attend(self, connection: _Connection) -> None:
        """A connection, from its first byte to its end."""
        # What goes wrong with a client, or with what it sends, is no news to anybody but itself.
        with contextlib.suppress(OSError, asyncio.CancelledError):
            async with asyncio.timeout(self._limits.request_seconds):
                await self._heard(connection.client)
                gate = self.gatekeeper.gate()
                reader, writer = await self._opened(connection.client, gate.context)
            try:
                if gate.lets_in(writer.get_extra_info("ssl_object")):
                    await self._converse(connection, reader, writer, gate)
                await _closed(writer)
            except BaseException:
                if connection.stage is _Stage.TAKING:  # what the client has not taken by now, it does not get
                    connection.client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
                raise
            finally:
                writer.transport.abort()

    def _end(self, connection: _Connection, _task: asyncio.Task[None]) -> None:
        """Its task is over, which may have been before it began."""
        self._connections.discard(connection)
        connection.client.close()

    async def _heard(self, client: socket.socket) -> None:
        """Until there is a first byte: before it, a connection costs next to nothing, TLS or not."""
        heard = asyncio.Event()
        self._loop.add_reader(client, heard.set)
        try:
            await heard.wait()
        finally:
            self._loop.remove_reader(client)

    async def _opened(
        self, client: socket.socket, context: ssl.SSLContext | None
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader = asyncio.StreamReader(limit=_HEAD_BYTES, loop=self._loop)
        protocol = asyncio.StreamReaderProtocol(reader, loop=self._loop)
        transport, _ = await self._loop.connect_accepted_socket(lambda: protocol, client, ssl=context)
        return reader, asyncio.StreamWriter(transport, protocol, reader, self._loop)

    async def _converse(
        self, connection: _Connection, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, opened: AccessRules
    ) -> None:
        """One request after the other, while what it came in by is in force."""
        talk = h11.Connection(h11.SERVER, max_incomplete_event_size=_HEAD_BYTES)
        until = connection.since + self._limits.request_seconds
        while True:
            try:
                async with asyncio.timeout_at(self._loop.time() + until - time.monotonic()):
                    request = await _request(talk, reader)
            except h11.RemoteProtocolError as error:
                await self._refuse(connection, talk, writer, error.error_status_hint)
                return
            gate = self.gatekeeper.gate()
            if request is None or gate.config.tls != opened.config.tls:
                return
            connection.enter(_Stage.ANSWERING)
            async with self._response(gate, connection, request) as response:
                await self._send(connection, talk, writer, response, is_head=request.method == "HEAD")
            if talk.our_state is not h11.DONE or talk.their_state is not h11.DONE:
                return
            talk.start_next_cycle()
            connection.enter(_Stage.SILENT)
            if not talk.trailing_data[0]:
                async with asyncio.timeout(self._limits.idle_seconds):
                    _hear(talk, await reader.read(_HEAD_BYTES))
            until = time.monotonic() + self._limits.request_seconds

    async def _refuse(
        self, connection: _Connection, talk: h11.Connection, writer: asyncio.StreamWriter, status: int
    ) -> None:
        """Of a request that cannot be understood."""
        if talk.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            refusal = plain(status, "bad request\n", _LAST)
            await self._send(connection, talk, writer, refusal, is_head=False)

    @contextlib.asynccontextmanager
    async def _response(self, gate: AccessRules, connection: _Connection, request: Request) -> AsyncIterator[Response]:
        """Let in, and made; whoever is given a page that takes work holds a place until it has taken it."""
        refusal = await self._refusal(gate, connection, request)
        if refusal is not None:
            yield _with_headers(refusal, gate.config.headers)
            return
        work = self._pages.work(request)
        if work is None:
            yield _with_headers(self._made(request), gate.config.headers)
            return
        if not await self._has_place():
            yield plain(503, "too many requests\n", ("Retry-After", "1"), *gate.config.headers)
            return
        try:
            yield _with_headers(await self._worked(work, request), gate.config.headers)
        finally:
            self._places.release()

    async def _refusal(self, gate: AccessRules, connection: _Connection, request: Request) -> Response | None:
        if self._is_health_open and request.path in _HEALTH_PAGES:
            return None
        if gate.bucket and not gate.bucket.takes(time.monotonic()):
            return plain(429, "too many requests\n")
        authorization = request.headers.get("authorization", "")
        is_known = gate.users.known(authorization)
        if is_known is None:
            checking = [one.peer for one in self._connections if one.stage is _Stage.CHECKING]
            if len(checking) >= _CHECKS or checking.count(connection.peer) >= _CHECKS_EACH:
                return plain(503, "too many passwords\n", ("Retry-After", "1"), _LAST)
            connection.enter(_Stage.CHECKING)
            is_known = await self._loop.run_in_executor(self._checkers, gate.users.check, authorization)
            connection.enter(_Stage.ANSWERING)
        return None if is_known else plain(401, "unauthorized\n", ("WWW-Authenticate", "Basic"), _LAST)

    async def _has_place(self) -> bool:
        """While all are taken, the answer that has been on its way for longest is given up, and then the next."""
        until = time.monotonic() + self._limits.wait_seconds
        while time.monotonic() < until:
            try:
                async with asyncio.timeout(_RETRY_SECONDS):
                    await self._places.acquire()
            except TimeoutError:
                self._drop(_Stage.TAKING, self._limits.place_seconds)
            else:
                return True
        return False

    async def _worked(self, work: tuple[object, ...], request: Request) -> Response:
        """Whoever asks while the same is being made gets it too."""
        if work not in self._in_work:
            made = self._in_work[work] = self._loop.run_in_executor(self._makers, self._made, request)
            made.add_done_callback(lambda _: self._in_work.pop(work))
        return await asyncio.shield(self._in_work[work])

    def _made(self, request: Request) -> Response:
        try:
            return self._pages.answer(request)
        except Exception:
            log.exception("a request failed")
            return plain(500, "internal error; the exporter's log says more\n")

    async def _send(
        self,
        connection: _Connection,
        talk: h11.Connection,
        writer: asyncio.StreamWriter,
        response: Response,
        *,
        is_head: bool,
    ) -> None:
        connection.enter(_Stage.TAKING)
        headers = [
            ("Server", _SERVER),
            ("Date", formatdate(usegmt=True)),
            ("Content-Length", str(response.size_bytes)),
            *response.headers,
        ]
        head = h11.Response(status_code=response.status, headers=headers, reason=HTTPStatus(response.status).phrase)
        async with asyncio.timeout(self._limits.response_seconds):
            writer.write(talk.send(head) or b"")
            for block in () if is_head else response.body:
                for at in range(0, len(block), _WRITE_BYTES):  # of what is not taken yet, the transport keeps a copy
                    data = talk.send_with_data_passthrough(h11.Data(data=block[at : at + _WRITE_BYTES]))
                    writer.writelines(data or ())
                    await writer.drain()
            writer.write(talk.send(h11.EndOfMessage()) or b"")
            await writer.drain()


async def _request(talk: h11.Connection, reader: asyncio.StreamReader) -> Request | None:
    """The next one, its body read and forgotten; None when the client is gone. Raises h11.RemoteProtocolError."""
    request, body_bytes = None, 0
    while True:
        event = talk.next_event()
        if event is h11.NEED_DATA and not talk.they_are_waiting_for_100_continue:
            _hear(talk, await reader.read(_HEAD_BYTES))
        elif isinstance(event, h11.Request):
            if event.http_version not in (b"1.0", b"1.1"):
                raise h11.RemoteProtocolError("not a version we speak", 505)
            request = _request_of(event)
        elif isinstance(event, h11.Data):
            body_bytes += len(event.data)
            if body_bytes > _BODY_BYTES:
                raise h11.RemoteProtocolError("more than any page wants", 413)
        elif isinstance(event, h11.ConnectionClosed):
            return None
        else:  # the end of the message, or as much of it as the client sends unasked
            return request


def _hear(talk: h11.Connection, data: bytes) -> None:
    """Empty lines before a request are no fault: RFC 9112, section 2.2."""
    is_before = talk.their_state is h11.IDLE and not talk.trailing_data[0]
    heard = data.lstrip(b"\r\n") if is_before else data
    if heard or not data:
        talk.receive_data(heard)


def _request_of(event: h11.Request) -> Request:
    headers: dict[str, str] = {}
    for name, value in event.headers:
        key = name.decode("ascii")
        headers[key] = f"{headers[key]}, {value.decode('latin-1')}" if key in headers else value.decode("latin-1")
    target = event.target.decode("ascii")
    if target.startswith(("http://", "https://")):  # as proxies are asked: RFC 9112, 3.2.2
        target = "/" + target.partition("://")[2].partition("/")[2]
    path, _, _query = target.partition("?")
    return Request(event.method.decode("ascii"), unquote(path), headers)


def _with_headers(response: Response, headers: Headers) -> Response:
    return replace(response, headers=(*response.headers, *headers)) if headers else response


async def _closed(writer: asyncio.StreamWriter) -> None:
    """What was sent may still be taken, for a moment."""
    writer.close()
    async with asyncio.timeout(_CLOSE_SECONDS):
        await writer.wait_closed()


def _tell_of_defect(_loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """What asyncio would print. A client that breaks off is none."""
    error = context.get("exception")
    if not isinstance(error, OSError):
        log.error("a connection failed: %s", context.get("message"), exc_info=error)
