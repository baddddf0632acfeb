"""post: one request over a real socket, to a receiver that answers as its script says."""

from __future__ import annotations

import select
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from urllib.parse import urlsplit

import pytest

from exporter import __version__
from exporter.output.otlp.post import NoResponse, Poster, TimeIsUp
from tests.support.certificates import Certificates
from tests.support.posting import (
    BROKEN_OFF,
    JSON,
    PATIENCE_SECONDS,
    SHORT_SECONDS,
    SOON_SECONDS,
    answered_by,
    elapsed,
    posted,
    raw,
)
from tests.support.pushing import target
from tests.support.receiver import (
    Entry,
    answer,
    drip,
    drop,
    hang,
    html,
    never_read,
    partial,
    receiver,
    redirect,
    refused,
)
from tests.support.traced import only


class TestRequest:
    """What the receiver gets."""

    def test_body_and_path_are_those_that_were_given(self) -> None:
        """By POST; the query of an endpoint is a part of its path."""
        with receiver() as found:
            posted(f"{found.url}/base?key=a%20b", b'{"a": 1}')
            request = only(found.requests)

        assert (request.method, request.path, request.body) == ("POST", "/base/v1/metrics?key=a%20b", b'{"a": 1}')

    def test_address_without_a_path_is_asked_for_its_root(self) -> None:
        """The endpoint of the metrics alone is taken as it stands."""
        with receiver() as found:
            Poster(replace(target(found.url), url=found.url)).post(b"{}", JSON, PATIENCE_SECONDS)

            assert [request.path for request in found.requests] == ["/"]

    def test_headers_name_the_content_and_the_sender(self) -> None:
        """And the receiver, as HTTP/1.1 wants it."""
        with receiver() as found:
            posted(found.url, headers={**JSON, "Content-Encoding": "gzip"})
            headers = only(found.requests).headers

        assert (headers["Content-Type"], headers["Content-Encoding"]) == ("application/json", "gzip")
        assert headers["User-Agent"] == f"gpu-stall-exporter/{__version__}"
        assert headers["Host"] == urlsplit(found.url).netloc
        assert headers["Content-Length"] == "2"

    @pytest.mark.parametrize("name", ["User-Agent", "user-agent"])
    def test_sender_may_be_named_otherwise(self, name: str) -> None:
        """And is named once."""
        with receiver() as found:
            Poster(replace(target(found.url), headers=((name, "us"),))).post(b"{}", JSON, PATIENCE_SECONDS)

            assert only(found.requests).headers.get_all("User-Agent") == ["us"]

    def test_head_without_an_end_is_cut(self) -> None:
        """A receiver must not fill the memory."""
        endless = {f"X-{number}": "x" * 60_000 for number in range(3)}
        with (
            receiver([answer(200, headers=endless)]) as found,
            pytest.raises(NoResponse, match="not HTTP: LineTooLong"),
        ):
            posted(found.url)

    def test_headers_of_the_configuration_are_sent(self) -> None:
        """With every request."""
        with receiver() as found:
            poster = Poster(replace(target(found.url), headers=(("api-key", "secret"), ("X-Scope", "a b"))))
            for _ in range(2):
                poster.post(b"{}", JSON, PATIENCE_SECONDS)

            assert [(r.headers["Api-Key"], r.headers["x-scope"]) for r in found.requests] == [("secret", "a b")] * 2

    def test_each_request_has_a_connection_of_its_own(self) -> None:
        """One that was kept might be dead by the next push."""
        with receiver() as found:
            poster = Poster(target(found.url))
            for _ in range(2):
                poster.post(b"{}", JSON, PATIENCE_SECONDS)

            assert [request.connection for request in found.requests] == [1, 2]


