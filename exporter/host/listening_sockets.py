"""TCP sockets on which a process listens, in whichever network namespace.

In: /proc/TGID/net/tcp and tcp6, which show its namespace, and its descriptors. Out: Listeners.
Source: proc(5); tcp4_seq_show() of the kernel's net/ipv4/tcp_ipv4.c. Listening sockets come before all others.
"""

from __future__ import annotations

import socket
import struct
import sys
from collections.abc import Iterator
from typing import Final, NamedTuple

from exporter.errors import NotPossibleHere, ProcessGone
from exporter.host.processes import Processes
from exporter.host.tcp_sockets import socket_inodes

_TABLE_BYTES_MAX: Final = 1 << 20
"""Some 7,000 listening sockets."""
_LISTEN: Final = "0A"
_LOOPBACK: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - nothing is bound here
_WORDS: Final = struct.Struct(">4I")
_NATIVE_WORDS: Final = struct.Struct("<4I" if sys.byteorder == "little" else ">4I")


class Listener(NamedTuple):
    """address: to connect to from within the network namespace. is_ipv6: the family of its socket."""

    address: str
    port: int
    inode: int
    is_ipv6: bool


def listeners(processes: Processes, tgid: int, port: int) -> list[Listener]:
    """Sockets of the process that listen on this port. None if it has ended or cannot be read."""
    shown_as = processes.readable_id(tgid)
    found = [one for one in _in_namespace(processes, shown_as) if one.port == port]
    if not found:
        return []
    own = socket_inodes(str(processes.proc), shown_as).sockets
    return [one for one in found if one.inode in own]


def _in_namespace(processes: Processes, tgid: int) -> Iterator[Listener]:
    for name, is_ipv6 in (("net/tcp", False), ("net/tcp6", True)):
        try:
            table = processes.read(tgid, name, _TABLE_BYTES_MAX)
        except (ProcessGone, NotPossibleHere):
            continue
        for row in table.decode("ascii", "replace").split("\n")[1:-1]:
            fields = row.split()
            if len(fields) < 10 or fields[3] != _LISTEN:
                break
            address, _, port = fields[1].partition(":")
            yield Listener(_address(address, is_ipv6=is_ipv6), int(port, 16), int(fields[9]), is_ipv6)


def _address(digits: str, *, is_ipv6: bool) -> str:
    """`0100007F` on a little-endian machine -> 127.0.0.1; that to connect to instead of a wildcard."""
    if not is_ipv6:
        shown = socket.inet_ntop(socket.AF_INET, int(digits, 16).to_bytes(4, sys.byteorder))
    else:
        words = _WORDS.unpack(bytes.fromhex(digits))
        shown = socket.inet_ntop(socket.AF_INET6, _NATIVE_WORDS.pack(*words))
    return _LOOPBACK.get(shown, shown)
