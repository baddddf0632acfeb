"""netlink: dumps over a pair of sockets, with the kernel's answers written by hand."""

from __future__ import annotations

import errno
import socket
import struct
import time
from collections.abc import Iterator

import pytest

from exporter.errors import NotPossibleHere
from exporter.host import netlink

MESSAGE_TYPE, ERROR, DONE = 16, 2, 3


def message(kind: int, body: bytes = b"") -> bytes:
    """A message, padded to four bytes."""
    raw = netlink.HEADER.pack(netlink.HEADER.size + len(body), kind, 0, 1, 0) + body
    return raw + bytes(-len(raw) % 4)


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    """The exporter's socket, and the one in the kernel's place."""
    ours, kernels = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with ours, kernels:
        yield ours, kernels


def dumped(ours: socket.socket, seconds: float = 30.0) -> list[bytes]:
    return list(netlink.dump(ours, MESSAGE_TYPE, b"body", time.monotonic() + seconds))


class TestDump:
    def test_messages_up_to_done_are_returned(self, ends: tuple[socket.socket, socket.socket]) -> None:
        """From several datagrams, one of which holds two messages."""
        ours, kernels = ends
        first, second, third = (message(MESSAGE_TYPE, body) for body in (b"a", b"bcdef", b"g"))
        kernels.send(first + second)
        kernels.send(third)
        kernels.send(message(DONE))

        assert [one[netlink.HEADER.size :] for one in dumped(ours)] == [b"a", b"bcdef", b"g"]

    def test_request_has_type_dump_flags_and_body(self, ends: tuple[socket.socket, socket.socket]) -> None:
        ours, kernels = ends
        kernels.send(message(DONE))
        dumped(ours)

        assert kernels.recv(100) == struct.pack("=IHHII", 20, MESSAGE_TYPE, 0x301, 1, 0) + b"body"

    def test_error_raises_not_possible_here(self, ends: tuple[socket.socket, socket.socket]) -> None:
        ours, kernels = ends
        kernels.send(message(ERROR, struct.pack("=i", -errno.EPERM)))

        with pytest.raises(NotPossibleHere, match="Operation not permitted"):
            dumped(ours)

    def test_malformed_length_raises_not_possible_here(self, ends: tuple[socket.socket, socket.socket]) -> None:
        """It would be an endless loop."""
        ours, kernels = ends
        kernels.send(netlink.HEADER.pack(0, MESSAGE_TYPE, 0, 1, 0))

        with pytest.raises(NotPossibleHere):
            dumped(ours)

    def test_passed_deadline_raises(self, ends: tuple[socket.socket, socket.socket]) -> None:
        with pytest.raises(netlink.DumpTimedOut):
            dumped(ends[0], seconds=-1.0)

    def test_missing_answer_raises_at_the_deadline(self, ends: tuple[socket.socket, socket.socket]) -> None:
        with pytest.raises(netlink.DumpTimedOut):
            dumped(ends[0], seconds=0.01)
