"""network: rows, sockets and interfaces to totals of containers, ranks and the machine."""

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
from exporter.model import Identity
from exporter.series.host_totals import TracedProcess
from exporter.totals import Total
from exporter.units import NANOSECONDS
from tests.support.tables import FakeMap

MACHINE = Identity("gpu7")
CONTAINER = Identity("gpu7", container="0123456789ab")
RANK = Identity("gpu7", rank="0", container="0123456789ab")
RANK_1 = Identity("gpu7", rank="1", container="0123456789ab")
TTL_NS = 900 * NANOSECONDS
TRACED = (TracedProcess(1, 4026, RANK), TracedProcess(2, 4027, RANK_1))


@dataclass
class Groups:
    """Group 7 is a container's; all others are the machine's."""

    node: Identity = MACHINE
    gone: set[int] = field(default_factory=set)

    def identity_of(self, number: int, /) -> Identity:
        """The container of a group."""
        return CONTAINER if number == 7 else MACHINE

    def is_gone(self, number: int, /) -> bool:
        """As the test says."""
        return number in self.gone


@dataclass
class Machine:
    """What there is to read, and the collector that reads it."""

    table: FakeMap = field(default_factory=FakeMap)
    groups: Groups = field(default_factory=Groups)
    sockets: dict[int, list[TcpSocket]] = field(default_factory=dict)
    is_whole: bool = True
    unread: Mapping[str, int] = field(default_factory=dict)
    links: list[InterfaceCounts] = field(default_factory=list)
    queues: list[QueueCounts] = field(default_factory=list)
    absent: bool = False
    now_ns: int = 0

    def __post_init__(self) -> None:
        self.network = Network(self.groups, TTL_NS, self.table, self._sockets, self._interfaces)

    def _sockets(self, _traced: Sequence[TracedProcess]) -> SocketsRead:
        if self.absent:
            raise NotPossibleHere("there is no such thing here")
        return SocketsRead(self.sockets, self.is_whole, self.unread)

    def _interfaces(self) -> tuple[Sequence[InterfaceCounts], Sequence[QueueCounts]]:
        if self.absent:
            raise NotPossibleHere("there is no such thing here")
        return self.links, self.queues

    def sent_again(self, segments: int, handshakes: int = 0, group: int = 7, family: IpFamily = IpFamily.IPV4) -> None:
        """The row of a group as it stands."""
        key = abi.RETRANSMIT_KEY.pack(group, family, 0)
        self.table.rows[key] = abi.RETRANSMIT_ROW.pack(segments, handshakes)

    def collected(self, metric: Metric, place: Identity) -> dict[tuple[str, ...], Total]:
        """Labels -> total, of one metric and place; a second later than the last time."""
        self.now_ns += LEAST_NS
        found = self.network.collect(self.now_ns, TRACED).get(place, {})
        return {series.labels: total for series, total in found.items() if series.metric is metric}


def a_socket(
    cookie: int = 1, *, port: int = 443, rtt_ns: int = 2_000_000, window: int = 10, sent: tuple[int, int] = (100, 2)
) -> TcpSocket:
    """sent: segments, and those of them sent again."""
    return TcpSocket(1000 + cookie, cookie, port, rtt_ns, window, *sent)


@pytest.fixture
def machine() -> Machine:
    """With nothing on it."""
    return Machine()


class TestRetransmits:
    """By container, of all sockets."""

    def test_they_are_the_containers_of_the_socket(self, machine: Machine) -> None:
        """By family; those of a handshake apart."""
        machine.sent_again(23, 3)
        machine.sent_again(5, family=IpFamily.IPV6)
        machine.sent_again(9, group=1)

        assert machine.collected(catalog.network.RETRANSMITS, CONTAINER) == {
            ("ipv4", "data"): 20,
            ("ipv4", "handshake"): 3,
            ("ipv6", "data"): 5,
            ("ipv6", "handshake"): 0,
        }
        assert machine.collected(catalog.network.RETRANSMITS, MACHINE)["ipv4", "data"] == 9

    def test_row_of_a_group_that_is_gone_is_deleted_when_it_stands_still(self, machine: Machine) -> None:
        """What it had stays counted."""
        machine.sent_again(23)
        machine.groups.gone.add(7)
        machine.collected(catalog.network.RETRANSMITS, CONTAINER)
        machine.sent_again(24)
        machine.collected(catalog.network.RETRANSMITS, CONTAINER)

        assert len(machine.table.rows) == 1
        assert machine.collected(catalog.network.RETRANSMITS, CONTAINER)["ipv4", "data"] == 24
        assert machine.table.rows == {}
        assert machine.collected(catalog.network.RETRANSMITS, CONTAINER)["ipv4", "data"] == 24

    def test_sockets_that_outlive_their_group_are_counted_on(self, machine: Machine) -> None:
        """The row comes again and counts from 0; that is no reset."""
        machine.sent_again(23)
        machine.groups.gone.add(7)
        for _ in range(3):
            machine.collected(catalog.network.RETRANSMITS, CONTAINER)
        machine.sent_again(2)

        assert machine.collected(catalog.network.RETRANSMITS, CONTAINER)["ipv4", "data"] == 25
        assert machine.network.resets == 0

    def test_nothing_is_read_twice_within_a_second(self, machine: Machine) -> None:
        """The same is told again."""
        machine.sent_again(23)
        first = machine.network.collect(LEAST_NS, TRACED)
        machine.sent_again(24)

        assert machine.network.collect(2 * LEAST_NS - 1, TRACED) is first


