"""network: rows, sockets and interfaces to totals of containers, ranks and the node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pytest

from exporter import catalog
from exporter.catalog import Metric
from exporter.errors import NotPossibleHere
from exporter.host.interfaces import InterfaceCounts, QueueCounts
from exporter.host.tcp_sockets import TcpSocket
from exporter.hostmetrics import network as collector
from exporter.hostmetrics.network import LEAST_NS, MAX_INTERFACES, Network, SocketsRead, peer_class
from exporter.kernel import abi
from exporter.kernel.abi import IpFamily
from exporter.kernel.share_rows import Shares
from exporter.model import Identity
from exporter.series.host_totals import TracedProcess
from exporter.totals import Total
from exporter.units import NANOSECONDS
from tests.support.tables import FakeMap

NODE = Identity("gpu7")
CONTAINER = Identity("gpu7", container="0123456789ab")
RANK = Identity("gpu7", rank="0", container="0123456789ab")
RANK_1 = Identity("gpu7", rank="1", container="0123456789ab")
TTL_NS = 900 * NANOSECONDS
TRACED = (TracedProcess(1, 4026, RANK), TracedProcess(2, 4027, RANK_1))


@dataclass
class Labels:
    """Cgroup 7 is a container's; all others are the node's."""

    node: Identity = NODE
    gone: set[int] = field(default_factory=set)

    def identity_of(self, number: int, /) -> Identity:
        return CONTAINER if number == 7 else NODE

    def is_gone(self, number: int, /) -> bool:
        return number in self.gone


@dataclass
class Node:
    """What there is to read, and the collector that reads it."""

    table: FakeMap = field(default_factory=FakeMap)
    labels: Labels = field(default_factory=Labels)
    sockets: dict[int, list[TcpSocket]] = field(default_factory=dict)
    is_whole: bool = True
    unread: Mapping[str, int] = field(default_factory=dict)
    links: list[InterfaceCounts] = field(default_factory=list)
    queues: list[QueueCounts] = field(default_factory=list)
    absent: bool = False
    now_ns: int = 0

    def __post_init__(self) -> None:
        self.shares = Shares({"retransmits": self.table})
        self.network = Network(self.labels, TTL_NS, self.table, self._sockets, self._interfaces, shares=self.shares)

    def _sockets(self, _traced: Sequence[TracedProcess]) -> SocketsRead:
        if self.absent:
            raise NotPossibleHere("there is no such thing here")
        return SocketsRead(self.sockets, self.is_whole, self.unread)

    def _interfaces(self) -> tuple[Sequence[InterfaceCounts], Sequence[QueueCounts]]:
        if self.absent:
            raise NotPossibleHere("there is no such thing here")
        return self.links, self.queues

    def retransmitted(
        self, segments: int, handshakes: int = 0, group: int = 7, family: IpFamily = IpFamily.IPV4
    ) -> None:
        """Set the row of a cgroup."""
        key = abi.RETRANSMIT_KEY.pack(group, family, 0)
        self.table.rows[key] = abi.RETRANSMIT_ROW.pack(0, 0, segments, handshakes)

    def collected(self, metric: Metric, place: Identity) -> dict[tuple[str, ...], Total]:
        """Labels -> total, of one metric and identity; a second later than the last time."""
        self.now_ns += LEAST_NS
        found = self.network.collect(self.now_ns, TRACED).get(place, {})
        return {series.labels: total for series, total in found.items() if series.metric is metric}


def a_socket(
    cookie: int = 1, *, port: int = 443, rtt_ns: int = 2_000_000, window: int = 10, sent: tuple[int, int] = (100, 2)
) -> TcpSocket:
    """sent: segments, and how many of them were retransmits."""
    return TcpSocket(1000 + cookie, cookie, port, rtt_ns, window, *sent)


@pytest.fixture
def node() -> Node:
    """Without sockets and interfaces."""
    return Node()


class TestRetransmits:
    """By container, of all sockets."""

    def test_retransmits_count_for_the_container_of_the_socket(self, node: Node) -> None:
        """By family, with handshakes separate."""
        node.retransmitted(23, 3)
        node.retransmitted(5, family=IpFamily.IPV6)
        node.retransmitted(9, group=1)

        assert node.collected(catalog.network.RETRANSMITS, CONTAINER) == {
            ("ipv4", "data"): 20,
            ("ipv4", "handshake"): 3,
            ("ipv6", "data"): 5,
            ("ipv6", "handshake"): 0,
        }
        assert node.collected(catalog.network.RETRANSMITS, NODE)["ipv4", "data"] == 9

    def test_row_of_a_removed_cgroup_is_deleted_when_it_stops_growing(self, node: Node) -> None:
        """Its totals stay."""
        node.retransmitted(23)
        node.labels.gone.add(7)
        node.collected(catalog.network.RETRANSMITS, CONTAINER)
        node.retransmitted(24)
        node.collected(catalog.network.RETRANSMITS, CONTAINER)

        assert len(node.table.rows) == 1
        assert node.collected(catalog.network.RETRANSMITS, CONTAINER)["ipv4", "data"] == 24
        assert node.table.rows == {}
        assert node.collected(catalog.network.RETRANSMITS, CONTAINER)["ipv4", "data"] == 24

    def test_sockets_that_outlive_their_cgroup_keep_counting(self, node: Node) -> None:
        """The row comes again and counts from 0, which is no reset."""
        node.retransmitted(23)
        node.labels.gone.add(7)
        for _ in range(3):
            node.collected(catalog.network.RETRANSMITS, CONTAINER)
        node.retransmitted(2)

        assert node.collected(catalog.network.RETRANSMITS, CONTAINER)["ipv4", "data"] == 25
        assert node.network.resets == 0

    def test_nothing_is_read_twice_within_a_second(self, node: Node) -> None:
        """The totals are the same again."""
        node.retransmitted(23)
        first = node.network.collect(LEAST_NS, TRACED)
        node.retransmitted(24)

        assert node.network.collect(2 * LEAST_NS - 1, TRACED) is first


class TestSockets:
    """Sockets of traced processes, by class of peer."""

    @pytest.mark.parametrize(
        ("port", "peer"),
        [
            (2049, "nfs"),
            (445, "smb"),
            (9000, "object"),
            (443, "https"),
            (80, "http"),
            (22, "ssh"),
            (53, "dns"),
            (29500, "rendezvous"),
            (32768, "ephemeral"),
            (65535, "ephemeral"),
            (32767, "other"),
            (0, "other"),
        ],
    )
    def test_peer_class_is_by_port(self, port: int, peer: str) -> None:
        assert peer_class(port) == peer
        assert peer in collector.PEERS

    def test_segments_of_sockets_that_come_and_go_add_up(self, node: Node) -> None:
        """100 of the first, 7 of the second after the first has been closed, and 3 more."""
        node.sockets = {1: [a_socket(1, sent=(100, 2))]}
        node.collected(catalog.network.SOCKETS, RANK)
        node.sockets = {1: [a_socket(2, sent=(7, 1))]}
        node.collected(catalog.network.SOCKETS, RANK)
        node.sockets = {1: [a_socket(2, sent=(10, 1))]}

        assert node.collected(catalog.network.SOCKET_SEGMENTS, RANK) == {("https",): 110}
        assert node.collected(catalog.network.SOCKET_RETRANSMITS, RANK) == {("https",): 3}

    def test_counters_stay_when_the_last_socket_is_closed(self, node: Node) -> None:
        """Gauges do not."""
        node.sockets = {1: [a_socket()]}
        node.collected(catalog.network.SOCKETS, RANK)
        node.sockets = {}

        assert node.collected(catalog.network.SOCKET_SEGMENTS, RANK) == {("https",): 100}
        assert node.collected(catalog.network.SOCKETS, RANK) == {}

    def test_socket_missing_in_an_incomplete_dump_is_not_counted_twice(self, node: Node) -> None:
        """It may still be open."""
        node.sockets = {1: [a_socket(sent=(100, 0))]}
        node.collected(catalog.network.SOCKETS, RANK)
        node.sockets, node.is_whole = {}, False
        node.collected(catalog.network.SOCKETS, RANK)
        node.sockets, node.is_whole = {1: [a_socket(sent=(110, 0))]}, True

        assert node.collected(catalog.network.SOCKET_SEGMENTS, RANK) == {("https",): 110}

    def test_longest_round_trip_and_smallest_window_are_exported(self, node: Node) -> None:
        """Among sockets that have measured one."""
        node.sockets = {
            1: [a_socket(1, rtt_ns=3_000_000, window=40), a_socket(2, window=4), a_socket(3, rtt_ns=0, window=1)]
        }

        assert node.collected(catalog.network.SOCKET_ROUND_TRIP, RANK) == {("https",): 3_000_000}
        assert node.collected(catalog.network.SOCKET_WINDOW, RANK) == {("https",): 4}
        assert node.collected(catalog.network.SOCKETS, RANK) == {("https",): 3}

    def test_socket_shared_by_two_processes_counts_once(self, node: Node) -> None:
        """For the first one."""
        node.sockets = {1: [a_socket()], 2: [a_socket()]}

        assert node.collected(catalog.network.SOCKETS, RANK) == {("https",): 1}
        assert node.collected(catalog.network.SOCKETS, RANK_1) == {}

    def test_processes_that_were_not_read_are_counted(self, node: Node) -> None:
        """By reason."""
        node.unread = {"namespace": 5}

        assert node.collected(catalog.network.UNREAD, NODE) == {("namespace",): 5}


class TestInterfaces:
    def test_drops_and_errors_are_by_direction(self, node: Node) -> None:
        """And drops of queues."""
        node.links = [InterfaceCounts(2, "eth0", "", 1, 2, 3, 4)]
        node.queues = [QueueCounts(2, 0, "fq_codel", False, 5), QueueCounts(2, 1, "clsact", True, 6)]

        assert node.collected(catalog.network.INTERFACE_DROPS, NODE) == {
            ("eth0", "received"): 1,
            ("eth0", "sent"): 2,
        }
        assert node.collected(catalog.network.INTERFACE_ERRORS, NODE) == {
            ("eth0", "received"): 3,
            ("eth0", "sent"): 4,
        }
        assert node.collected(catalog.network.QUEUE_DROPS, NODE) == {("eth0", "received"): 6, ("eth0", "sent"): 5}

    def test_lower_count_is_a_reset(self, node: Node) -> None:
        """The NIC's driver was reloaded: 10, and then 3 more."""
        node.links = [InterfaceCounts(2, "eth0", "", 10, 0, 0, 0)]
        node.collected(catalog.network.INTERFACE_DROPS, NODE)
        node.links = [InterfaceCounts(2, "eth0", "", 3, 0, 0, 0)]

        assert node.collected(catalog.network.INTERFACE_DROPS, NODE)["eth0", "received"] == 13
        assert node.network.resets == 1

    def test_drops_of_a_removed_interface_stay(self, node: Node) -> None:
        """A later one with the same name and another number adds to them."""
        node.links = [InterfaceCounts(2, "bond0", "bond", 10, 0, 0, 0)]
        node.collected(catalog.network.INTERFACE_DROPS, NODE)
        node.links = []
        node.collected(catalog.network.INTERFACE_DROPS, NODE)
        node.links = [InterfaceCounts(9, "bond0", "bond", 4, 0, 0, 0)]

        assert node.collected(catalog.network.INTERFACE_DROPS, NODE)["bond0", "received"] == 14
        assert node.network.resets == 0

    def test_interfaces_of_containers_are_other(self, node: Node) -> None:
        """Except eth0 in a container."""
        node.links = [
            InterfaceCounts(3, "veth1", "veth", 1, 0, 0, 0),
            InterfaceCounts(4, "veth2", "veth", 2, 0, 0, 0),
            InterfaceCounts(5, "eth0", "veth", 4, 0, 0, 0),
        ]
        found = node.collected(catalog.network.INTERFACE_DROPS, NODE)

        assert {labels: total for labels, total in found.items() if total} == {
            ("other", "received"): 3,
            ("eth0", "received"): 4,
        }

    def test_number_of_names_is_bounded(self, node: Node) -> None:
        """Also when interfaces are removed; hardware comes first."""
        node.links = [InterfaceCounts(1, "bond9", "bond", 0, 0, 0, 0)]
        node.links += [InterfaceCounts(10 + n, f"eth{n}", "", 1, 0, 0, 0) for n in range(MAX_INTERFACES)]
        first = node.collected(catalog.network.INTERFACE_DROPS, NODE)
        node.links = [InterfaceCounts(99, "ib0", "", 7, 0, 0, 0)]
        then = node.collected(catalog.network.INTERFACE_DROPS, NODE)

        assert {name for name, _ in first} == {*(f"eth{n}" for n in range(MAX_INTERFACES)), "other"}
        assert {name for name, _ in then} == {name for name, _ in first}
        assert then["other", "received"] == 7


class TestAbsence:
    def test_without_sockets_and_interfaces_the_rest_is_exported(self, node: Node) -> None:
        """Retransmits come from the kernel program."""
        node.absent = True
        node.retransmitted(23)

        assert node.collected(catalog.network.RETRANSMITS, CONTAINER)["ipv4", "data"] == 23
        assert node.collected(catalog.network.SOCKETS, RANK) == {}

    def test_without_the_kernel_program_the_rest_is_exported(self) -> None:
        node = Node()
        node.links = [InterfaceCounts(2, "eth0", "", 1, 0, 0, 0)]
        node.network = Network(node.labels, TTL_NS, None, node._sockets, node._interfaces, shares=node.shares)

        assert node.collected(catalog.network.RETRANSMITS, CONTAINER) == {}
        assert node.collected(catalog.network.INTERFACE_DROPS, NODE)["eth0", "received"] == 1
