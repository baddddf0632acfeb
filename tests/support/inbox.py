"""A receiver of pushes that can be broken and repaired, with the calls of one program that it has accepted.

with inbox() as found, running(f"--otlp.endpoint={found.url}") as exporter:
    with found.broken(hang()):
        ...
    eventually(lambda: calls_of(found.newest(rank), "cudaMalloc") == [23], "it is pushed")
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from tests.conformance import series
from tests.support import receiver
from tests.support.otlp import Received, read_json, read_protobuf
from tests.support.receiver import Entry, Request, answer
from tests.support.traced import eventually


class Inbox:
    """The accepted metrics; chains go to other paths. url: of the endpoint.

    Only requests that name a rank are read: the exporter sees every program of this machine, and reading is strict and slow.
    """

    def __init__(self) -> None:
        self.url = ""
        self.taken: list[Request] = []
        self._entry: Entry | None = None
        self._read: dict[int, list[Received]] = {}

    def respond(self, connection: Any, request: Request) -> None:
        """Accept and record a request, or do as broken() says."""
        entry = self._entry or answer()
        if self._entry is None and request.path == "/v1/metrics":
            self.taken.append(request)
        assert entry.say is not None
        entry.say(connection, request)

    @contextmanager
    def broken(self, entry: Entry) -> Iterator[None]:
        """In the block every request is met so, and none is taken."""
        self._entry = entry
        try:
            yield
        finally:
            self._entry = None

    def await_another(self) -> None:
        """Wait until one more is taken."""
        already = len(self.taken)
        eventually(lambda: len(self.taken) > already, "another push is taken")

    def newest(self, rank: str) -> list[Received]:
        """The last point of each series of a rank. A push may be cut in two."""
        return series.latest(point for number in self._naming(rank)[-2:] for point in self._points(number, rank))

    def every(self, rank: str) -> list[Received]:
        """All points of a rank."""
        return [point for number in self._naming(rank) for point in self._points(number, rank)]

    def _naming(self, rank: str) -> list[int]:
        return [number for number, request in enumerate(self.taken) if rank.encode() in request.content]

    def _points(self, number: int, rank: str) -> list[Received]:
        if number not in self._read:
            request = self.taken[number]
            self._read[number] = (read_protobuf if request.is_protobuf else read_json)(request.content)
        return [point for point in self._read[number] if point.attributes.get("rank") == rank]


@contextmanager
def inbox() -> Iterator[Inbox]:
    """A running Inbox that accepts everything."""
    made = Inbox()
    with receiver.receiver([Entry(made.respond)]) as found:
        made.url = found.url
        yield made


def calls_of(points: Iterable[Received], operation: str) -> list[Any]:
    """The value of each point that counts calls of an operation."""
    wanted = ("gpustall.cuda.operations", operation)
    return [point.value for point in points if (point.name, point.attributes.get("operation")) == wanted]
