"""A request and a response, as the pages see them: no socket, no bytes of a protocol."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

Headers = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Request:
    """path: without the query. headers: names in small letters; of two with one name, the values joined by a comma."""

    method: str
    path: str
    headers: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Response:
    """body: in blocks worth a system call each; never all of it in one, which may be tens of megabytes."""

    status: int
    headers: Headers
    body: tuple[bytes, ...]

    @property
    def size_bytes(self) -> int:
        """Of the body."""
        return sum(map(len, self.body))


def plain(status: int, message: str, *headers: tuple[str, str]) -> Response:
    """One line of text."""
    return Response(status, (("Content-Type", "text/plain; charset=utf-8"), *headers), (message.encode(),))
