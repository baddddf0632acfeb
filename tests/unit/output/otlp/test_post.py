"""post: one request over a real socket, to a receiver that answers as its script says."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from cryptography.hazmat.primitives import serialization

from exporter import __version__
from exporter.errors import BadInput
from exporter.output.otlp.post import Answer, NoAnswer, NotTrusted, Poster, TimeIsUp
from tests.support import certificates
from tests.support.certificates import Certificates
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
    proxy,
    receiver,
    redirect,
    refused,
)
from tests.support.traced import eventually, only

JSON = {"Content-Type": "application/json"}
SHORT_SECONDS = 0.15  # for an answer that does not come
SOON_SECONDS = 5.0  # far less than anything here would take that nobody breaks off
PATIENCE_SECONDS = 30.0
PROXY_VARIABLES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")
BROKEN_OFF = "it closed the connection without a whole answer"


@pytest.fixture(autouse=True)
def _without_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the environment of the tests says of proxies does not count; in capitals or not."""
    for name in PROXY_VARIABLES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.fixture(autouse=True)
def _nothing_left_behind() -> Iterator[None]:
    """After each test the threads and sockets of this process are those of before it."""
    threads, sockets = set(threading.enumerate()), _sockets()
    yield
    eventually(lambda: set(threading.enumerate()) <= threads, "every thread has ended")
    assert _sockets() <= sockets


def _sockets() -> set[str]:
    """`socket:[4711]`, of all that are open."""
    found = set()
    for fd in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # that of the listing itself
            found.add(str(fd.readlink()))
    return {link for link in found if link.startswith("socket:")}


