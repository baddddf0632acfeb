"""http_client.stream: the addresses of a name."""

from __future__ import annotations

import socket
import threading
from typing import Any

import pytest

from exporter.http_client.deadline import Deadline
from exporter.http_client.errors import DeadlineExceeded
from exporter.http_client.stream import Stream, resolve
from tests.support.patience import PATIENCE_SECONDS
from tests.support.receiver import receiver
from tests.support.threads import no_more_threads

FOUND = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("192.0.2.1", 80))]


class TestResolve:
    """Look-ups of a host name."""

    def test_address_needs_no_look_up(self) -> None:
        asked: list[dict[str, Any]] = []

        def getaddrinfo(*_where: object, **settings: Any) -> list[tuple[Any, ...]]:
            asked.append(settings)
            return list(FOUND)

        assert resolve("192.0.2.1", 80, Deadline.after(PATIENCE_SECONDS), getaddrinfo) == FOUND
        assert [settings["flags"] for settings in asked] == [socket.AI_NUMERICHOST]

    def test_resolver_that_hangs_is_left_at_the_deadline(self) -> None:
        is_over = threading.Event()

        def getaddrinfo(*_where: object, flags: int = 0, **_settings: object) -> list[tuple[Any, ...]]:
            if not flags:
                is_over.wait(PATIENCE_SECONDS)
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

        with pytest.raises(DeadlineExceeded, match=r"within 0\.05 s"):
            resolve("gpu7", 80, Deadline.after(0.05), getaddrinfo)
        is_over.set()

    def test_without_a_thread_there_is_no_look_up(self) -> None:
        def getaddrinfo(*_where: object, **_settings: object) -> list[tuple[Any, ...]]:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

        with no_more_threads(), pytest.raises(OSError, match="no more threads can be started"):
            resolve("gpu7", 80, Deadline.after(PATIENCE_SECONDS), getaddrinfo)


class TestConnect:
    """Names with several addresses."""

    def test_second_address_is_tried_when_the_first_fails(self) -> None:
        """The server listens on 127.0.0.1 only."""
        with receiver() as found:
            port = int(found.url.rpartition(":")[2])
            stream = Stream(
                Deadline.after(PATIENCE_SECONDS),
                lambda *_: [
                    (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.2", port)),
                    (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port)),
                ],
            )
            stream.connect("two", port)
            stream.send(b"GET / HTTP/1.1\r\nHost: two\r\n\r\n")
            received = stream.receive()
            stream.close()

        assert received.startswith(b"HTTP/1.1 200")
