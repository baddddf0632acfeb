"""JSON over HTTP from a server that may hang, lie or flood: within a time, up to a size, never redirected."""

from __future__ import annotations

import http.client
import json
import ssl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from exporter import __version__
from exporter.errors import ExporterError

MAX_BODY_BYTES = 32 << 20
MAX_LINE_BYTES = 4 << 20
_BLOCK_BYTES = 1 << 16
_SHOWN_CHARACTERS = 200


class Unanswered(ExporterError):
    """There was no usable answer. status: of HTTP; 0 where there was none."""

    def __init__(self, message: str, status: int = 0, *, remedy: str = "") -> None:
        super().__init__(message, remedy=remedy)
        self.status = status


@dataclass(frozen=True, slots=True)
class Endpoint:
    """url: what the targets are below. ca_file: None for the system's. token_file: read for each request, since it is rotated."""

    url: str
    ca_file: Path | None = None
    token_file: Path | None = None
    is_verified: bool = True

    def json(self, target: str, timeout_seconds: float) -> Any:
        """One document. Raises Unanswered."""
        until = time.monotonic() + timeout_seconds
        with self._response(target, timeout_seconds) as response:
            blocks, size_bytes = [], 0
            while block := response.read1(_BLOCK_BYTES):
                size_bytes += len(block)
                blocks.append(block)
                if size_bytes > MAX_BODY_BYTES:
                    raise Unanswered(f"{self._shown(target)} is larger than {MAX_BODY_BYTES} bytes")
                if time.monotonic() > until:
                    raise Unanswered(f"{self._shown(target)} was not whole within {timeout_seconds:.3g} s")
            return _parsed(b"".join(blocks), self._shown(target))

    @contextmanager
    def lines(self, target: str, silence_seconds: float) -> Iterator[Iterator[Any]]:
        """A document a line, as long as the server goes on. silence_seconds: without a byte, until it is given up."""
        with self._response(target, silence_seconds) as response:
            yield self._lines(response, self._shown(target))

    @staticmethod
    def _lines(response: http.client.HTTPResponse, shown: str) -> Iterator[Any]:
        while line := response.readline(MAX_LINE_BYTES + 1):
            if len(line) > MAX_LINE_BYTES:
                raise Unanswered(f"{shown}: a line is larger than {MAX_LINE_BYTES} bytes")
            if line.strip():
                yield _parsed(line, shown)

    @contextmanager
    def _response(self, target: str, timeout_seconds: float) -> Iterator[http.client.HTTPResponse]:
        shown = self._shown(target)
        path = urlsplit(self.url).path.rstrip("/")
        try:
            connection = self._connection(timeout_seconds)
            try:
                connection.request("GET", path + target, headers=self._headers())
                response = connection.getresponse()
                if response.status != http.HTTPStatus.OK:
                    raise Unanswered(_said(response, shown), response.status)
                yield response
            finally:
                connection.close()
        except (OSError, http.client.HTTPException) as error:
            raise Unanswered(
                f"{shown}: {getattr(error, 'strerror', None) or str(error) or type(error).__name__}"
            ) from error

    def _connection(self, timeout_seconds: float) -> http.client.HTTPConnection:
        parts = urlsplit(self.url)
        host = parts.hostname or ""
        if parts.scheme == "http":
            return http.client.HTTPConnection(host, parts.port, timeout=timeout_seconds)
        context = ssl.create_default_context(cafile=str(self.ca_file) if self.ca_file else None)
        if not self.is_verified:
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        return http.client.HTTPSConnection(host, parts.port, timeout=timeout_seconds, context=context)

    def _headers(self) -> dict[str, str]:
        headers = {"Accept": "application/json", "User-Agent": f"gpu-stall-exporter/{__version__}"}
        if self.token_file:
            token = self.token_file.read_text(encoding="ascii", errors="replace").strip()
            if not token.isascii() or not token.isprintable() or not token:
                raise Unanswered(f"{self.token_file} holds no token")
            headers["Authorization"] = f"Bearer {token}"
        return headers

    def _shown(self, target: str) -> str:
        return self.url + target.partition("?")[0]


def _parsed(text: bytes, shown: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Unanswered(f"{shown} is no JSON: {str(error)[:_SHOWN_CHARACTERS]}") from None


def _said(response: http.client.HTTPResponse, shown: str) -> str:
    """The status, and the message of a Status of Kubernetes."""
    text = response.read1(_BLOCK_BYTES).decode("utf-8", "replace")
    try:
        content = json.loads(text)
        text = content["message"] if isinstance(content, dict) and isinstance(content.get("message"), str) else ""
    except (ValueError, RecursionError):
        text = ""
    return f"{shown}: {response.status} {response.reason}" + (f": {text[:_SHOWN_CHARACTERS]}" if text else "")
