"""Calls, each answered by a process of its own: a few at a time, some wait, more are refused."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final, NamedTuple

from exporter.errors import ExporterError
from exporter.serve.dispatcher import HEADER_BYTES, REQUEST_BYTES_MAX, Dispatcher
from exporter.serve.tools.failure import Failure, StatusKind, TooMany
from exporter.serve.work import ANSWERED, CallRequest

AT_ONCE: Final = 4
WAITING_MAX: Final = 64
_FRAME_BYTES_MAX: Final = 64 << 20


class Failed(Exception):
    """A call that has no answer."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure

    @classmethod
    def by(cls, error: ExporterError) -> Failed:
        return cls(Failure.of(error))


class Calls:
    """seconds: after which a call is ended. has_fleet: calls may be about other nodes."""

    def __init__(self, dispatcher: Dispatcher, seconds: float, *, has_fleet: bool = False) -> None:
        self.has_fleet = has_fleet
        self._dispatcher = dispatcher
        self._seconds = seconds
        self._running = asyncio.Semaphore(AT_ONCE)
        self._count = 0

    async def document(self, request: CallRequest) -> dict[str, Any]:
        """Raises Failed."""
        async with self.frames(request) as frames:
            body = b"".join([frame async for frame in frames])
        found: dict[str, Any] = json.loads(body)
        return found

    @asynccontextmanager
    async def frames(self, request: CallRequest) -> AsyncIterator[AsyncIterator[bytes]]:
        """The frames of an answer, as they are made. Raises Failed, also while they are read."""
        encoded = request.encoded()
        if len(encoded) > REQUEST_BYTES_MAX:
            raise Failed(Failure(StatusKind.TOO_LARGE, "the arguments are too long"))
        if self._count >= AT_ONCE + WAITING_MAX:
            raise Failed.by(TooMany("too many calls at once", remedy="try again in some seconds"))
        self._count += 1
        try:
            async with self._running, _reader_of(self._dispatcher.submit(encoded)) as reader:
                answer = _Answer(reader, asyncio.get_running_loop().time() + self._seconds)
                await answer.begin()
                yield answer.frames()
        finally:
            self._count -= 1


class _Answer(NamedTuple):
    """until: by the clock of the event loop."""

    reader: asyncio.StreamReader
    until: float

    async def begin(self) -> None:
        first = await self._frame()
        if first != ANSWERED:
            error = json.loads(first)["error"]
            kind = next(one for one in StatusKind if one.label == error["kind"])
            raise Failed(Failure(kind, error["message"], error["remedy"]))

    async def frames(self) -> AsyncIterator[bytes]:
        while frame := await self._frame():
            yield frame

    async def _frame(self) -> bytes:
        try:
            header = await self.reader.readexactly(HEADER_BYTES)
            size_bytes = int.from_bytes(header, "big")
            if size_bytes > _FRAME_BYTES_MAX:
                raise Failed(Failure(StatusKind.INTERNAL, "an answer is too large"))
            return await self.reader.readexactly(size_bytes)
        except asyncio.IncompleteReadError:
            raise Failed(self._ended()) from None

    def _ended(self) -> Failure:
        """Its process has ended without an answer."""
        if asyncio.get_running_loop().time() >= self.until:
            return Failure(StatusKind.TOO_SLOW, "it took too long", "use a smaller since")
        return Failure(StatusKind.INTERNAL, "the process of the call has ended", "see the log of the server")


@asynccontextmanager
async def _reader_of(descriptor: int) -> AsyncIterator[asyncio.StreamReader]:
    reader = asyncio.StreamReader()
    pipe = os.fdopen(descriptor, "rb", buffering=0)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), pipe
    )
    try:
        yield reader
    finally:
        transport.close()
