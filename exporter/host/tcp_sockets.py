"""TCP sockets with their round-trip times and retransmits, and the user who has one.

In: inode numbers, as shown by the descriptors of a process; or both ends of a connection. Out: the sockets with these. Read from
the kernel's dump (sock_diag(7)) and unpacked by hand: only a few of a node's sockets matter, and pyroute2 takes 55 us for each
where this takes 2.
"""

from __future__ import annotations

import os
import socket
import struct
import sys
from collections.abc import Collection, Iterator
from typing import Final, NamedTuple

from exporter.errors import NotPossibleHere
from exporter.host import netlink

DESCRIPTORS_MAX: Final = 4096
"""Descriptors of one process that are read."""

_BY_FAMILY: Final = 20  # SOCK_DIAG_BY_FAMILY
_REQUEST: Final = struct.Struct("=BBBBI48s")  # family, protocol, extensions, padding, states, socket id
_INFO: Final = 2  # INET_DIAG_INFO
_CONNECTED: Final = 0xFFF & ~(1 << 10 | 1 << 7 | 1 << 6 | 1 << 3)  # but for LISTEN, CLOSE, TIME_WAIT and SYN_RECV
_MESSAGE: Final = struct.Struct("=BBBBHH16s16sIQIIIII")
_PEER_PORT_AT: Final = netlink.HEADER.size + 6
_INODE_AT: Final = netlink.HEADER.size + _MESSAGE.size - 4
_ATTRIBUTE: Final = struct.Struct("=HH")  # length, type
_RTT_AT, _WINDOW_AT, _RETRANSMITS_AT, _SEGMENTS_AT = 68, 80, 100, 136
"""Where struct tcp_info of linux/tcp.h has tcpi_rtt, tcpi_snd_cwnd, tcpi_total_retrans and tcpi_segs_out."""
_INFO_BYTES_MIN: Final = _SEGMENTS_AT + 4
_NUMBER: Final = struct.Struct("=I")
_COOKIE_AT: Final = netlink.HEADER.size + 4 + 40
_USER_AT: Final = _INODE_AT - 4
_ENDS: Final = struct.Struct("!HH16s16s4s8s")  # ports, addresses, interface, cookie
_NO_COOKIE: Final = b"\xff" * 8
_MAPPED: Final = "::ffff:"


class TcpSocket(NamedTuple):
    """A connected socket. cookie: unique on this node for ever. round_trip_ns: smoothed, 0: not measured yet.

    window: congestion window, in segments. segments: sent so far, of which retransmits were sent again.
    """

    inode: int
    cookie: int
    peer_port: int
    round_trip_ns: int
    window: int
    segments: int
    retransmits: int


def tcp_sockets(one: socket.socket, wanted: Collection[int], deadline: float) -> Iterator[TcpSocket]:
    """Sockets with the wanted inodes in the namespace of the netlink socket. Raises what netlink.dump() raises."""
    for family in (socket.AF_INET, socket.AF_INET6):
        request = _REQUEST.pack(family, socket.IPPROTO_TCP, 1 << (_INFO - 1), 0, _CONNECTED, bytes(48))
        for message in netlink.dump(one, _BY_FAMILY, request, deadline):
            if len(message) >= _INODE_AT + 4 and _NUMBER.unpack_from(message, _INODE_AT)[0] in wanted:
                info = _info_of(message)
                if len(info) >= _INFO_BYTES_MIN:
                    yield _socket_of(message, info)


def user_of(client: tuple[str, int], server: tuple[str, int]) -> int | None:
    """The user id of the socket at the client's end of a connection; None if it is not in this network namespace, or unknown.

    client, server: address and port.
    """
    addresses = [host.removeprefix(_MAPPED) if "." in host else host.partition("%")[0] for host, _ in (client, server)]
    family = socket.AF_INET6 if ":" in addresses[0] else socket.AF_INET
    try:
        packed = [socket.inet_pton(family, address).ljust(16, b"\0") for address in addresses]
        ends = _ENDS.pack(client[1], server[1], *packed, bytes(4), _NO_COOKIE)
        with netlink.diag_socket() as one:
            message = netlink.answer(one, _BY_FAMILY, _REQUEST.pack(family, socket.IPPROTO_TCP, 0, 0, _CONNECTED, ends))
    except (OSError, NotPossibleHere):
        return None
    return _NUMBER.unpack_from(message, _USER_AT)[0] if message and len(message) >= _INODE_AT else None


def _info_of(message: bytes) -> bytes:
    at = _INODE_AT + 4
    while at + _ATTRIBUTE.size <= len(message):
        length, kind = _ATTRIBUTE.unpack_from(message, at)
        if kind == _INFO:
            return message[at + _ATTRIBUTE.size : at + length]
        at += max((length + 3) & ~3, _ATTRIBUTE.size)
    return b""


def _socket_of(message: bytes, info: bytes) -> TcpSocket:
    rtt_us, window, retransmits, segments = (
        _NUMBER.unpack_from(info, at)[0] for at in (_RTT_AT, _WINDOW_AT, _RETRANSMITS_AT, _SEGMENTS_AT)
    )
    return TcpSocket(
        inode=_NUMBER.unpack_from(message, _INODE_AT)[0],
        cookie=int.from_bytes(message[_COOKIE_AT : _COOKIE_AT + 8], sys.byteorder),
        peer_port=int.from_bytes(message[_PEER_PORT_AT : _PEER_PORT_AT + 2], "big"),
        round_trip_ns=rtt_us * 1000,
        window=window,
        segments=segments,
        retransmits=retransmits,
    )


class Descriptors(NamedTuple):
    """sockets: inodes. is_whole: whether all descriptors of the process were read."""

    sockets: frozenset[int]
    is_whole: bool


def socket_inodes(proc: str, tgid: int) -> Descriptors:
    """Sockets of any kind that a process has open; none when it has ended or cannot be read."""
    found, entries_read = set(), 0
    try:
        with os.scandir(f"{proc}/{tgid}/fd") as entries:
            for entry in entries:
                entries_read += 1
                if entries_read > DESCRIPTORS_MAX:
                    break
                try:
                    link = os.readlink(entry.path)  # noqa: PTH115 - 100 descriptors a process
                except OSError:
                    continue  # closed in between
                if link.startswith("socket:["):
                    found.add(int(link[8:-1]))
    except OSError:
        return Descriptors(frozenset(), is_whole=True)
    return Descriptors(frozenset(found), is_whole=entries_read <= DESCRIPTORS_MAX)


def network_namespace(proc: str, tgid: int | str) -> int:
    """The inode number of the network namespace of a process; 0 when it cannot be read."""
    try:
        return os.stat(f"{proc}/{tgid}/ns/net").st_ino  # noqa: PTH116 - a string is at hand
    except OSError:
        return 0


def children(proc: str, tgid: int) -> list[int]:
    """Processes that the main thread of a process has started. tgid: or a thread's id, for those of that thread."""
    try:
        with open(f"{proc}/{tgid}/task/{tgid}/children", "rb") as file:  # noqa: PTH123
            return [int(word) for word in file.read(64 * 1024).split()]
    except (OSError, ValueError):
        return []
