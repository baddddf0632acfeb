"""Reads netlink dumps within a deadline, and single answers.

In: the type and body of a request. Out: the messages of the answer. Source: netlink(7). It needs no capability.
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
_REQUEST: Final = 0x1  # NLM_F_REQUEST
_ANSWER_SECONDS: Final = 0.1


class DumpTimedOut(Exception):
    """A dump was not complete at its deadline. The messages before are good."""


def route_socket() -> socket.socket:
    """For dumps of interfaces and queues in the network namespace of the calling thread."""
    return _opened(_ROUTE)


def diag_socket() -> socket.socket:
    """For dumps of sockets in the network namespace of the calling thread."""
    return _opened(_SOCK_DIAG)


def dump(one: socket.socket, kind: int, body: bytes, deadline: float) -> Iterator[bytes]:
    """Each message of the answer, with its header. deadline: of time.monotonic().

    Raises DumpTimedOut, and NotPossibleHere when this kernel has no such dump or forbids it.
    """
    try:
        one.send(HEADER.pack(HEADER.size + len(body), kind, _DUMP, 1, 0) + body)
        while True:
            left = deadline - time.monotonic()
            if left <= 0:
                raise DumpTimedOut
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
        raise DumpTimedOut from None
    except OSError as error:
        raise NotPossibleHere(f"netlink request failed: {error.strerror}", remedy=_remedy(error)) from error


def answer(one: socket.socket, kind: int, body: bytes) -> bytes | None:
    """The only message of the answer, with its header; None if the kernel has no such thing, or says nothing."""
    try:
        one.settimeout(_ANSWER_SECONDS)
        one.send(HEADER.pack(HEADER.size + len(body), kind, _REQUEST, 1, 0) + body)
        received = one.recv(RECEIVE_BYTES)
    except OSError:
        return None
    return received if len(received) >= HEADER.size and HEADER.unpack_from(received)[1] != _ERROR else None


def _opened(protocol: int) -> socket.socket:
    try:
        one = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, protocol)
    except OSError as error:
        raise NotPossibleHere(f"cannot open a netlink socket: {error.strerror}", remedy=_remedy(error)) from error
    return one


def _remedy(error: OSError) -> str:
    """No capability is needed, so something else forbids it."""
    if not isinstance(error, PermissionError):
        return ""
    return "a seccomp filter or a security module forbids it: see `dmesg`, `ausearch -m AVC`"