class TestSockets:
    """Of traced processes, by who is at the other end."""

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
    def test_peers_are_classed_by_their_port(self, port: int, peer: str) -> None:
        """A closed set."""
        assert peer_class(port) == peer
        assert peer in collector.PEERS

    def test_segments_of_sockets_that_come_and_go_add_up(self, machine: Machine) -> None:
        """100 of the first, 7 of the second after the first has been closed, and 3 more."""
        machine.sockets = {1: [a_socket(1, sent=(100, 2))]}
        machine.collected(catalog.network.SOCKETS, RANK)
        machine.sockets = {1: [a_socket(2, sent=(7, 1))]}
        machine.collected(catalog.network.SOCKETS, RANK)
        machine.sockets = {1: [a_socket(2, sent=(10, 1))]}

        assert machine.collected(catalog.network.SOCKET_SEGMENTS, RANK) == {("https",): 110}
        assert machine.collected(catalog.network.SOCKET_RETRANSMITS, RANK) == {("https",): 3}

    def test_what_was_sent_stays_when_no_socket_is_left(self, machine: Machine) -> None:
        """Levels do not."""
        machine.sockets = {1: [a_socket()]}
        machine.collected(catalog.network.SOCKETS, RANK)
        machine.sockets = {}

        assert machine.collected(catalog.network.SOCKET_SEGMENTS, RANK) == {("https",): 100}
        assert machine.collected(catalog.network.SOCKETS, RANK) == {}

    def test_socket_that_a_late_dump_left_out_is_not_counted_twice(self, machine: Machine) -> None:
        """It is not known to be closed."""
        machine.sockets = {1: [a_socket(sent=(100, 0))]}
        machine.collected(catalog.network.SOCKETS, RANK)
        machine.sockets, machine.is_whole = {}, False
        machine.collected(catalog.network.SOCKETS, RANK)
        machine.sockets, machine.is_whole = {1: [a_socket(sent=(110, 0))]}, True

        assert machine.collected(catalog.network.SOCKET_SEGMENTS, RANK) == {("https",): 110}

    def test_longest_round_trip_and_smallest_window_are_told(self, machine: Machine) -> None:
        """Of those that have measured one."""
        machine.sockets = {
            1: [a_socket(1, rtt_ns=3_000_000, window=40), a_socket(2, window=4), a_socket(3, rtt_ns=0, window=1)]
        }

        assert machine.collected(catalog.network.SOCKET_ROUND_TRIP, RANK) == {("https",): 3_000_000}
        assert machine.collected(catalog.network.SOCKET_WINDOW, RANK) == {("https",): 4}
        assert machine.collected(catalog.network.SOCKETS, RANK) == {("https",): 3}

    def test_socket_that_two_processes_have_is_one(self, machine: Machine) -> None:
        """The first one's."""
        machine.sockets = {1: [a_socket()], 2: [a_socket()]}

        assert machine.collected(catalog.network.SOCKETS, RANK) == {("https",): 1}
        assert machine.collected(catalog.network.SOCKETS, RANK_1) == {}

    def test_processes_that_were_not_read_are_counted(self, machine: Machine) -> None:
        """By reason."""
        machine.unread = {"namespace": 5}

        assert machine.collected(catalog.network.UNREAD, MACHINE) == {("namespace",): 5}


