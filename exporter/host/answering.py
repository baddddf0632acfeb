"""The side of the child in child_process.py: reads requests from a socket, and writes answers, until the parent is gone.

Whatever is imported here, every child has in its own memory.
"""

from __future__ import annotations

import json
import socket
import struct
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from exporter.files import content

READY: Final = b"r"
LENGTH: Final = struct.Struct("=I")

DESCRIPTORS_MAX: Final = 32
"""In one message."""

Answering = Callable[[Any, Sequence[int]], tuple[Any, Sequence[int]]]
"""A request, and descriptors that came with it -> its answer, and descriptors that go with it. All are closed after that."""


def answer_requests(stream: socket.socket, answer: Answering) -> None:
    """Returns when the parent has closed its side."""
    with stream:
        stream.sendall(READY)
        while True:
            held: list[int] = []
            try:
                (length,) = LENGTH.unpack(received(stream, LENGTH.size, held))
                request = json.loads(received(stream, length, held))
            except EOFError:
                return
            answered, descriptors = answer(request, held)
            send(stream, answered, descriptors)
            for fd in (*held, *descriptors):
                content.close(fd)


def send(stream: socket.socket, document: Any, descriptors: Sequence[int]) -> None:
    """A message: its length, with which the descriptors go, and JSON. Raises OSError."""
    message = json.dumps(document).encode()
    first = LENGTH.pack(len(message))
    if descriptors:
        socket.send_fds(stream, [first], list(descriptors))
        stream.sendall(message)
    else:
        stream.sendall(first + message)


def received(stream: socket.socket, length: int, descriptors: list[int], until: float | None = None) -> bytes:
    """Exactly so many bytes; descriptors that come with them are appended. until: of time.monotonic(); None: as long as it takes.

    Fewer descriptors come if this process may not open more. Raises EOFError if the other side has closed, ValueError, OSError.
    """
    pieces = []
    while length > 0:
        left_seconds = None if until is None else until - time.monotonic()
        if left_seconds is not None and left_seconds <= 0.0:
            raise TimeoutError("timed out")
        stream.settimeout(left_seconds)
        piece, found, _, _ = socket.recv_fds(stream, min(length, 1 << 16), DESCRIPTORS_MAX)
        descriptors += found
        if not piece:
            raise EOFError("the other side has ended")
        if len(descriptors) > DESCRIPTORS_MAX:
            raise ValueError("more descriptors than a message has")
        pieces.append(piece)
        length -= len(piece)
    return b"".join(pieces)
