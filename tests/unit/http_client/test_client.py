"""http_client.client: one request over a real socket, to a server with a script."""

from __future__ import annotations

import select
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from urllib.parse import urlsplit

import pytest

from exporter import __version__
from exporter.http_client.client import HttpClient, ResponseReader
from exporter.http_client.deadline import Deadline
from exporter.http_client.errors import (
    ConnectionFailed,
    ConnectionRefused,
    DeadlineExceeded,
    HttpFailure,
    NameNotResolved,
    NotHttp,
    RequestCancelled,
    ResponseTooLarge,
)
from tests.support.certificates import Certificates
from tests.support.http_requests import (
    CLOSED_EARLY,
    JSON,
    MAX_BYTES,
    SHORT_SECONDS,
    SOON_SECONDS,
    client_of,
    elapsed_seconds,
    post,
    raw,
    response_of,
)
from tests.support.patience import PATIENCE_SECONDS
from tests.support.receiver import Entry, answer, drip, drop, hang, never_read, receiver, redirect, refused
from tests.support.traced import only

HEAD = b"HTTP/1.1 200 OK\r\n\r\n"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


class TestRequest:
    """What the server receives."""

    def test_target_and_body_are_those_given(self) -> None:
        with receiver() as found:
            post(f"{found.url}/v1/metrics?key=a%20b", b'{"a": 1}')
            request = only(found.requests)

        assert (request.method, request.path, request.body) == ("POST", "/v1/metrics?key=a%20b", b'{"a": 1}')

    def test_default_headers(self) -> None:
        with receiver() as found:
            post(found.url, headers={"Content-Encoding": "gzip"})
            headers = only(found.requests).headers

        assert headers["User-Agent"] == f"gpu-stall-exporter/{__version__}"
        assert headers["Host"] == urlsplit(found.url).netloc
        assert (headers["Content-Length"], headers["Content-Encoding"]) == ("2", "gzip")

    @pytest.mark.parametrize("name", ["User-Agent", "user-agent"])
    def test_given_header_replaces_the_default(self, name: str) -> None:
        with receiver() as found:
            post(found.url, headers={name: "us"})

            assert only(found.requests).headers.get_all("User-Agent") == ["us"]

    def test_header_with_a_line_break_is_refused(self) -> None:
        """It would be a header of its own; nothing is sent."""
        with receiver() as found:
            with pytest.raises(HttpFailure, match="a header has a character that HTTP does not allow"):
                post(found.url, headers={"api-key": "a\r\nX-Other: b"})

            assert found.requests == []

    def test_each_request_has_a_connection_of_its_own(self) -> None:
        with receiver() as found:
            client = client_of(found.url)
            for _ in range(2):
                with client.request("POST", "/", JSON, Deadline.after(PATIENCE_SECONDS)):
                    pass

            assert [request.connection for request in found.requests] == [1, 2]


