"""host.answering: messages with descriptors, in both directions."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from exporter.host.answering import DESCRIPTORS_MAX, LENGTH, READY, answer_requests, received, send


def answer(request: Any, descriptors: Sequence[int]) -> tuple[Any, Sequence[int]]:
    """What is in the descriptors, and a pipe with the request in it."""
    contents = [os.read(fd, 100).decode() for fd in descriptors]
    reader, writer = os.pipe()
    os.write(writer, request.encode())
    return contents, (reader, writer)


@contextmanager
def answering() -> Iterator[socket.socket]:
    """The side of the parent; the child is a thread, which ends when this side is closed."""
    own, other = socket.socketpair()
    thread = threading.Thread(target=answer_requests, args=(other, answer))
    thread.start()
    try:
        with own:
            yield own
    finally:
        thread.join()


def message(stream: socket.socket) -> tuple[bytes, list[int]]:
    descriptors: list[int] = []
    (length,) = LENGTH.unpack(received(stream, LENGTH.size, descriptors))
    return received(stream, length, descriptors), descriptors


def descriptors_open() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


class TestAnswerRequests:
    def test_descriptors_go_with_requests_and_answers(self) -> None:
        """They are read on the other side, where none stays open."""
        before = descriptors_open()
        with answering() as stream:
            assert received(stream, len(READY), []) == READY
            for text in ("a", "b"):
                reader, writer = os.pipe()
                os.write(writer, b"library")
                send(stream, text, (reader,))
                answered, (own_reader, own_writer) = message(stream)
                assert (answered, os.read(own_reader, 100)) == (b'["library"]', text.encode())
                for fd in (reader, writer, own_reader, own_writer):
                    os.close(fd)

        assert descriptors_open() == before


class TestReceived:
    def test_other_side_that_has_closed_is_an_end(self) -> None:
        """In the middle of a message."""
        own, other = socket.socketpair()
        with own:
            other.sendall(b"ab")
            other.close()
            with pytest.raises(EOFError, match="the other side has ended"):
                received(own, 3, [])

    def test_bytes_that_trickle_in_end_with_the_patience(self) -> None:
        """Though one is always there."""
        own, other = socket.socketpair()
        with own, other:
            other.sendall(bytes(100))
            with pytest.raises(TimeoutError):
                received(own, 1000, [], until=time.monotonic())

    def test_more_descriptors_than_a_message_has_are_refused(self) -> None:
        """A child that is hostile would fill the table of this process."""
        own, other = socket.socketpair()
        held: list[int] = []
        with own, other:
            for _ in range(2):
                socket.send_fds(other, [b"x"], [other.fileno()] * DESCRIPTORS_MAX)
            with pytest.raises(ValueError, match="more descriptors"):
                received(own, 2, held)
        for fd in held:
            os.close(fd)

    def test_message_that_takes_too_long_is_not_waited_for(self) -> None:
        own, other = socket.socketpair()
        with own, other:
            other.sendall(b"ab")
            with pytest.raises(TimeoutError):
                received(own, 3, [], until=0.0)
