"""TCP segments sent again, by cgroup of the socket, against the kernel's own counters."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import pytest

from exporter.host import interfaces, netlink
from exporter.host.network_namespaces import opened_inside
from exporter.kernel import abi
from exporter.kernel.abi import IpFamily
from exporter.kernel.retransmit_rows import RetransmitKey, RetransmitRow, read_retransmits
from tests.faults.injectors import NotPossible, network
from tests.faults.injectors.cpu import in_groups
from tests.faults.injectors.network import Wire
from tests.support.named_cgroup import named_cgroup
from tests.support.patience import PATIENCE_SECONDS
from tests.support.traced import Tracer, eventually, tracer

ANSWERS, ANSWER_BYTES = 40, 64 << 10
CLIENT = f"""
import socket, sys
with socket.create_connection((sys.argv[1], int(sys.argv[2]))) as connection:
    for _ in range({ANSWERS}):
        connection.sendall(({ANSWER_BYTES}).to_bytes(8, "little"))
        left = {ANSWER_BYTES}
        while left:
            left -= len(connection.recv(left))
"""
CALLER = """
import socket, sys
with socket.socket(socket.AF_INET6 if ":" in sys.argv[1] else socket.AF_INET) as one:
    one.settimeout(float(sys.argv[3]))
    try:
        one.connect((sys.argv[1], int(sys.argv[2])))
    except OSError:
        pass
