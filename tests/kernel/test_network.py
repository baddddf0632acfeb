"""TCP segments sent again, by cgroup of the socket, against the kernel's own counters."""

from __future__ import annotations

import math
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from exporter.host import interfaces, netlink
from exporter.host.cgroups import unified_hierarchy
from exporter.host.network_namespaces import opened_inside
from exporter.kernel import abi
from exporter.kernel.abi import IpFamily
from exporter.kernel.retransmit_rows import RetransmitKey, RetransmitRow, read_retransmits
from tests.faults.injectors import NotPossible, network
from tests.faults.injectors.cpu import in_groups
from tests.faults.injectors.network import Wire
from tests.support.traced import Tracer, eventually, tracer

ANSWERS, ANSWER_BYTES = 100, 64 << 10
UNSHOWN_SHARE = 0.02
"""Upper bound of missed events: one in some hundreds on a busy machine."""
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


@contextmanager
def _group(name: str) -> Iterator[Path]:
    """A group of the unified hierarchy."""
    hierarchy = unified_hierarchy()
    if hierarchy is None:
        pytest.skip("needs a mounted cgroup hierarchy of version 2")
    path = hierarchy.root / f"gpu-stall-test-{name}"
    path.mkdir()
    try:
        yield path
    finally:
        eventually(lambda: _removed(path), f"{path} is empty")


def _removed(path: Path) -> bool:
    """Whether it worked: a process leaves its group a moment after its end."""
    try:
        path.rmdir()
    except OSError:
        return False
    return True


class Groups(NamedTuple):
    """Cgroups of the unified hierarchy: of the client and of the server."""

    client: Path
    server: Path


@pytest.fixture
def groups() -> Iterator[Groups]:
    with _group("client") as client, _group("server") as server:
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


def as_many_as(counted: int) -> range:
    """Between the kernel's count and a little less."""
    return range(counted - math.ceil(counted * UNSHOWN_SHARE), counted + 1)


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
            subprocess.run(line, check=True, timeout=60)
            return 0
        with network.dropper(one_of) as program, network.loss(program, wire.own):
            subprocess.run(line, check=True, timeout=60)
            return wire.dropped(wire.own)


class TestRetransmits:
    """A wire that drops every 23rd packet with data."""

    @pytest.mark.parametrize(
        ("address", "family"),
        [(network.PEER_ADDRESS, IpFamily.IPV4), (network.PEER_ADDRESS_6, IpFamily.IPV6)],
        ids=["IPv4", "IPv6"],
    )
    @pytest.mark.acceptance
    def test_retransmits_belong_to_the_sender(
        self, account_tracer: Tracer, wire: Wire, groups: Groups, address: str, family: IpFamily
    ) -> None:
        """At least one for each dropped packet, as many as RetransSegs of the sender's namespace; the client has none."""
        dropped = fetch(wire, groups, address, one_of=23)
        rows = rows_of(account_tracer, groups.server)

        assert dropped > 100
        assert [*rows] == [family]
        assert rows[family].segments in as_many_as(wire.retransmitted(wire.peer))
        assert wire.retransmitted(wire.peer) >= dropped
        assert rows_of(account_tracer, groups.client) == {}
        assert account_tracer.drops() == {}

    @pytest.mark.acceptance
    def test_without_drops_there_are_hardly_any(self, account_tracer: Tracer, wire: Wire, groups: Groups) -> None:
        """On a busy machine TCP may time out; the kernel counts that as well."""
        fetch(wire, groups)
        segments = sum(row.segments for row in rows_of(account_tracer, groups.server).values())

        assert segments in as_many_as(wire.retransmitted(wire.peer))
        assert segments < ANSWERS * 5  # of some fifty an answer
        assert rows_of(account_tracer, groups.client) == {}

    def test_ipv6_socket_with_an_ipv4_peer_is_ipv4(self, account_tracer: Tracer, wire: Wire, groups: Groups) -> None:
        """As in many servers."""
        with (
            network.server("::", wire.peer, groups.server) as peer,
            network.dropper(23) as program,
            network.loss(program, wire.own),
        ):
            line = [sys.executable, "-c", CLIENT, network.PEER_ADDRESS, str(peer.port)]
            subprocess.run([*in_groups([groups.client]), *network.inside(wire.own), *line], check=True, timeout=60)

        assert [*rows_of(account_tracer, groups.server)] == [IpFamily.IPV4]

    @pytest.mark.acceptance
    def test_unanswered_connections_are_handshakes(self, account_tracer: Tracer, wire: Wire, groups: Groups) -> None:
        """A SYN to an unused address is sent again after 1 s."""
        line = [sys.executable, "-c", CALLER, "198.18.0.2", "9", "1.5"]
        subprocess.run(["ip", "-n", wire.peer, "link", "set", "wire", "arp", "off"], check=True)
        subprocess.run(["ip", "-n", wire.peer, "address", "delete", "198.18.0.2/30", "dev", "wire"], check=True)
        subprocess.run(
            ["ip", "-n", wire.own, "neighbour", "add", "198.18.0.2", "lladdr", "02:00:00:00:00:01", "dev", "wire"],
            check=True,
        )
        subprocess.run([*in_groups([groups.client]), *network.inside(wire.own), *line], check=True, timeout=60)

        assert rows_of(account_tracer, groups.client) == {IpFamily.IPV4: RetransmitRow(1, 1)}
        assert wire.retransmitted(wire.own) == 1

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
            subprocess.run([*network.inside(wire.own), *line], check=True, timeout=60)
            eventually(lambda: wire.retransmitted(wire.peer), "the SYN with ACK is sent again")
            rows, counted = rows_of(account_tracer, groups.server), wire.retransmitted(wire.peer)

        assert rows == {IpFamily.IPV4: RetransmitRow(counted, counted)}
        assert counted >= 1

    @pytest.mark.acceptance
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
            assert small.drops()["network retransmits_full"] >= min(as_many_as(wire.retransmitted(wire.peer))) > 0


class TestInterfaces:
    """Queues of another network namespace, entered as by --collector.network.namespaces."""

    @pytest.mark.acceptance
    def test_drops_of_a_queue_are_those_of_tc(self, wire: Wire) -> None:
        """A filter drops packets on ingress; the interface itself drops none."""
        with network.server(network.PEER_ADDRESS, wire.peer) as peer, network.dropper(23) as program:
            line = [*network.inside(wire.peer), sys.executable, "-c", CLIENT, network.OWN_ADDRESS]
            with (
                network.server(network.OWN_ADDRESS, wire.own) as own,
                network.loss(program, wire.peer),
                closing(opened_inside("/proc", peer.process.pid, netlink.route_socket)) as one,
            ):
                subprocess.run([*line, str(own.port)], check=True, timeout=60)
                links = {link.name: link for link in interfaces.interfaces(one, time.monotonic() + 10)}
                queues = [q for q in interfaces.queues(one, time.monotonic() + 10) if q.kind == "clsact"]
                dropped = wire.dropped(wire.peer)

        assert {name: link.kind for name, link in links.items()} == {"lo": "", "wire": "veth"}
        assert [(q.number, q.is_received, q.dropped) for q in queues] == [(links["wire"].number, True, dropped)]
        assert dropped > 100
        assert links["wire"].received_dropped == links["wire"].sent_dropped == 0


def _packed(key: RetransmitKey) -> bytes:
    return key.cgroup_id.to_bytes(8, sys.byteorder) + int(key.family).to_bytes(8, sys.byteorder)
