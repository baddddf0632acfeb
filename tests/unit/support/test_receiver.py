"""receiver: what other tests lean on, seen by a client that knows nothing of it."""

from __future__ import annotations

import gzip
import http.client
import json
import socket
import ssl
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple
from urllib.parse import urlsplit

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceResponse

from tests.support import certificates
from tests.support.certificates import Certificates
from tests.support.patience import PATIENCE_SECONDS
from tests.support.receiver import (
    PROTOBUF,
    Entry,
    answer,
    drip,
    drop,
    hang,
    html,
    never_read,
    partial,
    proxy,
    receiver,
    redirect,
    refused,
)

JSON = {"Content-Type": "application/json"}
SHORT_SECONDS = 0.2  # what a client here waits for an answer that does not come


class Response(NamedTuple):
    """What a client got."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@contextmanager
def connected(
    url: str, context: ssl.SSLContext | None = None, seconds: float = PATIENCE_SECONDS
) -> Iterator[http.client.HTTPConnection]:
    """A connection that is kept alive."""
    address = urlsplit(url).netloc
    connection = (
        http.client.HTTPSConnection(address, timeout=seconds, context=context)
        if url.startswith("https")
        else http.client.HTTPConnection(address, timeout=seconds)
    )
    try:
        yield connection
    finally:
        connection.close()


def post(
    connection: http.client.HTTPConnection, body: bytes | Iterator[bytes] = b"{}", headers: Mapping[str, str] = JSON
) -> Response:
    """One request on a connection."""
    connection.request("POST", "/v1/metrics", body, dict(headers))
    response = connection.getresponse()
    return Response(response.status, dict(response.headers), response.read())


def posted(
    url: str,
    body: bytes = b"{}",
    headers: Mapping[str, str] = JSON,
    context: ssl.SSLContext | None = None,
    seconds: float = PATIENCE_SECONDS,
) -> Response:
    """One request on a connection of its own."""
    with connected(url, context, seconds) as connection:
        return post(connection, body, headers)


def answered_by(*script: Entry, headers: Mapping[str, str] = JSON) -> Response:
    """The response to the first request."""
    with receiver(script) as found:
        return posted(found.url, headers=headers)


def is_closed(client: socket.socket) -> bool:
    """Whether the other side has closed, after whatever it may have said before."""
    try:
        while client.recv(65536):
            pass
    except TimeoutError:
        return False
    except ConnectionResetError:
        pass
    return True


def elapsed(act: Callable[[], object]) -> float:
    """Seconds."""
    began = time.monotonic()
    act()
    return time.monotonic() - began


class TestRecording:
    """What has come."""

    def test_request_is_recorded_as_it_was_sent(self) -> None:
        """Headers are found whatever their case."""
        with receiver() as found:
            before = time.monotonic()
            posted(found.url, b'{"a": 1}')
            (request,) = found.requests

        assert (request.method, request.path, request.body) == ("POST", "/v1/metrics", b'{"a": 1}')
        assert request.headers["content-type"] == request.headers["CONTENT-TYPE"] == "application/json"
        assert before <= request.arrived_seconds <= time.monotonic()

    def test_content_is_the_body_unpacked(self) -> None:
        """The body stays as it came."""
        packed = gzip.compress(b"many words", mtime=0)
        with receiver() as found:
            posted(found.url, packed, {**JSON, "Content-Encoding": "gzip"})
            posted(found.url, b"few")
            first, second = found.requests

        assert (first.body, first.content) == (packed, b"many words")
        assert (second.body, second.content) == (b"few", b"few")

    def test_connection_that_is_kept_alive_keeps_its_number(self) -> None:
        """Two requests on one, and one on another."""
        with receiver() as found:
            with connected(found.url) as connection:
                post(connection)
                post(connection)
            posted(found.url)

            assert [request.connection for request in found.requests] == [1, 1, 2]
            assert found.connections == 2

    def test_requests_are_awaited(self) -> None:
        """However late they come."""
        with receiver() as found:
            late = threading.Timer(0.1, posted, [found.url])
            late.start()
            requests = found.awaited(1)
            late.join()

        assert [request.path for request in requests] == ["/v1/metrics"]

    def test_body_that_breaks_off_is_no_request(self) -> None:
        """The client left; the next one is served."""
        with receiver() as found:
            with socket.create_connection(("127.0.0.1", urlsplit(found.url).port)) as client:
                client.sendall(b"POST / HTTP/1.1\r\nContent-Length: 100\r\n\r\nx")
            posted(found.url)

            assert [request.path for request in found.requests] == ["/v1/metrics"]

    def test_body_in_chunks_fails_the_test(self) -> None:
        """The receiver cannot read chunks, and raises at the end of the block."""
        with pytest.raises(AssertionError, match="chunks"), receiver() as found:
            self._send_in_chunks(found.url)

    def _send_in_chunks(self, url: str) -> None:
        with connected(url) as connection, pytest.raises(http.client.RemoteDisconnected):
            post(connection, iter([b"a"]))


class TestScript:
    """How requests are met."""

    def test_without_a_script_all_is_well(self) -> None:
        """An empty message in the format of the request."""
        in_json, in_protobuf = answered_by(), answered_by(headers={"Content-Type": PROTOBUF})

        assert (in_json.status, in_json.headers["Content-Type"], in_json.body) == (200, "application/json", b"{}")
        assert (in_protobuf.status, in_protobuf.headers["Content-Type"], in_protobuf.body) == (200, PROTOBUF, b"")

    def test_each_request_takes_the_next_entry_and_the_last_stays(self) -> None:
        """On one connection."""
        with receiver([answer(503), answer(429), answer(200)]) as found, connected(found.url) as connection:
            assert [post(connection).status for _ in range(4)] == [503, 429, 200, 200]

    def test_answer_is_as_scripted(self) -> None:
        """Status, body, type and headers."""
        said = answered_by(answer(503, b"busy", {"Retry-After": "7"}, "text/plain"))

        assert (said.status, said.body) == (503, b"busy")
        assert (said.headers["Content-Type"], said.headers["Retry-After"]) == ("text/plain", "7")

    def test_redirection_names_the_address(self) -> None:
        """307 keeps method and body."""
        said = answered_by(redirect("http://127.0.0.1:1/there"))

        assert (said.status, said.headers["Location"]) == (307, "http://127.0.0.1:1/there")

    def test_partial_success_has_the_format_of_the_request(self) -> None:
        """64 bits are text in JSON."""
        in_json = answered_by(partial(3, "too old"))
        in_protobuf = answered_by(partial(3, "too old"), headers={"Content-Type": PROTOBUF})
        read = ExportMetricsServiceResponse()
        read.ParseFromString(in_protobuf.body)

        assert json.loads(in_json.body) == {"partialSuccess": {"rejectedDataPoints": "3", "errorMessage": "too old"}}
        assert (read.partial_success.rejected_data_points, read.partial_success.error_message) == (3, "too old")

    def test_page_is_no_message(self) -> None:
        """200 all the same."""
        said = answered_by(html())

        assert (said.status, said.headers["Content-Type"]) == (200, "text/html; charset=utf-8")
        assert said.body.startswith(b"<!doctype html>")

    def test_drop_closes_without_an_answer(self) -> None:
        """The request is recorded; the next connection is served."""
        with receiver([drop(), answer()]) as found:
            with pytest.raises(http.client.RemoteDisconnected):
                posted(found.url)

            assert posted(found.url).status == 200
            assert len(found.requests) == 2

    def test_drip_sends_a_success_byte_by_byte(self) -> None:
        """Each in time, and all of them late: `HTTP/1.1 200 OK` alone is 15 bytes."""
        with receiver([drip(0.002)]) as found:
            began = time.monotonic()
            said = posted(found.url)

        assert (said.status, said.body) == (200, b"{}")
        assert time.monotonic() - began > 15 * 0.002


class TestWaiting:
    """A client that gets no answer, and the end of the block."""

    @pytest.mark.parametrize("entry", [hang(), drip(3600), never_read()], ids=["hang", "drip", "never_read"])
    def test_no_answer_comes(self, entry: Entry) -> None:
        """The client times out, and the block ends."""

        def meet() -> None:
            with receiver([entry]) as found, pytest.raises(TimeoutError):
                posted(found.url, seconds=SHORT_SECONDS)

        assert elapsed(meet) >= SHORT_SECONDS

    @pytest.mark.parametrize("entry", [hang(), drip(3600), never_read()], ids=["hang", "drip", "never_read"])
    def test_end_wakes_a_client_that_still_waits(self, entry: Entry) -> None:
        """Its connection is closed under it."""
        with socket.socket() as client:
            client.settimeout(PATIENCE_SECONDS)
            with receiver([entry]) as found:
                client.connect(("127.0.0.1", urlsplit(found.url).port))
                client.sendall(b"POST / HTTP/1.1\r\nContent-Length: 1\r\n\r\nx")
            assert is_closed(client)

    def test_end_does_not_wait_for_silent_clients(self) -> None:
        """Nor for one that stops in the middle of a body."""
        with socket.socket() as silent, socket.socket() as halfway, receiver() as found:
            for client in (silent, halfway):
                client.connect(("127.0.0.1", urlsplit(found.url).port))
            halfway.sendall(b"POST / HTTP/1.1\r\nContent-Length: 100\r\n\r\nx")

    def test_never_read_stops_a_client_while_it_sends(self) -> None:
        """No request has come then."""
        with receiver([never_read()]) as found:
            with pytest.raises(TimeoutError):
                posted(found.url, bytes(64 << 20), seconds=SHORT_SECONDS)

            assert (found.connections, found.requests) == (1, [])

    def test_hang_has_the_request(self) -> None:
        """It was read in full."""
        with receiver([hang()]) as found:
            with pytest.raises(TimeoutError):
                posted(found.url, b"all of it", seconds=SHORT_SECONDS)

            assert [request.body for request in found.awaited(1)] == [b"all of it"]

    def test_refused_address_refuses(self) -> None:
        """No process listens."""
        with refused() as url, pytest.raises(ConnectionRefusedError):
            posted(url)


@pytest.fixture(scope="module")
def issued(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """Certificates for all tests of this file."""
    return certificates.issue(tmp_path_factory.mktemp("certificates"))


class TestTls:
    """The same over HTTPS."""

    def test_request_is_recorded(self, issued: Certificates) -> None:
        """By a client that trusts the authority."""
        with receiver(tls=issued.server_context()) as found:
            assert posted(found.url, b"secret", context=issued.client_context()).status == 200
            assert [request.body for request in found.requests] == [b"secret"]

    def test_client_that_does_not_trust_the_authority_says_nothing(self, issued: Certificates) -> None:
        """No request comes."""
        trusting = ssl.create_default_context(cafile=str(issued.other_authority))
        with receiver(tls=issued.server_context()) as found:
            with pytest.raises(ssl.SSLCertVerificationError, match="unable to get local issuer"):
                posted(found.url, context=trusting)

            assert found.requests == []

    def test_certificate_of_another_host_is_refused(self, issued: Certificates) -> None:
        """The authority is the right one."""
        with (
            receiver(tls=issued.server_context(is_wrong_host=True)) as found,
            pytest.raises(ssl.SSLCertVerificationError, match="IP address mismatch"),
        ):
            posted(found.url, context=issued.client_context())

    def test_client_certificate_can_be_wanted(self, issued: Certificates) -> None:
        """A client without one, or with one of another authority, is refused."""
        untrusted = issued.client_context()
        untrusted.load_cert_chain(issued.untrusted, issued.untrusted_key)
        with receiver(tls=issued.server_context(wants_client=True)) as found:
            for context in (issued.client_context(), untrusted):
                with pytest.raises(OSError, match="alert"):
                    posted(found.url, context=context)

            assert posted(found.url, context=issued.client_context(shows_certificate=True)).status == 200
            assert len(found.requests) == 1

    @pytest.mark.parametrize("entry", [hang(), never_read()], ids=["hang", "never_read"])
    def test_no_answer_comes(self, issued: Certificates, entry: Entry) -> None:
        """A connection that is never read has not even a handshake."""
        with receiver([entry], issued.server_context()) as found, pytest.raises(TimeoutError):
            posted(found.url, context=issued.client_context(), seconds=SHORT_SECONDS)

    def test_client_without_tls_is_only_a_connection(self, issued: Certificates) -> None:
        """And the next one is served."""
        with receiver(tls=issued.server_context()) as found:
            with pytest.raises((http.client.BadStatusLine, ConnectionResetError)):
                posted(found.url.replace("https", "http"))

            assert posted(found.url, context=issued.client_context()).status == 200


def through(proxy_url: str, url: str, context: ssl.SSLContext | None = None) -> int:
    """The status that urllib gets through a proxy."""
    handlers: list[urllib.request.BaseHandler] = [urllib.request.ProxyHandler({"http": proxy_url, "https": proxy_url})]
    if context is not None:
        handlers.append(urllib.request.HTTPSHandler(context=context))
    request = urllib.request.Request(f"{url}/v1/metrics?a=b", b"{}", JSON)  # noqa: S310 - our own address
    with urllib.request.build_opener(*handlers).open(request, timeout=PATIENCE_SECONDS) as response:
        status: int = response.status
        return status


class TestProxy:
    """A proxy between client and receiver."""

    def test_http_is_handed_on(self) -> None:
        """Asked by the whole address; the receiver sees the path alone, and not who logged in."""
        with receiver() as found, proxy() as between:
            status = through(between.url.replace("//", "//user:word@"), found.url)
            (request,) = found.requests

        assert status == 200
        assert (request.path, request.body) == ("/v1/metrics?a=b", b"{}")
        assert "Proxy-Authorization" not in request.headers
        assert between.requests == [(f"POST {found.url}/v1/metrics?a=b HTTP/1.1", "Basic dXNlcjp3b3Jk")]

    def test_https_goes_through_a_tunnel(self, issued: Certificates) -> None:
        """The proxy sees host and port."""
        with receiver(tls=issued.server_context()) as found, proxy() as between:
            status = through(between.url, found.url, issued.client_context())

        assert status == 200
        assert [asked.line.rpartition(" ")[0] for asked in between.requests] == [
            f"CONNECT {urlsplit(found.url).netloc}"
        ]
        assert [asked.authorization for asked in between.requests] == [None]

    def test_target_that_refuses_gives_502(self) -> None:
        """As from any gateway."""
        with refused() as url, proxy() as between, pytest.raises(urllib.error.HTTPError) as raised:
            through(between.url, url)
        raised.value.close()

        assert raised.value.code == 502

    def test_end_does_not_wait_for_a_tunnel(self) -> None:
        """Neither side of which says a word."""
        with socket.socket() as client, receiver() as found, proxy() as between:
            client.connect(("127.0.0.1", urlsplit(between.url).port))
            client.sendall(f"CONNECT {urlsplit(found.url).netloc} HTTP/1.1\r\n\r\n".encode())

            assert client.recv(65536) == b"HTTP/1.1 200 Connection established\r\n\r\n"
