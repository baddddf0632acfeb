"""JSON over HTTP from a server that may hang, lie or flood: within a time, up to a size, never redirected.

Every wait for the server has what is left of one deadline, so that a byte now and then does not prolong it.
"""

from __future__ import annotations

import http.client
import io
import json
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from exporter import __version__
from exporter.errors import ExporterError

MAX_BODY_BYTES = 16 << 20
MAX_LINE_BYTES = 4 << 20
MAX_HEAD_BYTES = 128 << 10
MAX_PARTS = 1 << 16  # of a body: what a server sends, and we receive, at a time; some have 4 KiB, and most have more
MAX_VALUES = 250_000
_MAX_QUOTES = 8 * MAX_VALUES  # a key and a string for each value, and as many within strings
_BLOCK_BYTES = 1 << 16
_SHOWN_CHARACTERS = 200
_DEFAULT_PORTS = {"http": 80, "https": 443}


class RequestFailed(ExporterError):
    """There was no usable answer. status: of HTTP; 0 where there was none."""

    def __init__(self, message: str, status: int = 0, *, remedy: str = "") -> None:
        super().__init__(message, remedy=remedy)
        self.status = status


class TooLarge(RequestFailed):
    """There was more of an answer than is read, or parsed."""


@dataclass(slots=True)
class _Deadline:
    """at: seconds of the clock. missed: the error when it has passed."""

    at: float
    missed: str
    clock: Callable[[], float]

    def left_seconds(self) -> float:
        """More than none. Raises TimeoutError."""
        left = self.at - self.clock()
        if left <= 0:
            raise TimeoutError
        return left


@dataclass(frozen=True, slots=True)
class Endpoint:
    """url: what the targets are below. ca_file: None for the system's. token_file: read for each request, since it is rotated.

    clock: seconds, by which deadlines are kept.
    """

    url: str
    ca_file: Path | None = None
    token_file: Path | None = None
    is_verified: bool = True
    clock: Callable[[], float] = time.monotonic

    def json(self, target: str, timeout_seconds: float, max_bytes: int = MAX_BODY_BYTES) -> Any:
        """One document, see _parsed(). timeout_seconds: from connecting to its last byte. Raises Unanswered."""
        shown = self._shown(target)
        too_large = f"{shown} is larger than {max_bytes} bytes"
        missed = f"{shown} was not whole within {timeout_seconds:.3g} s"
        deadline = _Deadline(self.clock() + timeout_seconds, missed, self.clock)
        with self._response(target, deadline) as response:
            if response.length and response.length > max_bytes:
                raise TooLarge(too_large)
            body = bytearray()  # and no list of blocks, which may be of a byte each
            for _ in range(MAX_PARTS):
                block = response.read1(_BLOCK_BYTES)
                body += block
                if len(body) > max_bytes:
                    raise TooLarge(too_large)
                if not block:
                    break
            else:
                raise TooLarge(f"{shown} comes in more than {MAX_PARTS} parts")
        return _parsed(body, shown)

    @contextmanager
    def lines(
        self, target: str, head_seconds: float, line_seconds: float, whole_seconds: float
    ) -> Iterator[Iterator[Any]]:
        """A document a line, as long as the server goes on; None whenever bytes have come, be they lines or not.

        head_seconds: from connecting to the end of the response's head. line_seconds: from a line's first byte to its last.
        whole_seconds: for everything; the server should end by itself before. Raises Unanswered.
        """
        shown, began_at = self._shown(target), self.clock()
        missed = f"{shown} was not answered within {head_seconds:.3g} s"
        deadline = _Deadline(began_at + head_seconds, missed, self.clock)
        with self._response(target, deadline) as response:
            missed = f"{shown} did not end within {whole_seconds:.3g} s"
            whole = _Deadline(began_at + whole_seconds, missed, self.clock)
            yield self._lines(response, deadline, whole, line_seconds, shown)

    @staticmethod
    def _lines(
        response: http.client.HTTPResponse, deadline: _Deadline, whole: _Deadline, line_seconds: float, shown: str
    ) -> Iterator[Any]:
        deadline.at, deadline.missed = whole.at, whole.missed
        line = bytearray()
        while block := response.read1(_BLOCK_BYTES):
            *ends, begun = block.split(b"\n")
            for end in ends:
                line += end
                if line and not line.isspace():
                    yield _parsed(line, shown)
                line.clear()
            if begun and not line:
                at = deadline.clock() + line_seconds
                if at < whole.at:
                    deadline.at, deadline.missed = at, f"{shown}: a line was not whole within {line_seconds:.3g} s"
            elif not begun and not line:
                deadline.at, deadline.missed = whole.at, whole.missed
            line += begun
            if len(line) > MAX_LINE_BYTES:
                raise TooLarge(f"{shown}: a line is larger than {MAX_LINE_BYTES} bytes")
            yield None
        if line and not line.isspace():
            yield _parsed(line, shown)

    @contextmanager
    def _response(self, target: str, deadline: _Deadline) -> Iterator[http.client.HTTPResponse]:
        shown = self._shown(target)
        path = urlsplit(self.url).path.rstrip("/")
        try:
            with closing(self._connection(deadline)) as connection:
                connection.request("GET", path + target, headers=self._headers())
                with closing(_Response(connection.sock, deadline)) as response:
                    response.begin()
                    if response.status != http.HTTPStatus.OK:
                        raise RequestFailed(_said(response, shown), response.status)
                    yield response
        except (OSError, http.client.HTTPException, UnicodeError) as error:
            if isinstance(error, TimeoutError) and error.errno is None:  # ours, and not one of TCP
                raise RequestFailed(deadline.missed) from error
            said = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise RequestFailed(f"{shown}: {said[:_SHOWN_CHARACTERS]}") from error

    def _connection(self, deadline: _Deadline) -> http.client.HTTPConnection:
        """Connected, TLS included. A look-up of the name that hangs ends when the system's resolver gives up."""
        parts = urlsplit(self.url)
        host, default_port = parts.hostname or "", _DEFAULT_PORTS[parts.scheme]
        connection = http.client.HTTPConnection(host, parts.port or default_port)
        connection.default_port = default_port  # which is not written behind the name of the host
        sock = _dialled(host, parts.port or default_port, deadline)
        try:
            if parts.scheme == "https":
                context = ssl.create_default_context(cafile=str(self.ca_file) if self.ca_file else None)
                if not self.is_verified:
                    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
                sock.settimeout(deadline.left_seconds())
                sock = context.wrap_socket(sock, server_hostname=host)  # a handshake as a whole has this time
            sock.settimeout(deadline.left_seconds())
        except BaseException:
            sock.close()
            raise
        connection.sock = sock
        return connection

    def _headers(self) -> dict[str, str]:
        headers = {"Accept": "application/json", "User-Agent": f"gpu-stall-exporter/{__version__}"}
        if self.token_file:
            token = self.token_file.read_text(encoding="ascii", errors="replace").strip()
            if not token.isascii() or not token.isprintable() or not token:
                raise RequestFailed(f"{self.token_file} holds no token")
            headers["Authorization"] = f"Bearer {token}"
        return headers

    def _shown(self, target: str) -> str:
        return self.url + target.partition("?")[0]


