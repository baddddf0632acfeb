"""A request and a response without their protocol."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

Headers = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Request:
    """path: without the query. headers: by lower-case name; repeated ones are joined by a comma."""

    method: str
    path: str
    headers: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Response:
    """body: in blocks for a system call each; all of it may be tens of megabytes."""

    status: int
    headers: Headers
    body: tuple[bytes, ...]

    @property
    def size_bytes(self) -> int:
        """The size of the body."""
        return sum(map(len, self.body))


def plain(status: int, message: str, *headers: tuple[str, str]) -> Response:
    """A response of one line of text."""
    return Response(status, (("Content-Type", "text/plain; charset=utf-8"), *headers), (message.encode(),))
