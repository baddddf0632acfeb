"""A TCP connection, with or without TLS, whose every wait ends at one deadline and which another thread can cancel."""

from __future__ import annotations

import errno
import queue
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from exporter.http_client.deadline import Deadline
from exporter.http_client.errors import RequestCancelled, failure_of

_RECEIVE_BYTES = 1 << 16
_SEND_BYTES = 1 << 20
_CLOSED_BY_SERVER = (BrokenPipeError, ConnectionResetError, ssl.SSLEOFError)
"""Raised by sending; the last one over TLS. What the server has sent before, such as an alert, can still be received."""
_Address = tuple[Any, ...]


def resolve(
    host: str, port: int, deadline: Deadline, getaddrinfo: Callable[..., list[_Address]] = socket.getaddrinfo
) -> list[_Address]:
    """The addresses of a host, as getaddrinfo() returns them. Raises OSError, UnicodeError or DeadlineExceeded.

    The system's resolver has no timeout of ours, so a thread waits for it; one that hangs ends with the resolver's own.
    """
    with suppress(OSError, UnicodeError):
        return getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    answers: queue.SimpleQueue[list[_Address] | Exception] = queue.SimpleQueue()

    def look_up() -> None:
        try:
            answers.put(getaddrinfo(host, port, type=socket.SOCK_STREAM))
        except (OSError, UnicodeError) as error:
            answers.put(error)

    try:
        threading.Thread(target=look_up, name="resolver", daemon=True).start()
    except RuntimeError as error:
        raise OSError(errno.EAGAIN, "no more threads can be started") from error
    try:
        answer = answers.get(timeout=deadline.left_seconds())
    except queue.Empty:
        raise deadline.exceeded() from None
    if isinstance(answer, Exception):
        raise answer
    return answer


class Stream:
    """Not connected at first. Every method but cancel() belongs to one thread and raises HttpFailure."""

    def __init__(
        self, deadline: Deadline, addresses_of: Callable[[str, int, Deadline], list[_Address]] = resolve
    ) -> None:
        self._deadline = deadline
        self._addresses_of = addresses_of
        self._is_closed_by_server = False  # as far as sending has shown
        self._socket: socket.socket | None = None
        self._is_cancelled = False
        self._lock = threading.Lock()  # guards the two above, so that cancel() never meets a descriptor that is closed

    def connect(self, host: str, port: int) -> None:
        """Try the addresses of a name in turn; the time left is divided among those that have not been tried."""
        with self._failures_translated():
            addresses = self._addresses_of(host, port, self._deadline)
            for number, (family, _type, _protocol, _name, address) in enumerate(addresses, 1):
                last = number == len(addresses)
                self._own(socket.socket(family, socket.SOCK_STREAM))
                try:
                    self._wait_at_most(self._deadline.left_seconds() / (len(addresses) - number + 1)).connect(address)
                except OSError:
                    if last or self._is_cancelled:
                        raise
                else:
                    self._connected().setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    return

    def start_tls(self, context: ssl.SSLContext, server_name: str) -> None:
        """The handshake, which verifies the server's certificate for its name."""
        with self._failures_translated():
            with self._lock:  # a socket that cancel() shuts down within wrap_socket() would be left open
                if self._is_cancelled:
                    raise RequestCancelled("request cancelled")
                encrypted = context.wrap_socket(
                    self._connected(), server_hostname=server_name, do_handshake_on_connect=False
                )
                self._socket = encrypted  # the plain one is detached
            self._wait_at_most(self._deadline.left_seconds())
            encrypted.do_handshake()

    def send(self, data: bytes) -> None:
        """All of it, or as much as the server takes before it closes its side: its response may be there already."""
        if self._is_closed_by_server:  # OpenSSL refuses other data than what it could not send
            return
        with self._failures_translated():
            try:
                for at in range(0, len(data), _SEND_BYTES):
                    block = memoryview(data)[at : at + _SEND_BYTES]
                    while block:
                        block = block[self._wait_at_most(self._deadline.left_seconds()).send(block) :]
            except _CLOSED_BY_SERVER:
                self._is_closed_by_server = True

    def receive(self) -> bytes:
        """What has arrived, at least a byte; b"" when the server has closed the connection."""
        with self._failures_translated():
            data = self._wait_at_most(self._deadline.left_seconds()).recv(_RECEIVE_BYTES)
            if not data and self._is_cancelled:
                raise RequestCancelled("request cancelled")
            return data

    def cancel(self) -> None:
        """Make the wait of another thread, and every later one, raise RequestCancelled."""
        with self._lock:
            self._is_cancelled = True
            if self._socket is not None:
                with suppress(OSError):  # not connected yet, or closed by the server
                    # The method of SSLSocket would drop the TLS state that the waiting thread uses.
                    socket.socket.shutdown(self._socket, socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            if self._socket is not None:
                self._socket.close()
                self._socket = None

    def _own(self, replacement: socket.socket) -> None:
        with self._lock:
            if self._socket is not None:
                self._socket.close()
            self._socket = replacement
            if self._is_cancelled:
                raise RequestCancelled("request cancelled")

    def _connected(self) -> socket.socket:
        assert self._socket is not None  # noqa: S101 - connect() was called
        return self._socket

    def _wait_at_most(self, seconds: float) -> socket.socket:
        connected = self._connected()
        connected.settimeout(seconds)
        return connected

    @contextmanager
    def _failures_translated(self) -> Iterator[None]:
        try:
            yield
        except (OSError, UnicodeError) as error:
            if self._is_cancelled:
                raise RequestCancelled("request cancelled") from error
            if isinstance(error, TimeoutError) and error.errno is None:  # of settimeout(), not ETIMEDOUT of TCP
                raise self._deadline.exceeded() from error
            raise failure_of(error) from error
