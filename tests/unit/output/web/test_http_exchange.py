"""web.http_exchange: requests and responses over the loopback interface, and malformed requests."""

from __future__ import annotations

import http.client
import socket

import pytest

from tests.support.patience import PATIENCE_SECONDS
from tests.support.web_server import SERIES, connected, exchange, get, pages, serving


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