class TestInterfaces:
    """Of the machine."""

    def test_drops_and_errors_are_by_direction(self, machine: Machine) -> None:
        """And those of queues beside them."""
        machine.links = [InterfaceCounts(2, "eth0", "", 1, 2, 3, 4)]
        machine.queues = [QueueCounts(2, 0, "fq_codel", False, 5), QueueCounts(2, 1, "clsact", True, 6)]

        assert machine.collected(catalog.network.INTERFACE_DROPS, MACHINE) == {
            ("eth0", "received"): 1,
            ("eth0", "sent"): 2,
        }
        assert machine.collected(catalog.network.INTERFACE_ERRORS, MACHINE) == {
            ("eth0", "received"): 3,
            ("eth0", "sent"): 4,
        }
        assert machine.collected(catalog.network.QUEUE_DROPS, MACHINE) == {("eth0", "received"): 6, ("eth0", "sent"): 5}

    def test_count_that_goes_back_is_a_reset_and_no_negative_rate(self, machine: Machine) -> None:
        """A driver that was loaded anew: 10, and then 3 more."""
        machine.links = [InterfaceCounts(2, "eth0", "", 10, 0, 0, 0)]
        machine.collected(catalog.network.INTERFACE_DROPS, MACHINE)
        machine.links = [InterfaceCounts(2, "eth0", "", 3, 0, 0, 0)]

        assert machine.collected(catalog.network.INTERFACE_DROPS, MACHINE)["eth0", "received"] == 13
        assert machine.network.resets == 1

    def test_interface_that_is_gone_keeps_what_it_dropped(self, machine: Machine) -> None:
        """One of the same name that comes later, with another number, adds to it."""
        machine.links = [InterfaceCounts(2, "bond0", "bond", 10, 0, 0, 0)]
        machine.collected(catalog.network.INTERFACE_DROPS, MACHINE)
        machine.links = []
        machine.collected(catalog.network.INTERFACE_DROPS, MACHINE)
        machine.links = [InterfaceCounts(9, "bond0", "bond", 4, 0, 0, 0)]

        assert machine.collected(catalog.network.INTERFACE_DROPS, MACHINE)["bond0", "received"] == 14
        assert machine.network.resets == 0

    def test_interfaces_of_containers_are_other(self, machine: Machine) -> None:
        """But for what a container calls its own."""
        machine.links = [
            InterfaceCounts(3, "veth1", "veth", 1, 0, 0, 0),
            InterfaceCounts(4, "veth2", "veth", 2, 0, 0, 0),
            InterfaceCounts(5, "eth0", "veth", 4, 0, 0, 0),
        ]
        found = machine.collected(catalog.network.INTERFACE_DROPS, MACHINE)

        assert {labels: total for labels, total in found.items() if total} == {
            ("other", "received"): 3,
            ("eth0", "received"): 4,
        }

    def test_names_are_bounded_for_good(self, machine: Machine) -> None:
        """Also where others have gone meanwhile; devices come first."""
        machine.links = [InterfaceCounts(1, "bond9", "bond", 0, 0, 0, 0)]
        machine.links += [InterfaceCounts(10 + n, f"eth{n}", "", 1, 0, 0, 0) for n in range(MAX_INTERFACES)]
        first = machine.collected(catalog.network.INTERFACE_DROPS, MACHINE)
        machine.links = [InterfaceCounts(99, "ib0", "", 7, 0, 0, 0)]
        then = machine.collected(catalog.network.INTERFACE_DROPS, MACHINE)

        assert {name for name, _ in first} == {*(f"eth{n}" for n in range(MAX_INTERFACES)), "other"}
        assert {name for name, _ in then} == {name for name, _ in first}
        assert then["other", "received"] == 7


class TestAbsence:
    """What this machine lacks."""

    def test_without_readers_the_rest_is_told(self, machine: Machine) -> None:
        """Segments that were sent again come from the kernel's program."""
        machine.absent = True
        machine.sent_again(23)

        assert machine.collected(catalog.network.RETRANSMITS, CONTAINER)["ipv4", "data"] == 23
        assert machine.collected(catalog.network.SOCKETS, RANK) == {}

    def test_without_the_program_the_rest_is_told(self) -> None:
        """Its table is not there."""
        machine = Machine()
        machine.links = [InterfaceCounts(2, "eth0", "", 1, 0, 0, 0)]
        machine.network = Network(machine.groups, TTL_NS, None, machine._sockets, machine._interfaces)

        assert machine.collected(catalog.network.RETRANSMITS, CONTAINER) == {}
        assert machine.collected(catalog.network.INTERFACE_DROPS, MACHINE)["eth0", "received"] == 1
