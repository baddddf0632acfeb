"""The side of the child in child_process.py: reads requests from a socket, and writes answers, until the parent is gone.

Whatever is imported here, every child has in its own memory.
"""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Callable, Sequence
from typing import Any, Final

from exporter.files import content

READY: Final = b"r"
LENGTH: Final = struct.Struct("=I")

Answering = Callable[[Any], tuple[Any, Sequence[int]]]
"""A request -> its answer, and descriptors that are sent with it and then closed."""


def answer_requests(stream: socket.socket, answer: Answering) -> None:
    """Returns when the parent has closed its side."""
    with stream, stream.makefile("rb") as requests:
        stream.sendall(READY)
        while head := requests.read(LENGTH.size):
            answered, descriptors = answer(json.loads(requests.read(LENGTH.unpack(head)[0])))
            message = json.dumps(answered).encode()
            first = LENGTH.pack(len(message))
            if descriptors:
                socket.send_fds(stream, [first], list(descriptors))
                for fd in descriptors:
                    content.close(fd)
            else:
                stream.sendall(first)
            stream.sendall(message)
