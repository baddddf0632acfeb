"""Request heads that two programs could read differently are refused, so that a proxy cannot be made to pass on a second request.

In: the head as it was received. h11 accepts folded lines, lines that end with a bare line feed, and two ways to give the length
of a body. Source: RFC 9112, sections 2.2, 5.2 and 6.3.
"""

from __future__ import annotations

import re

from exporter.errors import ExporterError

_BARE_LINE_FEED = re.compile(rb"(?<!\r)\n")
_FOLDED = re.compile(rb"\n[ \t]")
_LENGTH, _CODING = b"content-length", b"transfer-encoding"
_DIGITS = re.compile(rb"[0-9]{1,18}")


class BadRequest(ExporterError):
    """A request that is malformed or too large. status: of the response."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


def refuse_ambiguous(head: bytes) -> None:
    """head: the request line and the headers, as received. Raises BadRequest."""
    if _FOLDED.search(head):
        raise BadRequest("a header is folded", 400)
    if _BARE_LINE_FEED.search(head) or b"\r" in head.replace(b"\r\n", b""):
        raise BadRequest("a line does not end with CR LF", 400)
    request_line, *lines = head.rstrip(b"\r\n").split(b"\r\n")
    headers = [(name.lower(), value.strip(b" \t")) for name, _, value in (line.partition(b":") for line in lines)]
    lengths = [value for name, value in headers if name == _LENGTH]
    codings = [value for name, value in headers if name == _CODING]
    if len(lengths) + len(codings) > 1:
        raise BadRequest("the length of the body is given more than once", 400)
    if any(not _DIGITS.fullmatch(length) for length in lengths):
        raise BadRequest("the length of the body is not a number", 400)
    if codings and not request_line.endswith(b"HTTP/1.1"):
        raise BadRequest("a transfer coding needs HTTP/1.1", 400)
