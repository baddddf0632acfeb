"""One POST to a receiver: within its time, through its proxy, over its TLS. Redirects are not followed.

In: a Receiver and a body. Out: an Answer, or NoAnswer with what went wrong. A connection serves one request, so that none is
found dead by the next one; a clock beside it closes the connection when the time is up, however slowly the receiver speaks.
"""

from __future__ import annotations

import base64
import http.client
import io
import ipaddress
import socket
import ssl
import threading
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple
from urllib.parse import SplitResult, unquote, urlsplit

from exporter import __version__
from exporter.config.otlp import Target
from exporter.errors import BadInput, ExporterError

MAX_ANSWER_BYTES = 65536
_SHOWN_CHARACTERS = 200
_DEFAULT_PORTS = {"http": 80, "https": 443}
_TLS_ENDS = (ssl.SSLEOFError, ssl.SSLZeroReturnError)  # the other side has gone; it said nothing against us


class HttpResponse(NamedTuple):
    """What the receiver said. headers: by lower-case name. body: at most MAX_ANSWER_BYTES of it."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class NoResponse(ExporterError):
    """There was no answer: no connection, or it broke."""


class TimeIsUp(NoResponse):
    """There was no whole answer within the time."""


class NotTrusted(NoResponse):
    """The receiver's certificate is not one to trust, or ours was not trusted."""


class Poster:
    """Posts to one receiver. Raises BadInput when its certificates or its proxy cannot be used."""

    def __init__(self, receiver: Target) -> None:
        self._target = urlsplit(receiver.url)
        self._headers = dict(receiver.headers)
        if "user-agent" not in {name.lower() for name in self._headers}:
            self._headers["User-Agent"] = f"gpu-stall-exporter/{__version__}"
        self._tls = _tls_context(receiver) if self._target.scheme == "https" else None
        self._proxy = _proxy_of(self._target)

    def post(self, body: bytes, headers: Mapping[str, str], timeout_seconds: float) -> HttpResponse:
        """Raises NoAnswer. timeout_seconds: from connecting to the last byte of the answer.

        A look-up of the name that hangs ends when the system's resolver gives up.
        """
        until = time.monotonic() + timeout_seconds
        connection = self._connection(until)
        with _closed_at(connection, until) as is_up:
            try:
                _send(connection, self._request_target(), body, {**self._headers, **self._proxy_headers(), **headers})
                answer = _answer(connection.getresponse())
                if is_up.is_set():  # what was broken off looks like the end of an answer of unknown length
                    raise TimeoutError
                return answer
            except (OSError, http.client.HTTPException, UnicodeError) as error:
                if is_up.is_set() or isinstance(error, TimeoutError):
                    raise TimeIsUp(f"no whole answer within {timeout_seconds:.3g} s") from error
                raise _no_answer(error) from error

    def _connection(self, until: float) -> _Connection:
        host, port = _host_and_port(self._proxy or self._target)
        connection = _Connection(host, port, until, self._tls, str(self._target.hostname))
        if self._proxy and self._tls:
            connection.set_tunnel(*_host_and_port(self._target), _credentials(self._proxy))
        return connection

    def _request_target(self) -> str:
        """The path; all of the URL for a proxy that is no tunnel."""
        if self._proxy and not self._tls:
            return self._target.geturl()
        return self._target._replace(scheme="", netloc="").geturl() or "/"

    def _proxy_headers(self) -> dict[str, str]:
        return _credentials(self._proxy) if self._proxy and not self._tls else {}


def _send(connection: http.client.HTTPConnection, target: str, body: bytes, headers: Mapping[str, str]) -> None:
    """Send all of it, or as much as the receiver takes before it answers: a refusal need not wait for the body."""
    try:
        connection.request("POST", target, body, dict(headers))
    except (BrokenPipeError, ConnectionResetError):
        if connection.sock is None:
            raise


class _WholeLines(io.BufferedReader):
    """Lines that end, and not too many: http.client takes a connection that ends among the headers for their end."""

    _left_bytes = MAX_ANSWER_BYTES

    def readline(self, size: int | None = -1, /) -> bytes:
        """A line, or as much of it as was asked for."""
        line = super().readline(size)
        self._left_bytes -= len(line)
        if self._left_bytes < 0:
            raise http.client.LineTooLong("head of an answer")
        if not line.endswith(b"\n") and len(line) != size:
            raise http.client.RemoteDisconnected("in the middle of a line")
        return line


class _Response(http.client.HTTPResponse):
    """A response that is read in whole lines."""

    def __init__(self, sock: socket.socket, *arguments: Any, **more: Any) -> None:
        super().__init__(sock, *arguments, **more)
        self.fp = _WholeLines(self.fp.detach())