def _dialled(host: str, port: int, deadline: _Deadline) -> socket.socket:
    """Each address of a name has the time that those before it have left."""
    failure: OSError = OSError(f"{host} has no address")
    for *_kinds, found in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
        try:
            return socket.create_connection((str(found[0]), int(found[1])), deadline.left_seconds())
        except OSError as error:
            failure = error
    raise failure


class _Timed(io.RawIOBase):
    """What a socket receives until a deadline, which may be moved. head_left_bytes: None after the head of the response."""

    def __init__(self, raw: io.RawIOBase, sock: socket.socket, deadline: _Deadline) -> None:
        self._raw = raw
        self._sock = sock
        self._deadline = deadline
        self.head_left_bytes: int | None = MAX_HEAD_BYTES

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: Any, /) -> int | None:
        """How many bytes there were. Raises TimeoutError."""
        self._sock.settimeout(self._deadline.left_seconds())
        size_bytes = self._raw.readinto(buffer)
        if self.head_left_bytes is not None:
            self.head_left_bytes -= size_bytes or 0
            if self.head_left_bytes < 0:
                raise http.client.HTTPException(f"the head of its answer is larger than {MAX_HEAD_BYTES} bytes")
        return size_bytes

    def close(self) -> None:
        """And the file below."""
        self._raw.close()
        super().close()


class _Response(http.client.HTTPResponse):
    """A response that is read until a deadline."""

    def __init__(self, sock: socket.socket, deadline: _Deadline) -> None:
        super().__init__(sock, method="GET")
        self._timed = _Timed(self.fp.detach(), sock, deadline)
        self.fp = io.BufferedReader(self._timed)

    def begin(self) -> None:
        """The head: also what says that another one follows, however often."""
        super().begin()
        self._timed.head_left_bytes = None


def _parsed(body: bytearray, shown: str) -> Any:
    """What it says, as far as names and ids go; it is empty afterwards. Raises Unanswered.

    Backslashes and characters beyond ASCII come out as others: no name or id has any, and one of them would make four bytes of
    each character of its string. So a string takes what it has bytes, and what else there is is counted before it is parsed:
    of 16 MiB, with as many values as may be and the worst that they may be, 69 MiB at the peak (tracemalloc, CPython 3.11).
    """
    text = body.replace(rb"\\", b"??").replace(rb"\u", b"?u").replace(rb"\"", b"??").decode("latin-1")
    body.clear()
    if _has_too_many_values(text):
        raise TooLarge(f"{shown} holds more than {MAX_VALUES} values")
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RequestFailed(f"{shown} is no JSON: {str(error)[:_SHOWN_CHARACTERS]}") from None


def _has_too_many_values(text: str) -> bool:
    """text: without quotes in its strings. Only if it may be so strings are passed over, in which anybody may write commas."""
    if _marks(text, 0, len(text)) <= MAX_VALUES:
        return False
    if text.count('"') > _MAX_QUOTES:
        return True
    found = at = 0
    while found <= MAX_VALUES and at < len(text):
        begins_at = text.find('"', at) % (len(text) + 1)  # of none: the end
        found += _marks(text, at, begins_at)
        at = text.find('"', begins_at + 1) % (len(text) + 1) + 1
    return found > MAX_VALUES


def _marks(text: str, begin: int, end: int) -> int:
    """One at least for each value but the first."""
    return sum(text.count(mark, begin, end) for mark in "{[,")


def _said(response: http.client.HTTPResponse, shown: str) -> str:
    """The status, and the message of a Status of Kubernetes."""
    text = response.read1(_BLOCK_BYTES).decode("utf-8", "replace")
    try:
        content = json.loads(text)
        text = content["message"] if isinstance(content, dict) and isinstance(content.get("message"), str) else ""
    except (ValueError, RecursionError):
        text = ""
    reason = response.reason[:_SHOWN_CHARACTERS]
    return f"{shown}: {response.status} {reason}" + (f": {text[:_SHOWN_CHARACTERS]}" if text else "")
