"""Which TCP has to send again and for whom, how far away are the peers of traced processes, and what do interfaces drop?

In: the table that bpf/network.bpf.c fills; the sockets of traced processes and the interfaces of this network namespace, as
readers give them. Out: totals of containers, of ranks and of the machine. What a reader cannot have here is absent.

Cost of a scrape with 8 ranks and 64 workers, each with a socket: 4.7 ms and 1.3 MiB. That is 3 us for each socket of a traced
process, 2 us for any other one, 6 us for each descriptor looked at, 0.15 ms for each interface. pyroute2 takes 1.4 MiB of memory,
and 30 ms when it is imported.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from exporter import catalog
from exporter.errors import NotPossibleHere
from exporter.kernel.abi import IpFamily
from exporter.kernel.maps import MapReader
from exporter.kernel.retransmit_rows import RetransmitKey, RetransmitRow, forget_retransmits, read_retransmits
from exporter.model import Identity
from exporter.series.host_totals import MAX_CONTAINERS, OTHER, HostTotals, TotalsByIdentity, TracedProcess
from exporter.totals import Series, Total
from exporter.units import NANOSECONDS

log = logging.getLogger(__name__)

LEAST_NS: Final = NANOSECONDS
"""From one collection to the next; whoever asks earlier is told the same again."""
MAX_INTERFACES: Final = 16
"""Names of interfaces that are ever told apart; all others are `other`."""
MAX_RANKS: Final = 256
_LASTING_KINDS: Final = frozenset({"", "bond", "team", "vlan", "ipoib"})
"""Kinds of interfaces whose names do not come and go with containers, as those of veth do."""
_POD_INTERFACE: Final = "eth0"
"""What a container calls the one that it has, of whatever kind it is."""

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


class Socket(Protocol):
    """A connected TCP socket: exporter.host.tcp_sockets.TcpSocket."""

    @property
    def cookie(self) -> int:
        """No other socket has it."""
        ...

    @property
    def peer_port(self) -> int:
        """Of the other end."""
        ...

    @property
    def round_trip_ns(self) -> int:
        """Smoothed; 0: not measured yet."""
        ...

    @property
    def window(self) -> int:
        """Of congestion, in segments."""
        ...

    @property
    def segments(self) -> int:
        """Sent so far."""
        ...

    @property
    def retransmits(self) -> int:
        """Of them those sent again."""
        ...


class SocketsRead(NamedTuple):
    """of: by process number. is_whole: what is not told is closed. unread: reason -> how often in all a process was left out."""

    of: Mapping[int, Sequence[Socket]]
    is_whole: bool
    unread: Mapping[str, int]


class Link(Protocol):
    """A network interface: exporter.host.interfaces.Link."""

    @property
    def number(self) -> int:
        """Of the interface."""
        ...

    @property
    def name(self) -> str:
        """Of the interface."""
        ...

    @property
    def kind(self) -> str:
        """Empty for a device."""
        ...

    @property
    def received_dropped(self) -> int:
        """Packets."""
        ...

    @property
    def sent_dropped(self) -> int:
        """Packets."""
        ...

    @property
    def received_errors(self) -> int:
        """Packets."""
        ...

    @property
    def sent_errors(self) -> int:
        """Packets."""
        ...


class Queue(Protocol):
    """A queueing discipline at the root of an interface: exporter.host.interfaces.Queue."""

    @property
    def number(self) -> int:
        """Of the interface."""
        ...

    @property
    def handle(self) -> int:
        """Another one has another."""
        ...

    @property
    def kind(self) -> str:
        """`fq_codel`."""
        ...

    @property
    def is_received(self) -> bool:
        """Whether it is for what comes in."""
        ...

    @property
    def dropped(self) -> int:
        """Packets."""
        ...


class Groups(Protocol):
    """What control groups of the unified hierarchy are called: exporter.hostmetrics.cgroup_labels.Places."""

    @property
    def machine(self) -> Identity:
        """What belongs to no container."""
        ...

    def of_number(self, number: int, /) -> Identity:
        """The container of a group."""
        ...

    def is_gone(self, number: int, /) -> bool:
        """Whether there is no such group any more."""
        ...


ReadSockets = Callable[[Sequence[TracedProcess]], SocketsRead]
ReadInterfaces = Callable[[], tuple[Sequence[Link], Sequence[Queue]]]


class Network:
    """A HostCollector. retransmits: None where the program is not loaded. ttl_ns: how long totals outlive what they are of."""

    def __init__(
        self,
        groups: Groups,
        ttl_ns: int,
        retransmits: MapReader | None,
        sockets: ReadSockets,
        interfaces: ReadInterfaces,
    ) -> None:
        self._groups = groups
        self._table = retransmits
        self._read_sockets = sockets
        self._read_interfaces = interfaces
        self._of_groups = HostTotals(ttl_ns, MAX_CONTAINERS)
        self._of_ranks = HostTotals(ttl_ns, MAX_RANKS)
        self._of_machine = HostTotals(ttl_ns)
        self._gone: dict[RetransmitKey, RetransmitRow] = {}
        self._open: set[int] = set()
        self._names: set[str] = set()
        self._absent: set[str] = set()
        self._totals: TotalsByIdentity = {}
        self._collected_ns = -LEAST_NS

    @property
    def resets(self) -> int:
        """Counts that went back so far."""
        return self._of_groups.resets + self._of_ranks.resets + self._of_machine.resets

    def collect(self, now_ns: int, traced: Sequence[TracedProcess]) -> TotalsByIdentity:
        """Everything it knows, cumulative. now_ns: CLOCK_MONOTONIC."""
        if now_ns - self._collected_ns < LEAST_NS:
            return self._totals
        self._collected_ns = now_ns
        books = (self._of_groups, self._of_ranks, self._of_machine)
        for one in books:
            one.begin(now_ns)
        if self._table is not None:
            self._count_retransmits(self._table)
        self._where_possible("sockets", lambda: self._count_sockets(self._read_sockets(traced), traced))
        self._where_possible("interfaces", lambda: self._count_interfaces(*self._read_interfaces()))
        self._totals = _together(one.totals() for one in books)
        return self._totals

    def _where_possible(self, what: str, count: Callable[[], None]) -> None:
        try:
            count()
        except NotPossibleHere as error:
            if what not in self._absent:
                log.debug("network: %s are not told: %s", what, error.one_line())
            self._absent.add(what)

    def _count_retransmits(self, table: MapReader) -> None:
        """A row whose group is gone is deleted once it has stood still."""
        rows = read_retransmits(table)
        gone: dict[RetransmitKey, RetransmitRow] = {}
        for key, row in rows.items():
            place = self._groups.of_number(key.cgroup_id)
            family = _FAMILY[key.family]
            handshakes = Series(catalog.network.RETRANSMITS, (family, "handshake"))
            data = Series(catalog.network.RETRANSMITS, (family, "data"))
            self._of_groups.count(key, place, handshakes, row.handshakes)
            # The two sums are written one after the other, so that a handshake may be in one of them alone.
            self._of_groups.count(key, place, data, max(row.segments - row.handshakes, 0))
            if key.cgroup_id and self._groups.is_gone(key.cgroup_id):
                if self._gone.get(key) == row:
                    forget_retransmits(table, key)
                    self._of_groups.forget(key, (handshakes, data))
                else:
                    gone[key] = row
        self._gone = gone

    def _count_sockets(self, read: SocketsRead, traced: Sequence[TracedProcess]) -> None:
        seen: set[int] = set()
        identities = {one.process: one.identity for one in traced}
        by_peer: dict[tuple[Identity, str], list[Socket]] = {}
        for process, sockets in read.of.items():
            for one in sockets:
                if one.cookie not in seen:  # a process and one forked from it may share it
                    seen.add(one.cookie)
                    by_peer.setdefault((identities[process], peer_class(one.peer_port)), []).append(one)
        for (identity, peer), sockets in by_peer.items():
            self._count_peer(identity, peer, sockets)
        if read.is_whole:
            for cookie in self._open - seen:
                self._of_ranks.forget(cookie, _series_of_sockets())
            self._open = seen
        else:
            self._open |= seen
        for reason, times in read.unread.items():
            series = Series(catalog.network.UNREAD, (reason,))
            self._of_machine.count(("unread", reason), self._groups.machine, series, times)

    def _count_peer(self, identity: Identity, peer: str, sockets: Sequence[Socket]) -> None:
        books, labels = self._of_ranks, (peer,)
        for one in sockets:
            books.count(one.cookie, identity, Series(catalog.network.SOCKET_SEGMENTS, labels), one.segments)
            books.count(one.cookie, identity, Series(catalog.network.SOCKET_RETRANSMITS, labels), one.retransmits)
        books.level(identity, Series(catalog.network.SOCKETS, labels), len(sockets))
        measured = [one for one in sockets if one.round_trip_ns]
        if measured:
            longest_ns = max(one.round_trip_ns for one in measured)
            books.level(identity, Series(catalog.network.SOCKET_ROUND_TRIP, labels), longest_ns)
            smallest = min(one.window for one in measured)
            books.level(identity, Series(catalog.network.SOCKET_WINDOW, labels), smallest)

    def _count_interfaces(self, links: Sequence[Link], queues: Sequence[Queue]) -> None:
        books, machine = self._of_machine, self._groups.machine
        labels = {link.number: self._interface_label(link) for link in sorted(links, key=_first_devices)}
        for link in links:
            for direction, dropped, errors in (
                (_RECEIVED, link.received_dropped, link.received_errors),
                (_SENT, link.sent_dropped, link.sent_errors),
            ):
                series = labels[link.number], direction
                source = "link", link.number, direction
                books.count(source, machine, Series(catalog.network.INTERFACE_DROPS, series), dropped)
                books.count(source, machine, Series(catalog.network.INTERFACE_ERRORS, series), errors)
        for queue in queues:
            direction = _RECEIVED if queue.is_received else _SENT
            series = labels.get(queue.number, OTHER), direction
            source_of_queue = "queue", queue.number, queue.handle, queue.kind, direction
            books.count(source_of_queue, machine, Series(catalog.network.QUEUE_DROPS, series), queue.dropped)

    def _interface_label(self, link: Link) -> str:
        if link.name in self._names:
            return link.name
        is_lasting = link.kind in _LASTING_KINDS or link.name == _POD_INTERFACE
        if not is_lasting or len(self._names) >= MAX_INTERFACES:
            return OTHER
        self._names.add(link.name)
        return link.name


def peer_class(port: int) -> str:
    """One of PEERS."""
    return _PEERS.get(port, EPHEMERAL if port >= EPHEMERAL_FROM else OTHER)


def _first_devices(link: Link) -> tuple[bool, int]:
    return bool(link.kind), link.number


def _series_of_sockets() -> Iterable[Series]:
    metrics = (catalog.network.SOCKET_SEGMENTS, catalog.network.SOCKET_RETRANSMITS)
    return (Series(metric, (peer,)) for metric in metrics for peer in PEERS)


def _together(parts: Iterable[TotalsByIdentity]) -> TotalsByIdentity:
    found: dict[Identity, dict[Series, Total]] = {}
    for part in parts:
        for place, of_place in part.items():
            found.setdefault(place, {}).update(of_place)
    return found
