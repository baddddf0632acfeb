"""A relay in front of a server, which delivers what the server sends late, a byte at a time, or not at all.

It stands where the network would: both ends see one TCP connection, without Nagle's algorithm, and TLS passes through. A relay
belongs to the network namespace of the thread that starts it.
"""

from __future__ import annotations

import enum
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

Address = tuple[str, int]

_BLOCK_BYTES: Final = 1 << 16
_BYTE_SECONDS: Final = 0.25
"""Between two bytes of a trickle: an answer of 400 bytes takes a hundred seconds."""


class Delivery(enum.Enum):
    """What becomes of the bytes that the server sends."""

    LATE = enum.auto()  # by the latency, as those of the client
    TRICKLED = enum.auto()  # once the client has asked, a byte at a time
    HELD = enum.auto()  # once the client has asked, none


class Relay:
    """Made by relaying(). first_at: when it has accepted its first connection, of the monotonic clock."""

    def __init__(self, listening: socket.socket, server: Address, delivery: Delivery, latency_seconds: float) -> None:
        self.first_at: float | None = None
        self._listening = listening
        self._server = server
        self._delivery = delivery
        self._latency_seconds = latency_seconds

    def serve(self) -> None:
        """Until the socket that it listens on is shut down."""
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            if self.first_at is None:
                self.first_at = time.monotonic()
            try:
                server = socket.create_connection(self._server)
            except OSError:
                client.close()
                continue
            _Connection(client, server, self._delivery, self._latency_seconds).start()


class _Connection:
    def __init__(
        self, client: socket.socket, server: socket.socket, delivery: Delivery, latency_seconds: float
    ) -> None:
        for one in (client, server):
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._client, self._server = client, server
        self._delivery = delivery
        self._latency_seconds = latency_seconds
        self._has_greeted = threading.Event()  # the server: its part of the handshake has been delivered
        self._has_asked = threading.Event()
        self._is_over = threading.Event()

    def start(self) -> None:
        for work in (self._to_server, self._to_client):
            threading.Thread(target=work, name="relay", daemon=True).start()

    def _to_server(self) -> None:
        with suppress(OSError):
            while data := self._client.recv(_BLOCK_BYTES):
                if self._has_greeted.is_set():
                    self._has_asked.set()
                time.sleep(self._latency_seconds)
                self._server.sendall(data)
        self._is_over.set()
        _shut(self._server)

    def _to_client(self) -> None:
        with suppress(OSError):
            while data := self._server.recv(_BLOCK_BYTES):
                time.sleep(self._latency_seconds)
                if self._delivery is Delivery.LATE or not self._has_asked.is_set():
                    self._has_greeted.set()
                    self._client.sendall(data)
                elif self._delivery is Delivery.TRICKLED:
                    self._trickle(data)
                else:
                    self._is_over.wait()  # the client gives up
        _shut(self._client)
        self._is_over.wait()
        self._client.close()
        self._server.close()

    def _trickle(self, data: bytes) -> None:
        for at in range(len(data)):
            if self._is_over.wait(_BYTE_SECONDS):
                return
            self._client.sendall(data[at : at + 1])


def _shut(one: socket.socket) -> None:
    with suppress(OSError):  # the other side has closed it
        one.shutdown(socket.SHUT_RDWR)


@contextmanager
def relaying(at: Address, server: Address, delivery: Delivery, latency_seconds: float) -> Iterator[Relay]:
    """A relay in the network namespace of this thread."""
    with socket.create_server(at) as listening:
        found = Relay(listening, server, delivery, latency_seconds)
        thread = threading.Thread(target=found.serve, name="relay", daemon=True)
        thread.start()
        try:
            yield found
        finally:
            _shut(listening)
            thread.join()