@pytest.fixture(scope="module")
def issued(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """Certificates for all tests of this file."""
    return certificates.issue(tmp_path_factory.mktemp("certificates"))


def posted(
    url: str,
    body: bytes = b"{}",
    headers: Mapping[str, str] = JSON,
    timeout_seconds: float = PATIENCE_SECONDS,
    **settings: object,
) -> Answer:
    """The answer to one request."""
    return Poster(target(url, **settings)).post(body, headers, timeout_seconds)


def answered_by(*script: Entry) -> Answer:
    """The answer to the first request."""
    with receiver(script) as found:
        return posted(found.url)


def raw(*parts: bytes, interval_seconds: float = 0.0) -> Entry:
    """These bytes, one part after the other, and then the end of the connection. Source of them: RFC 9112."""

    def say(connection: Any, _: object) -> None:
        for part in parts:
            connection.send(part)
            if interval_seconds and connection.wait_for_end(interval_seconds):
                return
        connection.close_connection = True

    return Entry(say)


def elapsed(act: Callable[[], object]) -> float:
    """Seconds."""
    began = time.monotonic()
    act()
    return time.monotonic() - began


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
        with receiver([answer(200, headers=endless)]) as found, pytest.raises(NoAnswer, match="not HTTP: LineTooLong"):
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
        with pytest.raises(NoAnswer) as raised:
            posted(url)
        assert raised.type is NoAnswer
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
    client.sendall(b"HTTP/1.1 200 Connection established\r\n")
    while True:
        client.sendall(b"X-Header: again\r\n")
        time.sleep(0.02)


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


class TestTls:
    """Over HTTPS."""

    def refused_by(self, url: str, **settings: object) -> str:
        """Why one side did not trust the other."""
        with pytest.raises(NotTrusted) as raised:
            posted(url, **settings)
        return str(raised.value)

    def test_authority_of_the_file_is_trusted(self, issued: Certificates) -> None:
        """By address and by name."""
        with receiver(tls=issued.server_context()) as found:
            for url in (found.url, found.url.replace("127.0.0.1", "localhost")):
                assert posted(url, ca_file=issued.authority).status == 200

    def test_authorities_of_the_system_are_trusted_without_a_file(
        self, issued: Certificates, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """SSL_CERT_FILE says to OpenSSL where they are."""
        monkeypatch.setenv("SSL_CERT_FILE", str(issued.authority))
        with receiver(tls=issued.server_context()) as found:
            assert posted(found.url).status == 200

    def test_the_file_stands_instead_of_the_system(self, issued: Certificates, monkeypatch: pytest.MonkeyPatch) -> None:
        """A public authority cannot speak for a receiver that has an authority of its own."""
        monkeypatch.setenv("SSL_CERT_FILE", str(issued.authority))
        with receiver(tls=issued.server_context()) as found:
            said = self.refused_by(found.url, ca_file=issued.other_authority)

        assert said == "its certificate cannot be trusted: unable to get local issuer certificate"

    @pytest.mark.parametrize("variable", ["REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"])
    def test_variables_of_other_programs_have_no_effect(
        self, issued: Certificates, monkeypatch: pytest.MonkeyPatch, variable: str
    ) -> None:
        """They are no setting of this one."""
        monkeypatch.setenv(variable, str(issued.authority))
        with receiver(tls=issued.server_context()) as found:
            said = self.refused_by(found.url, ca_file=issued.other_authority)

        assert said == "its certificate cannot be trusted: unable to get local issuer certificate"

    def test_unknown_authority_gets_no_request(self, issued: Certificates) -> None:
        """No header, and so no token."""
        with receiver(tls=issued.server_context()) as found:
            self.refused_by(found.url, ca_file=issued.other_authority)

            assert found.requests == []

    def test_certificate_of_another_host_is_not_trusted(self, issued: Certificates) -> None:
        """The authority is the right one."""
        with receiver(tls=issued.server_context(is_wrong_host=True)) as found:
            said = self.refused_by(found.url, ca_file=issued.authority)

            assert said.startswith("its certificate cannot be trusted: IP address mismatch")
            assert found.requests == []

    def test_receiver_without_tls_is_not_trusted(self) -> None:
        """What it answers to the handshake is HTTP."""
        with receiver() as found:
            said = self.refused_by(found.url.replace("http", "https"))

        assert said.startswith("TLS failed: ")

    def test_client_certificate_is_shown(self, issued: Certificates) -> None:
        """To a receiver that wants one; in two files, or both in one."""
        both = {"client_certificate_file": issued.client, "client_key_file": issued.client_key}
        with receiver(tls=issued.server_context(wants_client=True)) as found:
            assert posted(found.url, ca_file=issued.authority, **both).status == 200
            assert posted(found.url, ca_file=issued.authority, client_certificate_file=issued.server).status == 200

    def test_receiver_that_wants_a_certificate_trusts_no_one_without(self, issued: Certificates) -> None:
        """Nor one that shows a stranger's."""
        strangers = {"client_certificate_file": issued.stranger, "client_key_file": issued.stranger_key}
        with receiver(tls=issued.server_context(wants_client=True)) as found:
            without = self.refused_by(found.url, ca_file=issued.authority)
            with_strangers = self.refused_by(found.url, ca_file=issued.authority, **strangers)

            assert without.startswith("TLS failed: ")
            assert with_strangers.startswith("TLS failed: ")
            assert found.requests == []


class TestCertificatesThatCannotBeUsed:
    """Found before anything is sent."""

    URL = "https://127.0.0.1:4318"

    def refused(self, **settings: object) -> BadInput:
        """What is said of them."""
        with pytest.raises(BadInput) as raised:
            Poster(target(self.URL, **settings))
        return raised.value

    def test_certificate_and_key_of_different_pairs(self, issued: Certificates) -> None:
        """Both are named."""
        error = self.refused(client_certificate_file=issued.client, client_key_file=issued.stranger_key)

        assert str(error) == (
            f"OTLP receiver default: the client certificate {issued.client} does not match the key {issued.stranger_key}"
        )
        assert error.remedy == "give a certificate and its own key, both PEM, the key without a passphrase"

    def test_certificate_without_a_key(self, issued: Certificates) -> None:
        """It may stand in the same file, and does not."""
        error = self.refused(client_certificate_file=issued.client)

        assert str(error) == (
            f"OTLP receiver default: the client certificate {issued.client} cannot be used with the key inside it"
        )

    @pytest.mark.parametrize("content", [b"", b"no certificate", b"\x30\x82\x01\x0a"], ids=["empty", "text", "DER"])
    def test_authority_that_is_no_pem(self, tmp_path: Path, content: bytes) -> None:
        """The file is named."""
        file = tmp_path / "authority"
        file.write_bytes(content)

        assert str(self.refused(ca_file=file)) == f"OTLP receiver default: {file} holds no certificates (PEM)"

    def test_key_with_a_passphrase(self, issued: Certificates, tmp_path: Path) -> None:
        """Nobody is asked for it: a daemon has no terminal."""
        file = tmp_path / "key"
        file.write_bytes(_locked(issued.client_key))
        error = self.refused(client_certificate_file=issued.client, client_key_file=file)

        assert str(error) == (
            f"OTLP receiver default: the client certificate {issued.client} cannot be used with the key {file}"
        )
        assert error.remedy.endswith("the key without a passphrase")

    def test_without_tls_they_are_not_looked_at(self, issued: Certificates) -> None:
        """A receiver of http has no use for them."""
        with receiver() as found:
            said = posted(found.url, client_certificate_file=issued.client, client_key_file=issued.stranger_key)

        assert said.status == 200


def _locked(key_file: Path) -> bytes:
    """The same key, encrypted."""
    key = serialization.load_pem_private_key(key_file.read_bytes(), None)
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"passphrase"),
    )


