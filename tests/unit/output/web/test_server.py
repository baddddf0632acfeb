"""web.server: over the loopback interface, with well-behaved and hostile clients."""

from __future__ import annotations

import contextlib
import http.client
import logging
import select
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import pytest

from exporter import catalog
from exporter.model import Snapshot
from exporter.output.web.pages import Pages
from exporter.own_metrics.store import OwnMetrics
from tests.support.records import point, snapshot_of
from tests.support.traced import eventually
from tests.support.web_server import PATIENCE_SECONDS, Address, exchange, get, serving

SNAPSHOT = snapshot_of(catalog.cuda.OPERATIONS, point(12, "runtime", "cudaMalloc"))
SERIES = b"gpustall_cuda_operations_total{"
MANY = snapshot_of(catalog.cuda.OPERATIONS, *(point(n, "runtime", f"{n:0100}") for n in range(40_000)))
AN_HOUR = 3600.0


def pages(snapshot: Callable[[], Snapshot] = lambda: SNAPSHOT) -> Pages:
    """Pages of one series."""
    return Pages(snapshot, OwnMetrics(), lambda: True, with_exporter_metrics=False)


@contextmanager
def connected(address: Address, count: int) -> Iterator[list[socket.socket]]:
    """So many silent clients."""
    with ExitStack() as stack:
        yield [stack.enter_context(socket.create_connection(address, timeout=PATIENCE_SECONDS)) for _ in range(count)]


