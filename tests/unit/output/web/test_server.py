"""web.server: time limits and many connections, with hostile clients over the loopback interface."""

from __future__ import annotations

import contextlib
import logging
import select
import socket
import time
from contextlib import ExitStack

import pytest

from tests.support.patience import PATIENCE_SECONDS
from tests.support.traced import eventually
from tests.support.web_server import LARGE, connected, exchange, get, pages, serving

AN_HOUR = 3600.0


class TestHostileClients:
    """No client delays another one."""

    def test_silent_client_is_dropped(self) -> None:
        """After request_seconds, without a response."""
        with serving(pages(), request_seconds=0.05) as address:
            assert exchange(address, b"") == b""

    def test_client_that_never_ends_its_request_is_dropped(self) -> None:
        """However often it sends a byte: the limit is for the whole request."""
        with serving(pages(), request_seconds=0.3) as address, connected(address, 1) as (client,):
            client.sendall(b"GET /metrics HTTP/1.1\r\nA: ")

            assert _is_closed_by_server(client)

    def test_idle_connection_is_dropped(self) -> None:
        """Between two requests, after idle_seconds."""
        with serving(pages(), idle_seconds=0.05) as address:
            assert exchange(address, b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n").endswith(b"\r\n\r\nok\n")

    def test_silent_clients_do_not_stop_a_scrape(self) -> None:
        """More than max_connections: the one that has been idle for longest is closed."""
        with serving(pages(), max_connections=8) as address, connected(address, 50):
            assert get(address).status == 200

    def test_clients_with_half_a_request_do_not_stop_a_scrape(self) -> None:
        with serving(pages(), max_connections=8) as address, connected(address, 50) as clients:
            for client in clients:
                client.send(b"GET /met") if client.fileno() >= 0 else None
            assert get(address).status == 200

    def test_thousand_sockets_do_not_stop_a_scrape(self) -> None:
        """While the server still waits for each of them. A hundred at a time: the queue of a listener holds 128."""
        with serving(pages(), request_seconds=AN_HOUR) as address, ExitStack() as stack:
            for _ in range(10):
                stack.enter_context(connected(address, 100))
                assert get(address).status == 200

    def test_client_that_does_not_receive_is_dropped_and_not_logged(self, caplog: pytest.LogCaptureFixture) -> None:
        """After response_seconds."""
        caplog.set_level(logging.DEBUG, logger="exporter")
        with serving(pages(lambda: LARGE), response_seconds=0.2) as address, connected(address, 1) as (client,):
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
            eventually(lambda: _is_ended(client), "the server has ended the connection")
            with contextlib.suppress(ConnectionError):
                assert sum(map(len, iter(lambda: client.recv(65536), b""))) < 1 << 20

        assert caplog.records == []

    def test_close_does_not_wait_for_silent_clients(self) -> None:
        """Or for slow ones, which could take an hour."""
        with ExitStack() as stack:
            limits = {"request_seconds": AN_HOUR, "response_seconds": AN_HOUR}
            with serving(pages(lambda: LARGE), **limits) as address:
                _silent, slow = stack.enter_context(connected(address, 2))
                slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                slow.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
                slow.recv(1)


def _is_closed_by_server(client: socket.socket) -> bool:
    """Send bytes until the server closes the connection. Returns whether it does."""
    until = time.monotonic() + PATIENCE_SECONDS
    try:
        while time.monotonic() < until and not select.select([client], [], [], 0.02)[0]:
            client.sendall(b"x")
        return client.recv(1) == b""
    except OSError:
        return True


def _is_ended(client: socket.socket) -> bool:
    """Whether the server has closed or reset the connection; earlier data may still be readable."""
    poller = select.poll()
    poller.register(client, select.POLLRDHUP)
    return bool(poller.poll(0))