class TestProxy:
    """What HTTP_PROXY, HTTPS_PROXY and NO_PROXY say."""

    @pytest.mark.parametrize("variable", ["HTTP_PROXY", "http_proxy"])
    def test_http_asks_for_the_whole_address(self, monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
        """The receiver sees what it would see without; in capitals or not."""
        with receiver() as found, proxy() as between:
            monkeypatch.setenv(variable, between.url)
            said = posted(f"{found.url}?key=b", b'{"a": 1}')
            request = only(found.requests)

        assert said.status == 200
        assert (request.path, request.body) == ("/v1/metrics?key=b", b'{"a": 1}')
        assert request.headers["Host"] == urlsplit(found.url).netloc
        assert between.requests == [(f"POST {found.url}/v1/metrics?key=b HTTP/1.1", None)]

    @pytest.mark.parametrize("variable", ["HTTPS_PROXY", "https_proxy"])
    def test_https_goes_through_a_tunnel(
        self, issued: Certificates, monkeypatch: pytest.MonkeyPatch, variable: str
    ) -> None:
        """The proxy learns host and port, and no header of the receiver's."""
        with receiver(tls=issued.server_context()) as found, proxy() as between:
            monkeypatch.setenv(variable, between.url)
            said = posted(found.url, ca_file=issued.authority)
            asked = only(between.requests)

        assert said.status == 200
        assert asked.line.rpartition(" ")[0] == f"CONNECT {urlsplit(found.url).netloc}"
        assert asked.authorization is None

    def test_tunnel_does_not_speak_for_the_receiver(
        self, issued: Certificates, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The certificate has to be the receiver's, for its own name."""
        with receiver(tls=issued.server_context(is_wrong_host=True)) as found, proxy() as between:
            monkeypatch.setenv("HTTPS_PROXY", between.url)
            with pytest.raises(NotTrusted, match="IP address mismatch"):
                posted(found.url, ca_file=issued.authority)

            assert found.requests == []

    def test_credentials_are_for_the_proxy_alone(self, issued: Certificates, monkeypatch: pytest.MonkeyPatch) -> None:
        """`user:p@ss`, percent-encoded in the address, base64 on the wire: dXNlcjpwQHNz."""
        with (
            receiver() as plain,
            receiver(tls=issued.server_context()) as secure,
            proxy() as between,
        ):
            for variable in ("HTTP_PROXY", "HTTPS_PROXY"):
                monkeypatch.setenv(variable, between.url.replace("//", "//user:p%40ss@"))
            posted(plain.url)
            posted(secure.url, ca_file=issued.authority)
            seen = [*plain.requests, *secure.requests]

        assert [asked.authorization for asked in between.requests] == ["Basic dXNlcjpwQHNz"] * 2
        assert [request.headers["Proxy-Authorization"] for request in seen] == [None, None]

    @pytest.mark.parametrize("hosts", ["127.0.0.1", "*", "example.com, 127.0.0.1"])
    def test_hosts_of_no_proxy_are_reached_without(self, monkeypatch: pytest.MonkeyPatch, hosts: str) -> None:
        """One, all, or some."""
        with receiver() as found, proxy() as between:
            monkeypatch.setenv("HTTP_PROXY", between.url)
            monkeypatch.setenv("NO_PROXY", hosts)
            posted(found.url)

            assert (len(found.requests), between.requests) == (1, [])

    def test_other_hosts_are_reached_through_it(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """NO_PROXY is a list of exceptions."""
        with receiver() as found, proxy() as between:
            monkeypatch.setenv("HTTP_PROXY", between.url)
            monkeypatch.setenv("NO_PROXY", "example.com")
            posted(found.url)

            assert len(between.requests) == 1

    @pytest.mark.parametrize("networks", ["127.0.0.0/8", "10.0.0.0/8, 127.0.0.1/32", "nonsense/x,127.0.0.0/30"])
    def test_networks_are_reached_without_it(self, monkeypatch: pytest.MonkeyPatch, networks: str) -> None:
        """As clusters write them."""
        with receiver() as found, proxy() as between:
            monkeypatch.setenv("HTTP_PROXY", between.url)
            monkeypatch.setenv("NO_PROXY", networks)
            posted(found.url)

            assert (len(found.requests), between.requests) == (1, [])

    def test_proxy_of_one_scheme_is_not_used_for_the_other(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """HTTPS_PROXY is for https alone."""
        with receiver() as found, proxy() as between:
            monkeypatch.setenv("HTTPS_PROXY", between.url)
            posted(found.url)

            assert (len(found.requests), between.requests) == (1, [])

    def test_scheme_may_be_left_out(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """HOST:PORT, as curl takes it."""
        with receiver() as found, proxy() as between:
            monkeypatch.setenv("HTTP_PROXY", between.url.removeprefix("http://"))
            posted(found.url)

            assert len(between.requests) == 1

    def test_receiver_that_the_proxy_cannot_reach(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """502 is an answer of the proxy, and for https there is no tunnel."""
        with refused() as url, proxy() as between:
            for variable in ("HTTP_PROXY", "HTTPS_PROXY"):
                monkeypatch.setenv(variable, between.url)
            said = posted(url)
            with pytest.raises(NoAnswer, match=r"^Tunnel connection failed: 502 Bad Gateway$") as raised:
                posted(url.replace("http", "https"))

        assert said.status == 502
        assert raised.type is NoAnswer

    @pytest.mark.parametrize(
        "value",
        [
            "socks5://127.0.0.1:1080",
            "https://127.0.0.1:3128",
            "http://",
            "http://:3128",
            "http://proxy:0",
            "http://proxy:65536",
            "http://proxy:port",
            "http://[::1",
            "http://user:secret@[::1",
        ],
    )
    def test_value_that_names_no_proxy_is_refused(self, monkeypatch: pytest.MonkeyPatch, value: str) -> None:
        """It is not shown, for it may hold a password."""
        monkeypatch.setenv("HTTPS_PROXY", value)
        with pytest.raises(BadInput) as raised:
            Poster(target("https://127.0.0.1:4318"))

        assert raised.value.one_line() == ("HTTPS_PROXY does not name a proxy that can be used; want http://HOST:PORT")
