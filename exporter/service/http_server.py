"""The HTTP server of a process without privileges: TLS whose certificate is read again, bounded connections, until a signal."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import ssl
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, contextmanager, nullcontext
from typing import Any, Final, NamedTuple

import uvicorn

from exporter.errors import NotPossibleHere
from exporter.output.web.access import AccessControl
from exporter.service.connections import BoundedConnection

log = logging.getLogger(__name__)

HANDSHAKE_SECONDS: Final = 5.0
_KEEP_ALIVE_SECONDS: Final = 15
_STOP_SECONDS: Final = 5


class HttpService(NamedTuple):
    """app: an ASGI application. also: runs beside it. describes: follows the URL in the log."""

    app: Any
    describes: str
    has_lifespan: bool = False
    connection: type[BoundedConnection] = BoundedConnection
    also: AbstractAsyncContextManager[Any] = nullcontext()


def serve_until_signal(service: HttpService, listening: socket.socket, control: AccessControl) -> None:
    """Until SIGINT or SIGTERM."""
    config = uvicorn.Config(
        service.app,
        http=service.connection,
        ws="none",
        lifespan="on" if service.has_lifespan else "off",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=_STOP_SECONDS,
        ssl_context_factory=(lambda *_: _context(control)) if control.rules().context else None,
    )

    async def serve() -> None:
        async with service.also:
            await _Server(config, service.describes).serve(sockets=[listening])

    with asyncio.Runner(loop_factory=_Loop) as runner:
        runner.run(serve())


def listening_on(host: str, port: int) -> socket.socket:
    """Raises NotPossibleHere."""
    try:
        family = socket.getaddrinfo(host or "0.0.0.0", port, type=socket.SOCK_STREAM)[0][0]  # noqa: S104 - an empty host means all addresses
        return socket.create_server((host, port), family=family, backlog=128)
    except OSError as error:
        where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        raise NotPossibleHere(
            f"cannot listen on {where}: {error.strerror or error}", remedy="set --web.listen-address to another address"
        ) from None


class _Loop(asyncio.SelectorEventLoop):
    """Clients that do not begin TLS in time are closed; uvicorn has no setting for it."""

    async def create_server(self, *arguments: Any, **named: Any) -> Any:
        if named.get("ssl"):
            named["ssl_handshake_timeout"] = HANDSHAKE_SECONDS
        return await super().create_server(*arguments, **named)


class _Server(uvicorn.Server):
    """Sleeps until a signal: uvicorn's own loop wakes up ten times a second, and ends the process by the signal."""

    _stopping: asyncio.Event

    def __init__(self, config: uvicorn.Config, describes: str) -> None:
        super().__init__(config)
        self._describes = describes

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self._stopping = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, self._stopping.set)
        await super().startup(sockets)
        for listening in sockets or ():
            host, port = listening.getsockname()[:2]
            name = f"[{host}]" if ":" in host else host
            log.info("serving %s://%s:%d%s", "https" if self.config.is_ssl else "http", name, port, self._describes)

    async def main_loop(self) -> None:
        await self._stopping.wait()
        self.should_exit = True

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _context(control: AccessControl) -> ssl.SSLContext:
    """Each connection gets the certificate of the latest version of the file."""
    rules = control.rules()
    assert rules.context is not None  # noqa: S101 - serve_until_signal() has looked

    def latest(connection: Any, _name: Any, _context: Any) -> None:
        if (context := control.rules().context) is not None:
            connection.context = context

    rules.context.sni_callback = latest
    return rules.context
