"""What does the kernel tell in answer to a netlink request? Dumps, read within bounds of time.

In: the type and body of a request. Out: the messages that answer. Source: netlink(7). None of it needs a capability.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
import time
from collections.abc import Iterator
from typing import Final

from exporter.errors import NotPossibleHere

HEADER: Final = struct.Struct("=IHHII")  # length, type, flags, sequence number, port
RECEIVE_BYTES: Final = 256 * 1024
_ROUTE, _SOCK_DIAG = 0, 4
_ERROR, _DONE = 2, 3
_DUMP: Final = 0x301  # NLM_F_REQUEST | NLM_F_ROOT | NLM_F_MATCH


class TooLate(Exception):
    """A dump has not ended by its deadline; what was told until then is as good as the rest would be."""


def route_socket() -> socket.socket:
    """For dumps about interfaces and queues, of the network namespace that this thread is in."""
    return _opened(_ROUTE)


def diag_socket() -> socket.socket:
    """For dumps about sockets, likewise."""
    return _opened(_SOCK_DIAG)


def dump(one: socket.socket, kind: int, body: bytes, deadline: float) -> Iterator[bytes]:
    """Each message that answers, header included. deadline: by time.monotonic().

    Raises TooLate, and NotPossibleHere where this kernel has no such thing or forbids it.
    """
    try:
        one.send(HEADER.pack(HEADER.size + len(body), kind, _DUMP, 1, 0) + body)
        while True:
            left = deadline - time.monotonic()
            if left <= 0:
                raise TooLate
            one.settimeout(left)
            received = one.recv(RECEIVE_BYTES)
            at = 0
            while at + HEADER.size <= len(received):
                length, answer, *_ = HEADER.unpack_from(received, at)
                if answer == _DONE:
                    return
                if answer == _ERROR:
                    code = -struct.unpack_from("=i", received, at + HEADER.size)[0]
                    raise OSError(code, os.strerror(code))
                if length < HEADER.size:
                    raise OSError(errno.EBADMSG, os.strerror(errno.EBADMSG))
                yield received[at : at + length]
                at += (length + 3) & ~3
    except TimeoutError:
        raise TooLate from None
    except OSError as error:
        raise NotPossibleHere(f"the kernel does not answer a netlink request: {error.strerror}") from error


def _opened(protocol: int) -> socket.socket:
    try:
        one = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, protocol)
    except OSError as error:
        raise NotPossibleHere(f"there are no netlink sockets: {error.strerror}") from error
    return one