"""


class Groups(NamedTuple):
    """Cgroups of the unified hierarchy: of the client and of the server."""

    client: Path
    server: Path


@pytest.fixture
def groups() -> Iterator[Groups]:
    with named_cgroup("v2", "client") as client, named_cgroup("v2", "server") as server:
        yield Groups(client, server)


@pytest.fixture
def wire() -> Iterator[Wire]:
    """Two namespaces; each sent packet is one segment."""
    try:
        with network.wire() as found:
            for name in (found.own, found.peer):
                subprocess.run(["ip", "-n", name, "link", "set", "wire", "gso_max_segs", "1"], check=True)
            yield found
    except NotPossible as reason:
        pytest.skip(str(reason))


def rows_of(traced: Tracer, group: Path) -> dict[IpFamily, RetransmitRow]:
    """Counts of one group."""
    rows = read_retransmits(traced.kernel.maps["retransmits"])
    return {key.family: row for key, row in rows.items() if key.cgroup_id == group.stat().st_ino}


def segments_of(traced: Tracer, group: Path) -> int:
    """Both families of addresses, in one group."""
    return sum(row.segments for row in rows_of(traced, group).values())


def most_of(counted: int) -> range:
    """The kernel's own count, or less: one event in some hundreds is missed on a busy machine."""
    return range(counted // 2 + 1, counted + 1)


def fetch(wire: Wire, groups: Groups, address: str = network.PEER_ADDRESS, one_of: int = 0) -> int:
    """Sends data through the wire; returns how many packets to the client were dropped."""
    with network.server(address, wire.peer, groups.server) as peer:
        line = [
            *in_groups([groups.client]),
            *network.inside(wire.own),
            sys.executable,
            "-c",
            CLIENT,
            address,
            str(peer.port),
        ]
        if not one_of:
            subprocess.run(line, check=True, timeout=PATIENCE_SECONDS)
            return 0
        with network.dropper(one_of) as program, network.loss(program, wire.own):
            subprocess.run(line, check=True, timeout=PATIENCE_SECONDS)
            return wire.dropped(wire.own)


class TestRetransmits:
    """A wire that drops every 23rd packet with data."""

    @pytest.mark.parametrize(
        ("address", "family"),
        [(network.PEER_ADDRESS, IpFamily.IPV4), (network.PEER_ADDRESS_6, IpFamily.IPV6)],
        ids=["IPv4", "IPv6"],
    )
    def test_retransmits_belong_to_the_sender(
        self, account_tracer: Tracer, wire: Wire, groups: Groups, address: str, family: IpFamily
    ) -> None:
        """At least one for each dropped packet, as many as RetransSegs of the sender's namespace."""
        dropped = fetch(wire, groups, address, one_of=23)
        rows = rows_of(account_tracer, groups.server)

        assert [*rows] == [family]
        assert rows[family].segments in most_of(wire.retransmitted(wire.peer))
        assert wire.retransmitted(wire.peer) >= dropped > ANSWERS
        assert segments_of(account_tracer, groups.client) <= wire.retransmitted(wire.own)
        assert account_tracer.drops() == {}

    def test_segment_that_is_sent_once_does_not_count(self, account_tracer: Tracer, wire: Wire, groups: Groups) -> None:
        """On a busy machine TCP may time out; the kernel counts that as well."""
        fetch(wire, groups)

        assert segments_of(account_tracer, groups.server) <= wire.retransmitted(wire.peer)
        assert segments_of(account_tracer, groups.client) <= wire.retransmitted(wire.own)

    def test_ipv6_socket_with_an_ipv4_peer_is_ipv4(self, account_tracer: Tracer, wire: Wire, groups: Groups) -> None:
        """As in many servers."""
        with (
            network.server("::", wire.peer, groups.server) as peer,
            network.dropper(23) as program,
            network.loss(program, wire.own),
        ):
            line = [sys.executable, "-c", CLIENT, network.PEER_ADDRESS, str(peer.port)]
            subprocess.run(
                [*in_groups([groups.client]), *network.inside(wire.own), *line], check=True, timeout=PATIENCE_SECONDS
            )

        assert [*rows_of(account_tracer, groups.server)] == [IpFamily.IPV4]

    def test_unanswered_connections_are_handshakes(self, account_tracer: Tracer, wire: Wire, groups: Groups) -> None:
        """A SYN to an unused address is sent again, the first time after 1 s."""
        line = [
            *in_groups([groups.client]),
            *network.inside(wire.own),
            sys.executable,
            "-c",
            CALLER,
            "198.18.0.2",
            "9",
            "600",
        ]
        subprocess.run(["ip", "-n", wire.peer, "link", "set", "wire", "arp", "off"], check=True)
        subprocess.run(["ip", "-n", wire.peer, "address", "delete", "198.18.0.2/30", "dev", "wire"], check=True)
        subprocess.run(
            ["ip", "-n", wire.own, "neighbour", "add", "198.18.0.2", "lladdr", "02:00:00:00:00:01", "dev", "wire"],
            check=True,
        )
        with subprocess.Popen(line) as caller:
            rows = eventually(lambda: rows_of(account_tracer, groups.client), "the SYN is sent again")
            counted = wire.retransmitted(wire.own)
            caller.kill()
        segments = rows[IpFamily.IPV4].segments

        assert rows == {IpFamily.IPV4: RetransmitRow(segments, segments)}
        assert 1 <= segments <= counted

    def test_syn_ack_belongs_to_the_listener(self, account_tracer: Tracer, wire: Wire, groups: Groups) -> None:
        """A SYN with ACK that the client never gets is sent again by a timer."""
        with network.server(network.PEER_ADDRESS, wire.peer, groups.server) as peer:
            subprocess.run(
                [
                    "ip",
                    "-n",
                    wire.peer,
                    "neighbour",
                    "add",
                    network.OWN_ADDRESS,
                    "lladdr",
                    "02:00:00:00:00:01",
                    "dev",
                    "wire",
                ],
                check=True,
            )
            line = [sys.executable, "-c", CALLER, network.PEER_ADDRESS, str(peer.port), "0.2"]
            subprocess.run([*network.inside(wire.own), *line], check=True, timeout=PATIENCE_SECONDS)
            rows = eventually(lambda: rows_of(account_tracer, groups.server), "the SYN with ACK is sent again")
            counted = wire.retransmitted(wire.peer)
        segments = rows[IpFamily.IPV4].segments

        assert rows == {IpFamily.IPV4: RetransmitRow(segments, segments)}
        assert 1 <= segments <= counted

    def test_groups_beyond_the_map_are_dropped(self, wire: Wire, groups: Groups) -> None:
        """Room for one row of an owner, so for two in all, which other groups have: all others are dropped."""
        with tracer(capacities={"retransmits": 1}) as small:
            table = small.kernel.maps["retransmits"]
            others = {RetransmitKey(1, IpFamily.IPV4), RetransmitKey(1, IpFamily.IPV6)}
            for other in others:
                table.put(_packed(other), bytes(abi.RETRANSMIT_ROW.size))
            fetch(wire, groups, one_of=23)

            assert read_retransmits(table).keys() == others
            assert [*small.drops()] == ["network retransmits_full"]
            assert small.drops()["network retransmits_full"] > wire.retransmitted(wire.peer) // 2 > 0


class TestInterfaces:
    """Queues of another network namespace, entered as by --collector.network.namespaces."""

    def test_drops_of_a_queue_are_those_of_tc(self, wire: Wire) -> None:
        """A filter drops packets on ingress; the interface itself drops none."""
        with network.server(network.PEER_ADDRESS, wire.peer) as peer, network.dropper(23) as program:
            line = [*network.inside(wire.peer), sys.executable, "-c", CLIENT, network.OWN_ADDRESS]
            with (
                network.server(network.OWN_ADDRESS, wire.own) as own,
                network.loss(program, wire.peer),
                closing(opened_inside("/proc", peer.process.pid, netlink.route_socket)) as one,
            ):
                subprocess.run([*line, str(own.port)], check=True, timeout=PATIENCE_SECONDS)
                links = {link.name: link for link in interfaces.interfaces(one, time.monotonic() + PATIENCE_SECONDS)}
                queues = [q for q in interfaces.queues(one, time.monotonic() + PATIENCE_SECONDS) if q.kind == "clsact"]
                dropped = wire.dropped(wire.peer)

        assert {name: link.kind for name, link in links.items()} == {"lo": "", "wire": "veth"}
        assert [(q.number, q.is_received, q.dropped) for q in queues] == [(links["wire"].number, True, dropped)]
        assert dropped > ANSWERS
        assert links["wire"].received_dropped == links["wire"].sent_dropped == 0


def _packed(key: RetransmitKey) -> bytes:
    return key.cgroup_id.to_bytes(8, sys.byteorder) + int(key.family).to_bytes(8, sys.byteorder)
