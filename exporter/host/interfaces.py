"""Drops and errors of the network interfaces of this namespace, and drops of their queues.

In: the kernel's dumps of links and queueing disciplines, unpacked by pyroute2. Out: counts by interface. Absent where pyroute2 is
not installed.

Only three modules of pyroute2 are imported, at first use: 1.4 MiB and 15 ms. Its own __init__ imports all of it, 9.4 MiB and 57
ms in this program; so an empty package takes its place.
"""

from __future__ import annotations

import importlib.util
import socket
import sys
import types
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from exporter.errors import NotPossibleHere
from exporter.host import netlink

_LINKS, _QUEUES = 18, 38  # RTM_GETLINK, RTM_GETQDISC
_ROOT, _INGRESS = 0xFFFFFFFF, 0xFFFFFFF1  # TC_H_ROOT, TC_H_CLSACT


class InterfaceCounts(NamedTuple):
    """An interface. kind: such as `veth` or `bond`; "" for hardware and the loopback. Packets since it was created."""

    number: int
    name: str
    kind: str
    received_dropped: int
    sent_dropped: int
    received_errors: int
    sent_errors: int


class QueueCounts(NamedTuple):
    """A queueing discipline at the root of an interface; its count includes those below it.

    number: of the interface. handle: unique on an interface at a time. is_received: for incoming packets.
    """

    number: int
    handle: int
    kind: str
    is_received: bool
    dropped: int


def interfaces(one: socket.socket, deadline: float) -> Iterator[InterfaceCounts]:
    """All interfaces in the namespace of the netlink socket.

    Raises what netlink.dump() raises, and NotPossibleHere without pyroute2.
    """
    _prepare()
    from pyroute2.netlink.rtnl.ifinfmsg import ifinfmsg  # noqa: PLC0415 - see above

    body = bytes(16)  # struct ifinfomsg: every interface
    for message in netlink.dump(one, _LINKS, body, deadline):
        link = _decoded(ifinfmsg, message)
        counts = link.get_attr("IFLA_STATS64") or link.get_attr("IFLA_STATS") or {}
        info = link.get_attr("IFLA_LINKINFO")
        yield InterfaceCounts(
            number=link["index"],
            name=str(link.get_attr("IFLA_IFNAME") or ""),
            kind=str((info.get_attr("IFLA_INFO_KIND") if info else "") or ""),
            received_dropped=counts.get("rx_dropped", 0) + counts.get("rx_missed_errors", 0),
            sent_dropped=counts.get("tx_dropped", 0),
            received_errors=counts.get("rx_errors", 0),
            sent_errors=counts.get("tx_errors", 0),
        )


def queues(one: socket.socket, deadline: float) -> Iterator[QueueCounts]:
    """Queues at the root of each interface, outgoing and incoming. Raises what interfaces() raises."""
    _prepare()
    from pyroute2.netlink.rtnl.tcmsg import tcmsg  # noqa: PLC0415 - see above

    body = bytes(20)  # struct tcmsg: of every interface
    for message in netlink.dump(one, _QUEUES, body, deadline):
        queue = _decoded(tcmsg, message)
        if queue["parent"] not in (_ROOT, _INGRESS):
            continue
        stats = queue.get_attr("TCA_STATS2")
        counts = (stats.get_attr("TCA_STATS_QUEUE") if stats else None) or {}
        yield QueueCounts(
            number=queue["index"],
            handle=queue["handle"],
            kind=str(queue.get_attr("TCA_KIND") or ""),
            is_received=queue["parent"] == _INGRESS,
            dropped=counts.get("drops", 0),
        )


def _decoded(kind: Any, message: bytes) -> Any:
    one = kind(message)
    one.decode()
    return one


_NAME: Final = "pyroute2"


def _prepare() -> None:
    """Make single modules of pyroute2 importable without the others. Raises NotPossibleHere."""
    if _NAME in sys.modules:
        return
    found = importlib.util.find_spec(_NAME)
    if found is None or not found.submodule_search_locations:
        raise NotPossibleHere("pyroute2 is not installed: no drops of interfaces")
    package = types.ModuleType(_NAME)
    package.__path__ = list(found.submodule_search_locations)
    sys.modules[_NAME] = package
