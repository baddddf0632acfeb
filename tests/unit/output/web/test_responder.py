"""web.responder: shared renderings, places for requests that take work, and failing pages."""

from __future__ import annotations

import socket
import threading

import pytest

from exporter.model import Snapshot
from tests.support.patience import PATIENCE_SECONDS
from tests.support.web_server import LARGE, SERIES, SNAPSHOT, connected, get, pages, serving


class TestPages:
    def test_failing_page_is_a_500_and_logged_once(self, caplog: pytest.LogCaptureFixture) -> None:
        """The body does not have the error."""

        def fail() -> Snapshot:
            raise RuntimeError("the tables cannot be read")

        with serving(pages(fail)) as address:
            answer = get(address)

        assert answer.status == 500
        assert b"tables" not in answer.body
        assert [record.getMessage() for record in caplog.records] == [
            "request for /metrics failed: internal error (bug)"
        ]

    def test_hundred_scrapes_at_once_are_one_rendering(self) -> None:
        """All get a response."""
        may_go, is_taken, taken = threading.Event(), threading.Event(), []

        def slow() -> Snapshot:
            taken.append(1)
            is_taken.set()
            may_go.wait(PATIENCE_SECONDS)
            return SNAPSHOT

        with serving(pages(slow), max_requests=100) as address, connected(address, 100) as clients:
            for client in clients:
                client.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
            assert is_taken.wait(PATIENCE_SECONDS)
            assert get(address, "/healthz").status == 200
            may_go.set()
            answers = [b"".join(iter(lambda one=one: one.recv(65536), b"")) for one in clients]

        assert [SERIES in answer for answer in answers] == [True] * 100
        assert len(taken) <= 3


class TestPlaces:
    """max_requests: requests whose responses are made or sent at a time."""

    def test_clients_that_do_not_receive_do_not_stop_a_scrape(self) -> None:
        """Responses larger than every socket buffer, to four times as many clients as max_requests.

        A request waits until earlier ones are served, which on a busy machine takes longer than the default of slot_wait_seconds.
        """
        limits = {"max_requests": 5, "guaranteed_seconds": 0.05, "slot_wait_seconds": PATIENCE_SECONDS}
        with (
            serving(pages(lambda: LARGE), **limits) as address,
            connected(address, 20) as clients,
        ):
            for client in clients:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                client.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
            clients[0].recv(1)
            answers = [get(address, path="/metrics", method="HEAD").status for _ in range(3)]

        assert answers == [200, 200, 200]

    def test_too_many_requests_get_retry_after(self) -> None:
        """503, after slot_wait_seconds."""
        may_go, is_taken = threading.Event(), threading.Event()

        def slow() -> Snapshot:
            is_taken.set()
            may_go.wait(PATIENCE_SECONDS)
            return SNAPSHOT

        with (
            serving(pages(slow), max_requests=1, slot_wait_seconds=0.05) as address,
            connected(address, 1) as (client,),
        ):
            client.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
            assert is_taken.wait(PATIENCE_SECONDS)
            answer = get(address)
            may_go.set()

        assert (answer.status, answer.headers["Retry-After"]) == (503, "1")

    def test_health_needs_no_place(self) -> None:
        """It is served while all places are taken."""
        may_go = threading.Event()

        def slow() -> Snapshot:
            may_go.wait(PATIENCE_SECONDS)
            return SNAPSHOT

        with serving(pages(slow), max_requests=1) as address, connected(address, 1) as (client,):
            client.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
            assert get(address, "/healthz").status == 200
            may_go.set()
