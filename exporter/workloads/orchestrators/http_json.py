"""JSON documents from the API of an orchestrator, whose answers are bounded in time, bytes and values."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from exporter.errors import ExporterError
from exporter.http_client.client import HttpClient, ResponseReader
from exporter.http_client.deadline import Deadline
from exporter.http_client.errors import HttpFailure, ResponseTooLarge
from exporter.http_client.tls import client_context

MAX_BODY_BYTES = 16 << 20
MAX_LINE_BYTES = 4 << 20
MAX_VALUES = 250_000
_MAX_QUOTES = 8 * MAX_VALUES  # a key and a string for each value, and as many within strings
_MAX_CHARACTERS = 200


class RequestFailed(ExporterError):
    """There is no usable answer. status: of HTTP; 0 where there is none."""

    def __init__(self, message: str, status: int = 0, *, remedy: str = "") -> None:
        super().__init__(message, remedy=remedy)
        self.status = status


class AnswerTooLarge(RequestFailed):
    """The answer exceeds a limit of bytes, parts or values."""


class Endpoint:
    """The base URL of an API. ca_file: None: the authorities of the system.

    ca_file and token_file are read for each request: Kubernetes rotates both. Requests are sent by one thread.
    """

    def __init__(
        self,
        url: str,
        ca_file: Path | None = None,
        token_file: Path | None = None,
        *,
        is_verified: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.url = url
        self._path = urlsplit(url).path.rstrip("/")
        self._token_file = token_file
        self._clock = clock
        self._client = HttpClient(urlsplit(url), tls=partial(client_context, ca_file, is_verified=is_verified))

    def json(self, target: str, timeout_seconds: float, max_bytes: int = MAX_BODY_BYTES) -> Any:
        """One document, see _parsed(). timeout_seconds: from connecting to its last byte. Raises RequestFailed."""
        with self._response(target, Deadline.after(timeout_seconds, clock=self._clock)) as response:
            return _parsed(response.read(max_bytes), self._shown(target))

    @contextmanager
    def lines(
        self, target: str, head_seconds: float, line_seconds: float, whole_seconds: float
    ) -> Iterator[Iterator[Any]]:
        """A document for each line until the server ends the response; None whenever bytes have arrived.

        head_seconds: from connecting to the end of the response's head. line_seconds: from a line's first byte to its last.
        whole_seconds: for everything; the server should end the response before. Raises RequestFailed.
        """
        whole = Deadline.after(whole_seconds, f"the response did not end within {whole_seconds:.3g} s", self._clock)
        deadline = Deadline.after(head_seconds, f"no response within {head_seconds:.3g} s", self._clock)
        with self._response(target, deadline) as response:
            yield _lines(response, deadline, whole, line_seconds, self._shown(target))

    def cancel(self) -> None:
        """Make the request in flight, and every later one, fail. From any thread."""
        self._client.cancel()

    @contextmanager
    def _response(self, target: str, deadline: Deadline) -> Iterator[ResponseReader]:
        """A response of status 200. Failures while it is read are translated too, and name the URL without its query."""
        shown = self._shown(target)
        try:
            with self._client.request("GET", self._path + target, self._headers(), deadline) as response:
                if response.status != HTTPStatus.OK:
                    raise RequestFailed(f"{shown}: {_status_text(response)}", response.status)
                yield response
        except ResponseTooLarge as error:
            raise AnswerTooLarge(f"{shown}: {error}") from error
        except HttpFailure as error:
            raise RequestFailed(f"{shown}: {error}") from error

    def _headers(self) -> dict[str, str]:
        headers = {"Accept": "application/json"}
        if self._token_file:
            headers["Authorization"] = f"Bearer {_token(self._token_file)}"
        return headers

    def _shown(self, target: str) -> str:
        return self.url + target.partition("?")[0]


def _token(file: Path) -> str:
    try:
        token = file.read_text(encoding="ascii", errors="replace").strip()
    except OSError as error:
        raise RequestFailed(f"cannot read the token in {file}: {error.strerror}") from error
    if not token.isascii() or not token.isprintable() or not token:
        raise RequestFailed(f"{file} holds no token")
    return token


def _lines(
    response: ResponseReader, deadline: Deadline, whole: Deadline, line_seconds: float, shown: str
) -> Iterator[Any]:
    """Moves the deadline of the response: to that of a line while one is incomplete, else to that of the whole."""
    deadline.at, deadline.missed = whole.at, whole.missed
    line = bytearray()
    while part := response.read_some():
        *ends, begun = part.split(b"\n")
        for end in ends:
            line += end
            if line and not line.isspace():
                yield _parsed(line, shown)
            line.clear()
        if begun and not line:
            at = deadline.clock() + line_seconds
            if at < whole.at:
                deadline.at, deadline.missed = at, f"a line was not complete within {line_seconds:.3g} s"
        elif not begun and not line:
            deadline.at, deadline.missed = whole.at, whole.missed
        line += begun
        if len(line) > MAX_LINE_BYTES:
            raise AnswerTooLarge(f"{shown}: a line is larger than {MAX_LINE_BYTES} bytes")
        yield None
    if line and not line.isspace():
        yield _parsed(line, shown)


def _parsed(body: bytearray, shown: str) -> Any:
    """The document, whose strings are exact as far as names and ids go. Empties `body`. Raises RequestFailed.

    Bounds memory: backslashes and characters beyond ASCII, which no name or id has, come out as others, since one of them makes
    four bytes of each character of its string; and values are counted before the parser makes objects of them. 16 MiB with as
    many values as allowed take 69 MiB at the peak, whatever the values are (tracemalloc, CPython 3.11).
    """
    text = body.replace(rb"\\", b"??").replace(rb"\u", b"?u").replace(rb"\"", b"??").decode("latin-1")
    body.clear()
    if _has_too_many_values(text):
        raise AnswerTooLarge(f"{shown} holds more than {MAX_VALUES} values")
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RequestFailed(f"{shown} is not JSON: {str(error)[:_MAX_CHARACTERS]}") from None


def _has_too_many_values(text: str) -> bool:
    """text: without quotes in its strings. Strings are skipped only when all separators together are too many.

    A string may hold any number of commas: anyone who may start a pod may write one.
    """
    if _separators(text, 0, len(text)) <= MAX_VALUES:
        return False
    if text.count('"') > _MAX_QUOTES:
        return True
    found = at = 0
    while found <= MAX_VALUES and at < len(text):
        begins_at = text.find('"', at) % (len(text) + 1)  # -1, for not found, becomes the end
        found += _separators(text, at, begins_at)
        at = text.find('"', begins_at + 1) % (len(text) + 1) + 1
    return found > MAX_VALUES


def _separators(text: str, begin: int, end: int) -> int:
    """At least one for each value but the first."""
    return sum(text.count(mark, begin, end) for mark in "{[,")


def _status_text(response: ResponseReader) -> str:
    """The status, and the message of a Kubernetes Status object if the body is one."""
    message = ""
    with suppress(HttpFailure, ValueError, RecursionError):
        content = json.loads(response.read_some().decode("utf-8", "replace"))
        if isinstance(content, dict) and isinstance(content.get("message"), str):
            message = f": {content['message'][:_MAX_CHARACTERS]}"
    return f"{response.status} {response.reason[:_MAX_CHARACTERS]}{message}"
