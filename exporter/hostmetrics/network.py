"""TCP retransmits by container, round-trip times of the sockets of traced processes, and drops of network interfaces.

In: the table that bpf/network.bpf.c fills; sockets of traced processes and interfaces of this network namespace. Out: totals of
containers, of ranks and of the node. What cannot be read here is absent.

Cost of a scrape with 8 ranks and 64 workers, each with a socket: 4.7 ms and 1.3 MiB. That is 3 us for each socket of a traced
process, 2 us for any other one, 6 us for each descriptor looked at, 0.15 ms for each interface. pyroute2 takes 1.4 MiB of memory,
and 30 ms when it is imported.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from exporter import catalog
from exporter.errors import NotPossibleHere
from exporter.host.interfaces import InterfaceCounts, QueueCounts
from exporter.host.tcp_sockets import TcpSocket
from exporter.hostmetrics.cgroup_labels import CgroupLabels
from exporter.kernel.abi import IpFamily
from exporter.kernel.maps import MapReader
from exporter.kernel.retransmit_rows import RetransmitKey, RetransmitRow, forget_retransmits, read_retransmits
from exporter.kernel.share_rows import Shares
from exporter.model import Identity
from exporter.series.accumulation import OTHER
from exporter.series.host_totals import MAX_CONTAINERS, HostTotals, TotalsByIdentity, TracedProcess
from exporter.totals import Series, Total
from exporter.units import NANOSECONDS

log = logging.getLogger(__name__)

LEAST_NS: Final = NANOSECONDS
"""Least time between two collections; an earlier scrape gets the same totals again."""
MAX_INTERFACES: Final = 16
"""Names of interfaces that ever get a series of their own; all others are `other`."""
MAX_RANKS: Final = 256
_LASTING_KINDS: Final = frozenset({"", "bond", "team", "vlan", "ipoib"})
"""Kinds of interfaces whose names do not come and go with containers, as those of veth do."""
_POD_INTERFACE: Final = "eth0"
"""The interface of a container, of whatever kind it is."""

_PEERS: Final = {
    2049: "nfs",
    445: "smb",
    9000: "object",
    7480: "object",
    443: "https",
    8443: "https",
    80: "http",
    8080: "http",
    22: "ssh",
    53: "dns",
    29400: "rendezvous",
    29500: "rendezvous",
}
EPHEMERAL_FROM: Final = 32_768
EPHEMERAL: Final = "ephemeral"
PEERS: Final = (*dict.fromkeys(_PEERS.values()), EPHEMERAL, OTHER)
"""Values of the label `peer`."""
_FAMILY: Final = {IpFamily.IPV4: "ipv4", IpFamily.IPV6: "ipv6"}
_RECEIVED, _SENT = "received", "sent"


class SocketsRead(NamedTuple):
    """by_process: process number -> its sockets. is_whole: a socket that is missing is closed.

    unread: reason -> how often so far a process was skipped.
    """

    by_process: Mapping[int, Sequence[TcpSocket]]
    is_whole: bool
    unread: Mapping[str, int]


ReadSockets = Callable[[Sequence[TracedProcess]], SocketsRead]
ReadInterfaces = Callable[[], tuple[Sequence[InterfaceCounts], Sequence[QueueCounts]]]


class Network:
    """A HostCollector. retransmits: None where the program is not loaded. shares: of this map."""

    def __init__(
        self,
        labels: CgroupLabels,
        ttl_ns: int,
        retransmits: MapReader | None,
        read_sockets: ReadSockets,
        read_interfaces: ReadInterfaces,
        *,
        shares: Shares,
    ) -> None:
        self._labels = labels
        self._table = retransmits
        self._shares = shares
        self._read_sockets = read_sockets
        self._read_interfaces = read_interfaces
        self._of_containers = HostTotals(ttl_ns, MAX_CONTAINERS)
        self._of_ranks = HostTotals(ttl_ns, MAX_RANKS)
        self._of_node = HostTotals(ttl_ns)
        self._gone: dict[RetransmitKey, RetransmitRow] = {}
        self._open: set[int] = set()
        self._interface_names: set[str] = set()
        self._absent: set[str] = set()
        self._totals: TotalsByIdentity = {}
        self._collected_ns = -LEAST_NS

    @property
    def resets(self) -> int:
        return self._of_containers.resets + self._of_ranks.resets + self._of_node.resets

    def collect(self, now_ns: int, traced: Sequence[TracedProcess]) -> TotalsByIdentity:
        if now_ns - self._collected_ns < LEAST_NS:
            return self._totals
        self._collected_ns = now_ns
        parts = (self._of_containers, self._of_ranks, self._of_node)
        for one in parts:
            one.begin(now_ns)
        if self._table is not None:
            self._add_retransmits(self._table)
        self._if_possible("sockets", lambda: self._add_sockets(self._read_sockets(traced), traced))
        self._if_possible("interfaces", lambda: self._add_interfaces(*self._read_interfaces()))
        self._totals = _merged(one.totals() for one in parts)
        return self._totals

    def _if_possible(self, subject: str, read: Callable[[], None]) -> None:
        try:
            read()
        except NotPossibleHere as error:
            if subject not in self._absent:
                level = logging.WARNING if isinstance(error.__cause__, PermissionError) else logging.DEBUG
                log.log(level, "cannot read %s, metrics missing: %s", subject, error.one_line())
            self._absent.add(subject)
        else:
            self._absent.discard(subject)

    def _add_retransmits(self, table: MapReader) -> None:
        """A row whose cgroup is gone is deleted once it has stopped growing."""
        rows = read_retransmits(table)
        gone: dict[RetransmitKey, RetransmitRow] = {}
        for key, row in rows.items():
            identity = self._labels.identity_of(key.cgroup_id)
            family = _FAMILY[key.family]
            handshakes = Series(catalog.network.RETRANSMITS, (family, "handshake"))
            data = Series(catalog.network.RETRANSMITS, (family, "data"))
            self._of_containers.add_counter(key, identity, handshakes, row.handshakes)
            # The kernel writes the two sums separately, so that a handshake may be in one of them only.
            self._of_containers.add_counter(key, identity, data, max(row.segments - row.handshakes, 0))
            if key.cgroup_id and self._labels.is_gone(key.cgroup_id):
                if self._gone.get(key) == row:
                    forget_retransmits(self._shares, key)
                    self._of_containers.end_source(key, (handshakes, data))
                else:
                    gone[key] = row
        self._gone = gone

    def _add_sockets(self, read: SocketsRead, traced: Sequence[TracedProcess]) -> None:
        seen: set[int] = set()
        identities = {one.process: one.identity for one in traced}
        by_peer: dict[tuple[Identity, str], list[TcpSocket]] = {}
        for process, sockets in read.by_process.items():
            for one in sockets:
                if one.cookie not in seen:  # a process and its fork may share a socket
                    seen.add(one.cookie)
                    by_peer.setdefault((identities[process], peer_class(one.peer_port)), []).append(one)
        for (identity, peer), sockets in by_peer.items():
            self._add_peer(identity, peer, sockets)
        if read.is_whole:
            for cookie in self._open - seen:
                self._of_ranks.end_source(cookie, _series_of_sockets())
            self._open = seen
        else:
            self._open |= seen
        for reason, times in read.unread.items():
            series = Series(catalog.network.UNREAD, (reason,))
            self._of_node.add_counter(("unread", reason), self._labels.node, series, times)

    def _add_peer(self, identity: Identity, peer: str, sockets: Sequence[TcpSocket]) -> None:
        totals, labels = self._of_ranks, (peer,)
        for one in sockets:
            totals.add_counter(one.cookie, identity, Series(catalog.network.SOCKET_SEGMENTS, labels), one.segments)
            totals.add_counter(
                one.cookie, identity, Series(catalog.network.SOCKET_RETRANSMITS, labels), one.retransmits
            )
        totals.add_gauge(identity, Series(catalog.network.SOCKETS, labels), len(sockets))
        measured = [one for one in sockets if one.round_trip_ns]
        if measured:
            longest_ns = max(one.round_trip_ns for one in measured)
            totals.add_gauge(identity, Series(catalog.network.SOCKET_ROUND_TRIP, labels), longest_ns)
            smallest = min(one.window for one in measured)
            totals.add_gauge(identity, Series(catalog.network.SOCKET_WINDOW, labels), smallest)

    def _add_interfaces(self, interfaces: Sequence[InterfaceCounts], queues: Sequence[QueueCounts]) -> None:
        add, node = self._of_node.add_counter, self._labels.node
        labels = {one.number: self._interface_label(one) for one in sorted(interfaces, key=_hardware_first)}
        for one in interfaces:
            for direction, dropped, errors in (
                (_RECEIVED, one.received_dropped, one.received_errors),
                (_SENT, one.sent_dropped, one.sent_errors),
            ):
                series = labels[one.number], direction
                source = "interface", one.number, direction
                add(source, node, Series(catalog.network.INTERFACE_DROPS, series), dropped)
                add(source, node, Series(catalog.network.INTERFACE_ERRORS, series), errors)
        for queue in queues:
            direction = _RECEIVED if queue.is_received else _SENT
            series = labels.get(queue.number, OTHER), direction
            source_of_queue = "queue", queue.number, queue.handle, queue.kind, direction
            add(source_of_queue, node, Series(catalog.network.QUEUE_DROPS, series), queue.dropped)

    def _interface_label(self, interface: InterfaceCounts) -> str:
        if interface.name in self._interface_names:
            return interface.name
        is_lasting = interface.kind in _LASTING_KINDS or interface.name == _POD_INTERFACE
        if not is_lasting or len(self._interface_names) >= MAX_INTERFACES:
            return OTHER
        self._interface_names.add(interface.name)
        return interface.name


def peer_class(port: int) -> str:
    """One of PEERS."""
    return _PEERS.get(port, EPHEMERAL if port >= EPHEMERAL_FROM else OTHER)


def _hardware_first(interface: InterfaceCounts) -> tuple[bool, int]:
    return bool(interface.kind), interface.number


def _series_of_sockets() -> Iterable[Series]:
    metrics = (catalog.network.SOCKET_SEGMENTS, catalog.network.SOCKET_RETRANSMITS)
    return (Series(metric, (peer,)) for metric in metrics for peer in PEERS)


def _merged(parts: Iterable[TotalsByIdentity]) -> TotalsByIdentity:
    found: dict[Identity, dict[Series, Total]] = {}
    for part in parts:
        for identity, totals in part.items():
            found.setdefault(identity, {}).update(totals)
    return found