class TestAnswer:
    """What the receiver says."""

    def test_answer_has_status_headers_and_body(self) -> None:
        """Whatever the status; names of headers in small letters."""
        said = answered_by(answer(503, b"busy", {"Retry-After": "7"}, "text/plain"))

        assert (said.status, said.body) == (503, b"busy")
        assert (said.headers["retry-after"], said.headers["content-type"]) == ("7", "text/plain")

    def test_empty_answer_is_one(self) -> None:
        """The message of success in protobuf has no bytes."""
        assert answered_by(answer(200, b"")).body == b""

    @pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
    def test_redirect_is_not_followed(self, status: int) -> None:
        """It is the answer; nothing is sent where it leads to."""
        with receiver() as elsewhere, receiver([redirect(f"{elsewhere.url}/v1/metrics", status)]) as found:
            said = posted(found.url)

            assert (said.status, said.headers["location"]) == (status, f"{elsewhere.url}/v1/metrics")
            assert (len(found.requests), elsewhere.connections) == (1, 0)

    def test_long_answer_is_cut(self) -> None:
        """At 64 KiB, of which the log shows a line."""
        assert answered_by(answer(400, b"a" * 200_000)).body == b"a" * 65_536

    def test_answer_of_exactly_the_limit_is_whole(self) -> None:
        """The last one that is."""
        assert answered_by(answer(400, b"a" * 65_536)).body == b"a" * 65_536

    def test_answer_of_unknown_length_ends_with_its_connection(self) -> None:
        """As HTTP/1.0 has it."""
        assert answered_by(raw(b"HTTP/1.0 200 OK\r\n\r\n", b"{}")).body == b"{}"

    def test_answer_in_chunks_is_put_together(self) -> None:
        """As servers send what they compute while they send."""
        chunks = b"2\r\n{ \r\n1\r\n}\r\n0\r\n\r\n"

        assert answered_by(raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", chunks)).body == b"{ }"

    def test_page_and_partial_success_are_answers(self) -> None:
        """What they mean is not decided here."""
        assert answered_by(html()).body.startswith(b"<!doctype html>")
        assert answered_by(partial(3)).status == 200


class TestNoAnswer:
    """No connection, or one that broke."""

    def failed(self, url: str) -> str:
        """What is told of a request that fails, and not for want of time or trust."""
        with pytest.raises(NoResponse) as raised:
            posted(url)
        assert raised.type is NoResponse
        return str(raised.value)

    def test_dropped_connection(self) -> None:
        """Closed when the request had been read."""
        with receiver([drop()]) as found:
            assert self.failed(found.url) == BROKEN_OFF

    @pytest.mark.parametrize(
        "said",
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
    def test_answer_that_breaks_off(self, said: bytes) -> None:
        """However far it came: a status alone is no success."""
        with receiver([raw(said)]) as found:
            assert self.failed(found.url) == BROKEN_OFF

    def test_refused_connection(self) -> None:
        """Nobody listens."""
        with refused() as url:
            assert self.failed(url) == "Connection refused"

    def test_name_that_nobody_has(self) -> None:
        """The top-level domain `invalid` is reserved for that."""
        assert self.failed("http://no-such-host.invalid").startswith("its name cannot be resolved: ")

    @pytest.mark.parametrize("host", ["a" * 64, "a..b"], ids=["64 characters", "nothing between dots"])
    def test_name_that_nobody_can_have(self, host: str) -> None:
        """A part of a name has 1 to 63 characters."""
        assert self.failed(f"http://{host}.invalid") == (
            "its name cannot be resolved: a part of it is empty or too long"
        )

    def test_answer_that_is_not_http(self) -> None:
        """SSH, say."""
        with receiver([raw(b"SSH-2.0-OpenSSH_9.2\r\n")]) as found:
            assert self.failed(found.url) == "what it answers is not HTTP: BadStatusLine"

    def test_tls_asked_without_tls(self, issued: Certificates) -> None:
        """An alert of TLS is not HTTP; some servers just close."""
        with receiver(tls=issued.server_context()) as found:
            said = self.failed(found.url.replace("https", "http"))

        assert said in ("what it answers is not HTTP: BadStatusLine", "Connection reset by peer", BROKEN_OFF)

    def test_connection_that_ends_in_the_handshake(self) -> None:
        """A balancer without a server behind it: nothing was said against a certificate."""
        with _serving(lambda client: client.recv(65536)) as address:
            assert self.failed(f"https://{address}") == BROKEN_OFF


@contextmanager
def _serving(meet: Callable[[socket.socket], object]) -> Iterator[str]:
    """The address of a server that meets one client so, and closes."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with closing(server.accept()[0]) as client, suppress(OSError):  # the client has left
                meet(client)

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        thread.join()


def _promise_a_tunnel(client: socket.socket) -> None:
    client.recv(65536)
    client.sendall(b"HTTP/1.1 200 Connection established\r\n")
    while not select.select([client], [], [], 0.02)[0]:  # until it hangs up
        client.sendall(b"X-Header: again\r\n")


class TestTime:
    """From the connection to the last byte of the answer there is one time, whatever the receiver does with it."""

    def ends_in_time(self, url: str, body: bytes = b"{}", **settings: object) -> None:
        """Assert that the request ends when its time is up, and says so."""

        def meet() -> None:
            with pytest.raises(TimeIsUp, match=r"^no whole answer within 0\.15 s$"):
                posted(url, body, timeout_seconds=SHORT_SECONDS, **settings)

        seconds = elapsed(meet)

        assert SHORT_SECONDS * 0.9 < seconds < SOON_SECONDS

    @pytest.mark.parametrize("entry", [hang(), never_read(), drip(0.02)], ids=["hang", "never_read", "drip"])
    def test_receiver_without_an_answer(self, entry: Entry) -> None:
        """No single read of one that drips waits for long."""
        with receiver([entry]) as found:
            self.ends_in_time(found.url)

    def test_receiver_that_takes_nothing(self) -> None:
        """A body larger than every socket buffer."""
        with receiver([never_read()]) as found:
            self.ends_in_time(found.url, bytes(64 << 20))

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
        """Behind headers that came at once; what has come by then is no answer, though it may look like one."""
        with receiver([raw(head, *[b" "] * 1000, interval_seconds=0.02)]) as found:
            self.ends_in_time(found.url)

    def test_headers_without_end(self) -> None:
        """Each line in time."""
        lines = [b"X-Header: again\r\n"] * 1000
        with receiver([raw(b"HTTP/1.1 200 OK\r\n", *lines, interval_seconds=0.02)]) as found:
            self.ends_in_time(found.url)

    @pytest.mark.parametrize("entry", [hang(), never_read(), drip(0.02)], ids=["hang", "never_read", "drip"])
    def test_receiver_with_tls(self, issued: Certificates, entry: Entry) -> None:
        """One that is never read hangs in the handshake."""
        with receiver([entry], issued.server_context()) as found:
            self.ends_in_time(found.url, ca_file=issued.authority)

    @pytest.mark.parametrize("entry", [hang(), never_read(), drip(0.02)], ids=["hang", "never_read", "drip"])
    def test_proxy(self, monkeypatch: pytest.MonkeyPatch, entry: Entry) -> None:
        """It may be what hangs."""
        with receiver([entry]) as between:
            monkeypatch.setenv("HTTP_PROXY", between.url)
            self.ends_in_time("http://collector.invalid")

    def test_tunnel_without_an_answer(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The proxy never reads."""
        with receiver([never_read()]) as between:
            monkeypatch.setenv("HTTPS_PROXY", between.url)
            self.ends_in_time("https://collector.invalid")

    def test_tunnel_that_drips(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """The proxy promises one, and then has headers without end."""
        with _serving(_promise_a_tunnel) as address:
            monkeypatch.setenv("HTTPS_PROXY", f"http://{address}")
            self.ends_in_time("https://collector.invalid")

    def test_next_request_is_not_held_back(self) -> None:
        """Nothing of the one that ran out of time is left."""
        with receiver([hang(), answer()]) as found:
            poster = Poster(target(found.url))
            with pytest.raises(TimeIsUp):
                poster.post(b"{}", JSON, SHORT_SECONDS)

            assert poster.post(b"{}", JSON, PATIENCE_SECONDS).status == 200