class TestConnection:
    """Several requests over one connection."""

    def test_requests_follow_each_other(self) -> None:
        with (
            receiver([answer(200, b"a" * 100_000), answer(404, b"no"), answer(200, b"")]) as found,
            client_of(found.url).connected(Deadline.after(PATIENCE_SECONDS)) as connection,
        ):
            read = []
            for number in range(3):
                response = connection.request("POST", f"/{number}", JSON, b"{}")
                read.append((response.status, len(response.read(MAX_BYTES))))

            assert read == [(200, 100_000), (404, 2), (200, 0)]
            assert [(one.path, one.connection) for one in found.requests] == [("/0", 1), ("/1", 1), ("/2", 1)]

    @pytest.mark.parametrize(
        "first",
        [answer(200, b"{}", {"Connection": "close"}), raw(b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\n{}")],
        ids=["HTTP/1.1", "HTTP/1.0"],
    )
    def test_server_may_close_after_a_response(self, first: Entry) -> None:
        with (
            receiver([first]) as found,
            client_of(found.url).connected(Deadline.after(PATIENCE_SECONDS)) as connection,
        ):
            connection.request("POST", "/", JSON).read(MAX_BYTES)
            with pytest.raises(ConnectionFailed, match="keeps no connection open"):
                connection.request("POST", "/", JSON)

    def test_response_that_was_not_read_to_its_end_is_the_last(self) -> None:
        """What is left of it would be taken for the next one."""
        with (
            receiver([answer(200, b"a" * 100_000)]) as found,
            client_of(found.url).connected(Deadline.after(PATIENCE_SECONDS)) as connection,
        ):
            connection.request("POST", "/", JSON).read_prefix(10)
            with pytest.raises(ConnectionFailed):
                connection.request("POST", "/", JSON)


class TestResponse:
    """Status, headers and body."""

    def test_status_headers_and_body(self) -> None:
        """Header names are in lower case."""
        found = response_of(answer(503, b"busy", {"Retry-After": "7"}, "text/plain"))

        assert (found.status, found.body) == (503, b"busy")
        assert (found.headers["retry-after"], found.headers["content-type"]) == ("7", "text/plain")

    def test_empty_body(self) -> None:
        assert response_of(answer(200, b"")).body == b""

    @pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
    def test_redirect_is_returned_and_not_followed(self, status: int) -> None:
        with receiver() as elsewhere, receiver([redirect(f"{elsewhere.url}/v1/metrics", status)]) as found:
            response = post(found.url)

            assert (response.status, response.headers["location"]) == (status, f"{elsewhere.url}/v1/metrics")
            assert (len(found.requests), elsewhere.connections) == (1, 0)

    def test_informational_response_is_skipped(self) -> None:
        assert response_of(raw(b"HTTP/1.1 100 Continue\r\n\r\n", HEAD, b"{}")).body == b"{}"

    def test_body_of_unknown_length_ends_with_the_connection(self) -> None:
        assert response_of(raw(b"HTTP/1.0 200 OK\r\n\r\n", b"{}")).body == b"{}"

    def test_chunks_are_joined(self) -> None:
        assert response_of(raw(CHUNKED, b"2\r\n{ \r\n1\r\n}\r\n0\r\n\r\n")).body == b"{ }"

    def test_refusal_is_read_though_the_body_was_not_taken(self) -> None:
        """A server may answer 413 and close before it has read the request."""

        def refuse(client: socket.socket) -> None:
            client.recv(65_536)
            client.sendall(b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            client.shutdown(socket.SHUT_WR)
            while client.recv(1 << 20):
                pass

        with serving(refuse) as address:
            assert post(f"http://{address}", bytes(8 << 20)).status == 413


class TestSize:
    """How much of a response is received."""

    def read(self, max_bytes: int, *parts: bytes) -> bytes:
        """The body, from a server that sends these bytes."""
        with receiver([raw(*parts)]) as found, responding(found.url) as response:
            return bytes(response.read(max_bytes))

    def test_body_of_exactly_the_limit_is_read(self) -> None:
        assert self.read(8, HEAD, b"a" * 8) == b"a" * 8

    def test_body_larger_by_a_byte_is_refused(self) -> None:
        with pytest.raises(ResponseTooLarge, match=r"^response larger than 8 bytes$"):
            self.read(8, HEAD, b"a" * 9)

    def test_body_announced_as_larger_is_not_waited_for(self) -> None:
        """The server sends none of it."""
        head = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n"
        with (
            receiver([Entry(lambda connection, _: (connection.send(head), connection.wait_for_end()))]) as found,
            responding(found.url) as response,
            pytest.raises(ResponseTooLarge, match=r"^response larger than 8 bytes$"),
        ):
            response.read(8)

    def test_body_in_too_many_chunks_is_refused(self) -> None:
        """65,537 chunks of a byte: each costs more CPU than its byte."""
        with pytest.raises(ResponseTooLarge, match=r"^response in more than 65536 parts$"):
            self.read(1 << 20, CHUNKED, b"1\r\na\r\n" * 65_537 + b"0\r\n\r\n")

    def test_prefix_leaves_the_rest_unread(self) -> None:
        with receiver([answer(400, b"a" * 200_000)]) as found, responding(found.url) as response:
            assert response.read_prefix(65_536) == b"a" * 65_536

    @pytest.mark.parametrize(
        "script",
        [
            raw(b"HTTP/1.1 200 OK\r\n", *[b"X-Header: %b\r\n" % (b"x" * 1000)] * 300),
            raw(b"HTTP/1.1 100 Continue\r\n\r\n" * 10_000, HEAD, b"{}"),
        ],
        ids=["headers", "informational responses"],
    )
    def test_endless_head_is_refused(self, script: Entry) -> None:
        with pytest.raises(NotHttp, match=r"^response head larger than 65536 bytes$"):
            response_of(script)


class TestFailure:
    """No connection, or one that broke."""

    def failure(self, url: str, kind: type[HttpFailure] = ConnectionFailed) -> str:
        """The message of a request that fails so, and not in a more special way."""
        with pytest.raises(kind) as raised:
            post(url)
        assert raised.type is kind
        return str(raised.value)

    def test_connection_closed_after_the_request(self) -> None:
        with receiver([drop()]) as found:
            assert self.failure(found.url) == CLOSED_EARLY

    @pytest.mark.parametrize(
        "sent",
        [
            b"HTTP/1.1 200",
            b"HTTP/1.1 200 OK\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Le",
            b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{",
        ],
        ids=["status", "first line", "header", "headers", "no body", "body", "chunk"],
    )
    def test_response_that_breaks_off(self, sent: bytes) -> None:
        """A status alone is no success."""
        with receiver([raw(sent)]) as found:
            assert self.failure(found.url) == CLOSED_EARLY

    def test_refused_connection(self) -> None:
        with refused() as url:
            assert self.failure(url, ConnectionRefused) == "connection refused"

    def test_name_without_an_address(self) -> None:
        """The top-level domain `invalid` is reserved for that."""
        assert self.failure("http://no-such-host.invalid", NameNotResolved).startswith("cannot resolve the host name: ")

    @pytest.mark.parametrize("host", ["a" * 64, "a..b"], ids=["64 characters", "nothing between dots"])
    def test_name_that_cannot_exist(self, host: str) -> None:
        assert self.failure(f"http://{host}.invalid", NameNotResolved) == (
            "cannot resolve the host name: a label is empty or longer than 63 characters"
        )

    def test_other_protocol_is_refused_at_its_first_bytes(self) -> None:
        """An SSH server sends its version and waits."""
        banner = Entry(lambda connection, _: (connection.send(b"SSH-2.0-OpenSSH_9.2\r\n"), connection.wait_for_end()))
        with receiver([banner]) as found:
            assert self.failure(found.url, NotHttp) == "response is not HTTP: it begins with b'SSH-2'"

    def test_malformed_status_line(self) -> None:
        with receiver([raw(b"HTTP/1.1 OK\r\n\r\n")]) as found:
            assert self.failure(found.url, NotHttp).startswith("response is not HTTP: illegal status line")

    def test_http_to_a_tls_port(self, issued: Certificates) -> None:
        """Some servers send a TLS alert, some reset the connection, some close it."""
        with receiver(tls=issued.server_context()) as found, pytest.raises(HttpFailure) as raised:
            post(found.url.replace("https", "http"))

        assert raised.type in (NotHttp, ConnectionFailed)

    def test_connection_closed_in_the_tls_handshake(self) -> None:
        """A load balancer without a backend: no verdict on a certificate."""
        with serving(lambda client: client.recv(65_536)) as address:
            assert self.failure(f"https://{address}") == CLOSED_EARLY


class TestDeadline:
    """One deadline from connecting to the last byte, however the server behaves."""

    def assert_ends_in_time(self, url: str, body: bytes = b"{}", **settings: object) -> None:
        """Assert that the request ends at its deadline, with the error for that."""

        def act() -> None:
            with pytest.raises(DeadlineExceeded, match=r"^no complete response within 0\.15 s$"):
                post(url, body, timeout_seconds=SHORT_SECONDS, **settings)  # type: ignore[arg-type]

        assert elapsed_seconds(act) > SHORT_SECONDS * 0.9

    @pytest.mark.parametrize("entry", [hang(), never_read(), drip(0.02)], ids=["hang", "never_read", "drip"])
    def test_server_without_a_response(self, entry: Entry) -> None:
        """No single read of one that drips waits for long."""
        with receiver([entry]) as found:
            self.assert_ends_in_time(found.url)

    def test_server_that_never_reads(self) -> None:
        """The body is larger than every socket buffer."""
        with receiver([never_read()]) as found:
            self.assert_ends_in_time(found.url, bytes(64 << 20))

    @pytest.mark.parametrize(
        "head",
        [
            b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\nConnection: close\r\n\r\n",
            b"HTTP/1.0 200 OK\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3e8\r\n",
        ],
        ids=["kept alive", "closing", "of unknown length", "in chunks"],
    )
    def test_body_that_drips(self, head: bytes) -> None:
        with receiver([raw(head, *[b" "] * 1000, interval_seconds=0.02)]) as found:
            self.assert_ends_in_time(found.url)

    def test_headers_that_drip(self) -> None:
        lines = [b"X-Header: again\r\n"] * 1000
        with receiver([raw(b"HTTP/1.1 200 OK\r\n", *lines, interval_seconds=0.02)]) as found:
            self.assert_ends_in_time(found.url)

    @pytest.mark.parametrize("entry", [hang(), never_read(), drip(0.02)], ids=["hang", "never_read", "drip"])
    def test_server_with_tls(self, issued: Certificates, entry: Entry) -> None:
        """One that never reads hangs in the handshake."""
        with receiver([entry], issued.server_context()) as found:
            self.assert_ends_in_time(found.url, ca_file=issued.authority)

    @pytest.mark.parametrize("entry", [hang(), never_read(), drip(0.02)], ids=["hang", "never_read", "drip"])
    def test_proxy_without_a_response(self, monkeypatch: pytest.MonkeyPatch, entry: Entry) -> None:
        with receiver([entry]) as between:
            monkeypatch.setenv("HTTP_PROXY", between.url)
            self.assert_ends_in_time("http://collector.invalid")

    def test_tunnel_without_a_response(self, monkeypatch: pytest.MonkeyPatch) -> None:
        with receiver([never_read()]) as between:
            monkeypatch.setenv("HTTPS_PROXY", between.url)
            self.assert_ends_in_time("https://collector.invalid")

    def test_tunnel_whose_headers_drip(self, monkeypatch: pytest.MonkeyPatch) -> None:
        with serving(_send_headers_without_end) as address:
            monkeypatch.setenv("HTTPS_PROXY", f"http://{address}")
            self.assert_ends_in_time("https://collector.invalid")

    def test_next_request_is_not_affected(self) -> None:
        with receiver([hang(), answer()]) as found:
            client = client_of(found.url)
            with pytest.raises(DeadlineExceeded), client.request("POST", "/", JSON, Deadline.after(SHORT_SECONDS)):
                pass

            with client.request("POST", "/", JSON, Deadline.after(PATIENCE_SECONDS)) as response:
                assert response.status == 200


class TestCancel:
    """cancel() from another thread."""

    @pytest.mark.parametrize("with_tls", [False, True], ids=["plain", "TLS"])
    def test_wait_for_a_response_ends_at_once(self, issued: Certificates, with_tls: bool) -> None:
        with receiver([hang()], issued.server_context() if with_tls else None) as found:
            client = client_of(found.url, issued.authority)

            assert self.failures(client, lambda: found.awaited(1)) == [RequestCancelled]

    def test_handshake_ends_at_once(self, issued: Certificates) -> None:
        with receiver([never_read()], issued.server_context()) as found:
            client = client_of(found.url, issued.authority)

            assert self.failures(client, found.awaited_connection) == [RequestCancelled]

    def failures(self, client: HttpClient, wait: Callable[[], object]) -> list[type[HttpFailure]]:
        """The failure of a request that is cancelled after wait()."""
        found: list[type[HttpFailure]] = []

        def act() -> None:
            try:
                with client.request("POST", "/", JSON, Deadline.after(PATIENCE_SECONDS)):
                    pass
            except HttpFailure as error:
                found.append(type(error))

        thread = threading.Thread(target=act)
        thread.start()
        wait()
        client.cancel()
        thread.join(SOON_SECONDS)
        return found

    def test_later_request_is_not_sent(self) -> None:
        with receiver() as found:
            client = HttpClient(urlsplit(found.url))
            client.cancel()
            with pytest.raises(RequestCancelled), client.request("GET", "/", {}, Deadline.after(PATIENCE_SECONDS)):
                pass

            assert found.connections == 0


@contextmanager
def responding(url: str) -> Iterator[ResponseReader]:
    """The response to one request, its body not yet read."""
    with client_of(url).request("POST", "/", JSON, Deadline.after(PATIENCE_SECONDS)) as response:
        yield response


@contextmanager
def serving(handle: Callable[[socket.socket], object]) -> Iterator[str]:
    """The address of a server that handles one client so, and closes."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with closing(server.accept()[0]) as client, suppress(OSError):  # the client has left
                handle(client)

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        thread.join()


def _send_headers_without_end(client: socket.socket) -> None:
    client.recv(65_536)
    client.sendall(b"HTTP/1.1 200 Connection established\r\n")
    while not select.select([client], [], [], 0.02)[0]:  # until the client closes the connection
        client.sendall(b"X-Header: again\r\n")
