"""What the table `retransmits` of bpf/network.bpf.c holds, as rows: bytes in, numbers out."""

from __future__ import annotations

from typing import NamedTuple

from exporter.kernel import abi
from exporter.kernel.abi import IpFamily
from exporter.kernel.maps import MapReader


class RetransmitKey(NamedTuple):
    """Whose sockets. cgroup_id: of the unified hierarchy, 0 for a socket without one."""

    cgroup_id: int
    family: IpFamily


class RetransmitRow(NamedTuple):
    """TCP segments that were sent again. handshakes: of them those of connections that were not yet there."""

    segments: int
    handshakes: int


def read_retransmits(table: MapReader) -> dict[RetransmitKey, RetransmitRow]:
    """Every row."""
    found = {}
    for key, value in table.items():
        cgroup_id, family, _ = abi.RETRANSMIT_KEY.unpack(key)
        found[RetransmitKey(cgroup_id, IpFamily(family))] = RetransmitRow(*abi.RETRANSMIT_ROW.unpack(value))
    return found


def forget_retransmits(table: MapReader, key: RetransmitKey) -> None:
    """Its group is gone: the room can be used again."""
    table.delete(abi.RETRANSMIT_KEY.pack(*key, 0))
