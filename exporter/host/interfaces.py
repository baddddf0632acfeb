"""What do the network interfaces of this namespace drop, and their queues?

In: the kernel's dumps of links and queueing disciplines, unpacked by pyroute2. Out: counts by interface. Absent where pyroute2 is
not installed.

Of pyroute2 three modules are imported, and only when they are first asked for: 1.4 MiB and 15 ms. Its own __init__ imports all of
it, which is 9.4 MiB and 57 ms in this program; so a package without contents stands in its place.
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


class Link(NamedTuple):
    """An interface. kind: `veth`, `bond`; "" for a device, and for the loopback. Counts since it was made."""

    number: int
    name: str
    kind: str
    received_dropped: int
    sent_dropped: int
    received_errors: int
    sent_errors: int


class Queue(NamedTuple):
    """A queueing discipline at the root of an interface, whose count has that of those below it.

    handle: of an interface one has it at a time. is_received: for what comes in.
    """

    number: int
    handle: int
    kind: str
    is_received: bool
    dropped: int


def links(one: socket.socket, deadline: float) -> Iterator[Link]:
    """All of the namespace that the netlink socket is of. Raises what netlink.dump() does; without pyroute2 NotPossibleHere."""
    _prepare()
    from pyroute2.netlink.rtnl.ifinfmsg import ifinfmsg  # noqa: PLC0415 - see above

    body = bytes(16)  # struct ifinfomsg: every interface
    for message in netlink.dump(one, _LINKS, body, deadline):
        link = _decoded(ifinfmsg, message)
        counts = link.get_attr("IFLA_STATS64") or link.get_attr("IFLA_STATS") or {}
        about = link.get_attr("IFLA_LINKINFO")
        yield Link(
            number=link["index"],
            name=str(link.get_attr("IFLA_IFNAME") or ""),
            kind=str((about.get_attr("IFLA_INFO_KIND") if about else "") or ""),
            received_dropped=counts.get("rx_dropped", 0) + counts.get("rx_missed_errors", 0),
            sent_dropped=counts.get("tx_dropped", 0),
            received_errors=counts.get("rx_errors", 0),
            sent_errors=counts.get("tx_errors", 0),
        )


def queues(one: socket.socket, deadline: float) -> Iterator[Queue]:
    """Those at the root, in the direction out and in; likewise."""
    _prepare()
    from pyroute2.netlink.rtnl.tcmsg import tcmsg  # noqa: PLC0415 - see above

    body = bytes(20)  # struct tcmsg: of every interface
    for message in netlink.dump(one, _QUEUES, body, deadline):
        queue = _decoded(tcmsg, message)
        if queue["parent"] not in (_ROOT, _INGRESS):
            continue
        told = queue.get_attr("TCA_STATS2")
        counts = (told.get_attr("TCA_STATS_QUEUE") if told else None) or {}
        yield Queue(
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
    """Let modules of pyroute2 be imported without all others. Raises NotPossibleHere."""
    if _NAME in sys.modules:
        return
    found = importlib.util.find_spec(_NAME)
    if found is None or not found.submodule_search_locations:
        raise NotPossibleHere("pyroute2 is not installed: drops of interfaces are not told")
    package = types.ModuleType(_NAME)
    package.__path__ = list(found.submodule_search_locations)
    sys.modules[_NAME] = package
