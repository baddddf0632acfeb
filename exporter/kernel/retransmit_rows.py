"""TCP segments that were sent again, by control group. Partner in C: bpf/network.bpf.c."""

from __future__ import annotations

from typing import NamedTuple

from exporter.kernel import abi
from exporter.kernel.abi import IpFamily, ShareTable
from exporter.kernel.maps import MapReader
from exporter.kernel.share_rows import Shares

_SUMS = abi.RETRANSMIT_ROW.part("segments", "handshakes")
_SUMS_AT = abi.RETRANSMIT_ROW.offset("segments")


class RetransmitKey(NamedTuple):
    """cgroup_id: of the group that created the socket, in the unified hierarchy; 0: none."""

    cgroup_id: int
    family: IpFamily


class RetransmitRow(NamedTuple):
    """segments: sent again. handshakes: the segments among them that open a connection."""

    segments: int
    handshakes: int


def read_retransmits(table: MapReader) -> dict[RetransmitKey, RetransmitRow]:
    found = {}
    for key, value in table.items():
        cgroup_id, family, _ = abi.RETRANSMIT_KEY.unpack(key)
        found[RetransmitKey(cgroup_id, IpFamily(family))] = RetransmitRow(*_SUMS.unpack_from(value, _SUMS_AT))
    return found


def forget_retransmits(shares: Shares, key: RetransmitKey) -> None:
    shares.delete_of_group(ShareTable.RETRANSMITS, abi.RETRANSMIT_KEY.pack(*key, 0))