class TestHttp:
    """Requests and responses."""

    def test_scrape_is_answered(self) -> None:
        """With its length."""
        with serving(pages()) as address:
            answer = get(address)

        assert answer.status == 200
        assert answer.body.count(SERIES) == 1
        assert answer.headers["Content-Length"] == str(len(answer.body))

    @pytest.mark.parametrize("path", ["/metrics", "/", "/healthz", "/x"])
    def test_head_has_the_headers_of_get_and_no_body(self, path: str) -> None:
        """Length included."""
        with serving(pages()) as address:
            head, found = get(address, path, "HEAD"), get(address, path)

        assert (head.status, head.headers["Content-Length"]) == (found.status, found.headers["Content-Length"])
        assert (head.body, len(found.body) > 0) == (b"", True)

    def test_one_connection_serves_many_requests(self) -> None:
        """Prometheus keeps its connection: no handshake for each scrape."""
        with serving(pages()) as address:
            connection = http.client.HTTPConnection(*address, timeout=PATIENCE_SECONDS)
            connection.connect()
            port = connection.sock.getsockname()[1]
            for _ in range(3):
                connection.request("GET", "/metrics")
                assert SERIES in connection.getresponse().read()
            assert connection.sock.getsockname()[1] == port
            connection.close()

    def test_requests_may_be_pipelined(self) -> None:
        with serving(pages()) as address:
            asked = b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n" * 2 + b"GET /x HTTP/1.0\r\n\r\n"
            answers = exchange(address, asked)

        assert [answers.count(status) for status in (b"HTTP/1.1 200 OK", b"HTTP/1.1 404 Not Found")] == [2, 1]

    def test_http_1_0_clients_are_answered(self) -> None:
        """Without a Host header; the connection is closed."""
        with serving(pages()) as address:
            answer = exchange(address, b"GET /healthz HTTP/1.0\r\n\r\n")

        assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
        assert answer.endswith(b"\r\n\r\nok\n")

    def test_target_may_name_the_server(self) -> None:
        """The form of requests to proxies."""
        with serving(pages()) as address:
            for target in (b"http://a:1/healthz?b=c", b"https://a/healthz"):
                answer = exchange(address, b"GET " + target + b" HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
                assert answer.endswith(b"\r\n\r\nok\n")

    def test_empty_lines_before_a_request_are_skipped(self) -> None:
        """Before the first request and the next one."""
        with serving(pages()) as address, connected(address, 1) as (client,):
            for _ in range(2):
                client.sendall(b"\r\n")
                client.sendall(b"\r\nGET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")
                answer = b""
                while not answer.endswith(b"\r\n\r\nok\n"):
                    answer += client.recv(4096) or b"the end\r\n\r\nok\n"
                assert answer.startswith(b"HTTP/1.1 200 OK")

    @pytest.mark.parametrize("lines", [b"\r\n", b"\n", b"\r\n\r\n"])
    def test_empty_lines_after_a_request_in_the_same_segment_are_skipped(self, lines: bytes) -> None:
        """Old clients send one after the body of a POST."""
        with serving(pages()) as address:
            first = b"POST /healthz HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nxx"
            answers = exchange(address, first + lines + b"GET /healthz HTTP/1.0\r\n\r\n")

        assert answers.count(b"HTTP/1.1 405 ") == 1
        assert answers.endswith(b"\r\n\r\nok\n")

    def test_query_is_not_part_of_the_path(self) -> None:
        """Escapes are decoded."""
        with serving(pages()) as address:
            assert [get(address, path).status for path in ("/metrics?a=b", "/%6Detrics")] == [200, 200]

    @pytest.mark.parametrize("request_line", [b"GET /healthz HTTP/1.0", b"GET / HTTP/9.9", b"GET / x HTTP/1.1"])
    def test_server_header_does_not_name_python(self, request_line: bytes) -> None:
        """For good and bad requests."""
        with serving(pages()) as address:
            assert b"python" not in exchange(address, request_line + b"\r\n\r\n").lower()

    def test_failing_page_is_a_500_and_logged_once(self, caplog: pytest.LogCaptureFixture) -> None:
        """The body does not have the error."""

        def fail() -> Snapshot:
            raise RuntimeError("the tables cannot be read")

        with serving(pages(fail)) as address:
            answer = get(address)

        assert answer.status == 500
        assert b"tables" not in answer.body
        assert [record.getMessage() for record in caplog.records] == [
            "request for /metrics failed: defect in the exporter"
        ]

    def test_body_of_a_request_is_dropped(self) -> None:
        """The next request on the connection is served."""
        with serving(pages()) as address:
            asked = b"POST /healthz HTTP/1.1\r\nHost: a\r\nContent-Length: 40000\r\n\r\n" + b"x" * 40_000
            answers = exchange(address, asked + b"GET /healthz HTTP/1.0\r\n\r\n")

        assert answers.startswith(b"HTTP/1.1 405 ")
        assert b"HTTP/1.1 200 " in answers

    def test_client_that_waits_for_100_continue_is_answered(self) -> None:
        """Without it: no page needs the body."""
        with serving(pages()) as address:
            answer = exchange(
                address, b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\nExpect: 100-continue\r\n\r\n"
            )

        assert answer.startswith(b"HTTP/1.1 405 ")


class TestBadRequests:
    """Malformed requests."""

    @pytest.mark.parametrize(
        ("request_bytes", "status"),
        [
            (b"GET\r\n\r\n", b"400"),
            (b"GET / x HTTP/1.1\r\n\r\n", b"400"),
            (b"GET / HTTP/1.1\r\n\r\n", b"400"),
            (b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", b"400"),
            (b"GET / HTTP/1.1\r\nHost: a\r\nA b: c\r\n\r\n", b"400"),
            (b"\x16\x03\x01\x02\x00\x01\r\n\r\n", b"400"),
            (b"GET / HTTP/9.9\r\nHost: a\r\n\r\n", b"505"),
            (b"GET / HTTP/1.0\r\nA: " + b"b" * 60_000 + b"\r\n\r\n", b"431"),
            (b"GET /" + b"a" * 20_000, b"431"),
            (b"PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999\r\n\r\n" + b"x" * 70_000, b"413"),
        ],
        ids=["no path", "four words", "no host", "two hosts", "bad name", "TLS", "HTTP/9.9", "large", "long", "body"],
    )
    def test_status_of_a_bad_request(self, request_bytes: bytes, status: bytes) -> None:
        """Other clients are served."""
        with serving(pages()) as address, socket.create_connection(address, timeout=PATIENCE_SECONDS) as client:
            client.sendall(request_bytes)
            assert client.recv(65536).split()[1] == status
            assert get(address).status == 200


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
        """While the server still waits for each of them."""
        with serving(pages(), request_seconds=AN_HOUR) as address, connected(address, 1000):
            assert get(address).status == 200

    def test_clients_that_do_not_receive_do_not_stop_a_scrape(self) -> None:
        """Responses larger than every socket buffer, to four times as many clients as max_requests."""
        with (
            serving(pages(lambda: MANY), max_requests=5, guaranteed_seconds=0.05) as address,
            connected(address, 20) as clients,
        ):
            for client in clients:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                client.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
            clients[0].recv(1)
            answers = [get(address, path="/metrics", method="HEAD").status for _ in range(3)]

        assert answers == [200, 200, 200]

    def test_client_that_does_not_receive_is_dropped_and_not_logged(self, caplog: pytest.LogCaptureFixture) -> None:
        """After response_seconds."""
        caplog.set_level(logging.DEBUG, logger="exporter")
        with serving(pages(lambda: MANY), response_seconds=0.2) as address, connected(address, 1) as (client,):
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
            eventually(lambda: _is_ended(client), "the server has ended the connection")
            with contextlib.suppress(ConnectionError):
                assert sum(map(len, iter(lambda: client.recv(65536), b""))) < 1 << 20

        assert caplog.records == []

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

    def test_close_does_not_wait_for_silent_clients(self) -> None:
        """Or for slow ones, which could take an hour."""
        with ExitStack() as stack:
            limits = {"request_seconds": AN_HOUR, "response_seconds": AN_HOUR}
            with serving(pages(lambda: MANY), **limits) as address:
                _silent, slow = stack.enter_context(connected(address, 2))
                slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                slow.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
                slow.recv(1)
                closing_at = time.monotonic()
            closed_at = time.monotonic()

        assert closed_at - closing_at < PATIENCE_SECONDS


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