class _Connection(http.client.HTTPConnection):
    """A connection that can be broken off at any time: its socket is in its place before the TLS handshake begins.

    until: CLOCK_MONOTONIC seconds.
    """

    response_class = _Response

    def __init__(self, host: str, port: int, until: float, tls: ssl.SSLContext | None, server_name: str) -> None:
        super().__init__(host, port, timeout=max(until - time.monotonic(), 0.001))
        self.default_port = _DEFAULT_PORTS[
            "https" if tls else "http"
        ]  # which is not written behind the name of the host
        self._until = until
        self._tls = tls
        self._server_name = server_name
        self._connected: socket.socket | None = None
        self._create_connection = self._dial

    def _dial(self, address: tuple[str, int], *_ignored: object) -> socket.socket:
        """Each address of a name has the time that those before it have left."""
        failure: OSError = TimeoutError()
        for *_kinds, found in socket.getaddrinfo(*address, type=socket.SOCK_STREAM):
            left_seconds = self._until - time.monotonic()
            if left_seconds <= 0:
                break
            try:
                return socket.create_connection((str(found[0]), int(found[1])), left_seconds)
            except OSError as error:
                failure = error
        raise failure

    def connect(self) -> None:
        """The connection, the tunnel through a proxy, TLS."""
        super().connect()
        if self._tls:
            self.sock = self._tls.wrap_socket(
                self.sock, server_hostname=self._server_name, do_handshake_on_connect=False
            )
        self._connected = self.sock  # http.client forgets it when a response says that it ends the connection
        if time.monotonic() > self._until:  # nobody watches this socket any more
            raise TimeoutError
        if isinstance(self.sock, ssl.SSLSocket):
            self.sock.do_handshake()

    def break_off(self) -> None:
        """End whatever another thread waits for here."""
        sock = self.sock or self._connected
        if sock is not None:
            try:
                # Not the method of an SSLSocket, which takes away what the waiting thread works with.
                socket.socket.shutdown(sock, socket.SHUT_RDWR)
            except OSError:
                return  # it has ended by itself


@contextmanager
def _closed_at(connection: _Connection, until: float) -> Iterator[threading.Event]:
    """Ends whatever waits for the connection when the time is up; the event says that this has happened."""
    is_up = threading.Event()

    def end() -> None:
        is_up.set()
        connection.break_off()

    timer = threading.Timer(max(until - time.monotonic(), 0), end)
    timer.daemon = True
    timer.start()
    try:
        yield is_up
    finally:
        timer.cancel()
        connection.close()


def _answer(response: http.client.HTTPResponse) -> HttpResponse:
    headers = {name.lower(): value for name, value in response.getheaders()}
    body = response.read(MAX_ANSWER_BYTES)
    if response.length and len(body) < MAX_ANSWER_BYTES:
        raise http.client.IncompleteRead(body, response.length)
    return HttpResponse(response.status, headers, body)


def _no_answer(error: Exception) -> NoResponse:
    if isinstance(error, ssl.SSLCertVerificationError):
        return NotTrusted(f"its certificate cannot be trusted: {error.verify_message}")
    if isinstance(error, ssl.SSLError) and not isinstance(error, _TLS_ENDS):
        return NotTrusted(f"TLS failed: {error.reason or error}")
    return NoResponse(_reason(error))


def _reason(error: Exception) -> str:
    if isinstance(error, socket.gaierror):
        return f"its name cannot be resolved: {error.strerror}"
    if isinstance(error, UnicodeError):
        return "its name cannot be resolved: a part of it is empty or too long"
    if isinstance(error, (http.client.RemoteDisconnected, http.client.IncompleteRead, *_TLS_ENDS)):
        return "it closed the connection without a whole answer"
    if isinstance(error, http.client.HTTPException):
        return f"what it answers is not HTTP: {type(error).__name__}"
    return getattr(error, "strerror", None) or str(error)[:_SHOWN_CHARACTERS] or type(error).__name__


def _tls_context(receiver: Target) -> ssl.SSLContext:
    def no_passphrase() -> str:
        raise ValueError("it needs a passphrase")  # and nobody is there to be asked

    try:
        context = ssl.create_default_context(cafile=receiver.ca_file)
    except (OSError, ssl.SSLError) as error:
        raise BadInput(f"OTLP receiver {receiver.name}: {receiver.ca_file} holds no certificates (PEM)") from error
    if receiver.client_certificate_file:
        certificate, key = receiver.client_certificate_file, receiver.client_key_file
        try:
            context.load_cert_chain(certificate, key, no_passphrase)
        except (OSError, ValueError, ssl.SSLError) as error:
            what = "does not match" if "MISMATCH" in str(error) else "cannot be used with"
            raise BadInput(
                f"OTLP receiver {receiver.name}: the client certificate {certificate} {what} the key {key or 'inside it'}",
                remedy="give a certificate and its own key, both PEM, the key without a passphrase",
            ) from error
    return context


def _proxy_of(target: SplitResult) -> SplitResult | None:
    """What HTTP_PROXY, HTTPS_PROXY and NO_PROXY say, in capitals or not."""
    proxies = urllib.request.getproxies_environment()
    url = proxies.get(target.scheme)
    is_bypassed = urllib.request.proxy_bypass("{}:{}".format(*_host_and_port(target)))
    if not url or is_bypassed or _is_in_network(str(target.hostname), proxies.get("no", "")):
        return None
    try:
        proxy = urlsplit(url if "://" in url else f"http://{url}")
        if proxy.scheme == "http" and proxy.hostname and proxy.port != 0:
            return proxy
    except ValueError:
        pass  # what it holds may be a password, so nothing is said of it
    raise BadInput(
        f"{target.scheme.upper()}_PROXY does not name a proxy that can be used", remedy="want http://HOST:PORT"
    )


def _is_in_network(host: str, no_proxy: str) -> bool:
    """Whether a host is an address in a network that NO_PROXY lists, such as 10.0.0.0/8: urllib knows names only."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    for entry in no_proxy.split(","):
        try:
            if "/" in entry and address in ipaddress.ip_network(entry.strip(), strict=False):
                return True
        except ValueError:
            continue
    return False


def _credentials(proxy: SplitResult) -> dict[str, str]:
    if proxy.username is None:
        return {}
    user = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
    return {"Proxy-Authorization": "Basic " + base64.b64encode(user.encode()).decode()}


def _host_and_port(url: SplitResult) -> tuple[str, int]:
    return str(url.hostname), url.port or _DEFAULT_PORTS[url.scheme]
