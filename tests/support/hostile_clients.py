"""Clients that misbehave, many at a time, for as long as a block lasts."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager

from tests.support.patience import PATIENCE_SECONDS

Address = tuple[str, int]
Clients = list[socket.socket]
DRIP_SECONDS = 0.05


@contextmanager
def silent(address: Address, count: int = 1000) -> Iterator[Clients]:
    """Clients that connect and send nothing."""
    with ExitStack() as stack:
        yield [stack.enter_context(socket.create_connection(address, timeout=PATIENCE_SECONDS)) for _ in range(count)]


@contextmanager
def dripping(address: Address) -> Iterator[Clients]:
    """A hundred clients that send a byte now and then."""
    over = threading.Event()

    def drip(clients: Clients) -> None:
        for byte in b"GET /metrics HTTP/1.1\r\nHost: a\r\nA: " + b"a" * 1000:
            for client in clients:
                try:
                    client.send(bytes([byte]))
                except OSError:
                    continue  # it has been dropped
            if over.wait(DRIP_SECONDS):
                return

    with silent(address, 100) as clients:
        thread = threading.Thread(target=drip, args=(clients,))
        thread.start()
        try:
            yield clients
        finally:
            over.set()
            thread.join()


@contextmanager
def asking(address: Address) -> Iterator[Clients]:
    """A hundred clients that scrape at the same time."""
    with silent(address, 100) as clients:
        for client in clients:
            client.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
        yield clients


@contextmanager
def taking_nothing(address: Address) -> Iterator[Clients]:
    """Fifty clients that send twenty requests each and do not read."""
    with silent(address, 50) as clients:
        for client in clients:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
            client.sendall(b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n" * 20)
        yield clients


KINDS: Mapping[str, Callable[[Address], AbstractContextManager[Clients]]] = {
    "1,000 that say nothing": silent,
    "100 that send a byte every 50 ms": dripping,
    "100 that ask at once": asking,
    "50 that ask 20 times and take nothing": taking_nothing,
}
