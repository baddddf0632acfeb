"""From the bytes of a request to rows on the disk, whatever transport brought them. The event loop is never blocked.

Bodies are decoded in one thread: one at a time, so that a hostile one takes its share of time and memory once.
"""

from __future__ import annotations

import asyncio
import enum
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Final, NamedTuple

from exporter.catalog import cluster as catalog
from exporter.clock import Clock
from exporter.cluster import json_request, protobuf_request
from exporter.cluster.answers import refusal_of, too_large
from exporter.cluster.decoding import REASONS, TOO_MANY, Decoded, Sender, decode_logs, decode_spans, rejection_message
from exporter.cluster.errors import NotStored, QueueFull, Unstorable
from exporter.cluster.writer import StoreWriter
from exporter.history.scope import Scope
from exporter.model import Identity
from exporter.own_metrics.store import OwnMetrics
from exporter.service.tokens import TokenReader
from exporter.text.untrusted import Untrusted

BODY_BYTES_MAX: Final = 4 << 20
"""Limit of a request, also when it is not compressed any more: a node of 64 processes sends 130 KB."""
HELD_BYTES_MAX: Final = 128 << 20
"""Limit of all requests that are being received, decoded or written."""


class Signal(enum.Enum):
    LOGS = "logs"
    TRACES = "traces"


class BodyForm(enum.Enum):
    """How a body is encoded."""

    PROTOBUF = protobuf_request.CONTENT_TYPE
    JSON = json_request.CONTENT_TYPE


class Body(NamedTuple):
    """What a client sent, as it sent it."""

    signal: Signal
    form: BodyForm
    content: bytes
    is_gzip: bool = False


class Taken(NamedTuple):
    """What is stored, but for `rejected` records. message: why, "" if there are none."""

    rejected: int
    message: str


class Intake:
    """Its coroutines belong to one event loop. Close it after the last request."""

    def __init__(self, writer: StoreWriter, own: OwnMetrics, clock: Clock) -> None:
        self._writer = writer
        self._own = own
        self._clock = clock
        self._decoding = ThreadPoolExecutor(1, "decoding")
        self._held_bytes = 0
        for reason in REASONS:
            own.set(catalog.REJECTED, 0, reason)
        own.set(catalog.STORED_ROWS, 0)

    def close(self) -> None:
        self._decoding.shutdown()

    @contextmanager
    def holding(self, size_bytes: int) -> Iterator[None]:
        """While a body is in memory. Raises RefusedRequest when there is no room."""
        if self._held_bytes + size_bytes > HELD_BYTES_MAX:
            raise refusal_of(QueueFull("too many requests are being received"))
        self._held_bytes += size_bytes
        try:
            yield
        finally:
            self._held_bytes -= size_bytes

    async def take(self, body: Body, reader: TokenReader) -> Taken:
        """Returns when the rows are on the disk. Raises RefusedRequest."""
        now_unix_ns = self._clock.now().unix_ns
        sender = Sender(reader.name, _sees(reader.scope))
        try:
            decoded = await asyncio.get_running_loop().run_in_executor(
                self._decoding, _decoded, body, sender, now_unix_ns
            )
            stored = await asyncio.wrap_future(self._writer.submit(decoded.batch))
        except (NotStored, Unstorable, Untrusted) as error:
            raise refusal_of(error) from error
        rejected = Counter(decoded.rejected)
        if stored.refused:
            rejected[TOO_MANY] += stored.refused
        for reason, count in rejected.items():
            self._own.add(catalog.REJECTED, count, reason)
        return Taken(rejected.total(), rejection_message(rejected, decoded.example))


def _sees(scope: Scope) -> Callable[[str, str], bool]:
    if scope.is_all:
        return lambda node, namespace: True
    return lambda node, namespace: scope.sees(Identity(node=node, namespace=namespace))


def _decoded(body: Body, sender: Sender, now_unix_ns: int) -> Decoded:
    raw = _inflated(body.content) if body.is_gzip else body.content
    encoding = json_request if body.form is BodyForm.JSON else protobuf_request
    if body.signal is Signal.LOGS:
        return decode_logs(encoding.log_records(raw), sender, now_unix_ns)
    return decode_spans(encoding.spans(raw), sender, now_unix_ns)


def _inflated(body: bytes) -> bytes:
    """No more than BODY_BYTES_MAX, whatever a few bytes claim to be. Raises RefusedRequest and Untrusted."""
    stream = zlib.decompressobj(16 + zlib.MAX_WBITS)
    try:
        raw = stream.decompress(body, BODY_BYTES_MAX + 1)
    except zlib.error as error:
        raise Untrusted("not gzip") from error
    if len(raw) > BODY_BYTES_MAX:
        raise too_large(BODY_BYTES_MAX)
    if not stream.eof or stream.unused_data:
        raise Untrusted("gzip that is cut off, or followed by other bytes")
    return raw
