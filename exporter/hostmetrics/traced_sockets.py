"""What the network collector reads: which sockets are those of traced processes, within bounds of time; and the interfaces.

Descriptors are looked at in turn, a few processes a scrape: a node has 64 workers with a hundred each, and each takes 6 us.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from exporter.collectors import HostCollector
from exporter.errors import NotPossibleHere
from exporter.host import interfaces, netlink
from exporter.host.cgroups import unified_hierarchy
from exporter.host.network_namespaces import opened_inside
from exporter.host.tcp_sockets import TcpSocket, children, network_namespace, socket_inodes, tcp_sockets
from exporter.hostmetrics.cgroup_labels import CgroupLabels
from exporter.hostmetrics.network import Network, SocketsRead
from exporter.kernel.maps import MapReader
from exporter.series.host_totals import TracedProcess
from exporter.workloads.orchestrators.pod_cache import PodCache

DEADLINE_SECONDS: Final = 0.05
LOOKS: Final = 16
"""Processes whose descriptors are looked at, at most, in one go."""
FRESH_SECONDS: Final = 5.0
"""So long a look is good."""
WORKERS_MAX: Final = 64
"""Of a rank, whose descriptors are looked at."""
NAMESPACES_MAX: Final = 16


class _Look(NamedTuple):
    at: float
    namespace: int
    sockets: frozenset[int]
    is_whole: bool


@dataclass(slots=True)
class _Member:
    """A process whose sockets are wanted: a traced one, or one that it has started."""

    tgid: int
    process: int


class TracedSockets:
    """A reader of sockets. with_namespaces: also those in other network namespaces."""

    def __init__(
        self, proc: Path = Path("/proc"), *, with_namespaces: bool = False, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._proc = str(proc)
        self._with_namespaces = with_namespaces
        self._clock = clock
        self._looks: dict[int, _Look] = {}
        self._unread: Counter[str] = Counter()

    def __call__(self, traced: Sequence[TracedProcess]) -> SocketsRead:
        """Raises NotPossibleHere where the kernel tells nothing of sockets."""
        deadline = self._clock() + DEADLINE_SECONDS
        members = list(self._members([one for one in traced if one.tgid]))
        self._look(members, deadline)
        own = network_namespace("/proc", "self")
        found: dict[int, list[TcpSocket]] = {}
        is_whole = True
        by_namespace: dict[int, list[_Member]] = {}
        for member in members:
            look = self._looks.get(member.tgid)
            if look is None or not look.is_whole:
                self._unread["descriptors"] += 1
            if look is not None and look.sockets:
                by_namespace.setdefault(look.namespace, []).append(member)
        others = sorted(by_namespace.keys() - {own})
        for namespace in (own, *others):
            inside = by_namespace.get(namespace, [])
            if not inside:
                continue
            if namespace != own and (not self._with_namespaces or others.index(namespace) >= NAMESPACES_MAX):
                self._unread["namespace"] += len(inside)
                continue
            try:
                self._dump(inside, found, deadline, is_own=namespace == own)
            except netlink.TooLate:
                self._unread["deadline"] += len(inside)
                is_whole = False
            except NotPossibleHere:
                if namespace == own:
                    raise
                self._unread["namespace"] += len(inside)
                is_whole = False
        return SocketsRead(found, is_whole, dict(self._unread))

    def _members(self, traced: Sequence[TracedProcess]) -> Iterator[_Member]:
        for one in traced:
            yield _Member(one.tgid, one.process)
        for one in traced:
            yield from (_Member(tgid, one.process) for tgid in children(self._proc, one.tgid)[:WORKERS_MAX])

    def _look(self, members: Sequence[_Member], deadline: float) -> None:
        """At the descriptors of those that were not looked at for longest, the traced ones first."""
        now = self._clock()
        known = {member.tgid for member in members}
        self._looks = {tgid: look for tgid, look in self._looks.items() if tgid in known}
        never = _Look(float("-inf"), 0, frozenset(), is_whole=False)
        due = [one for one in members if now - self._looks.get(one.tgid, never).at >= FRESH_SECONDS]
        due.sort(key=lambda one: self._looks.get(one.tgid, never).at)  # stable: of equals the traced ones first
        for member in due[:LOOKS]:
            if self._clock() >= deadline:
                return
            namespace = network_namespace(self._proc, member.tgid)
            self._looks[member.tgid] = _Look(now, namespace, *socket_inodes(self._proc, member.tgid))

    def _dump(
        self, members: Sequence[_Member], found: dict[int, list[TcpSocket]], deadline: float, *, is_own: bool
    ) -> None:
        owners: dict[int, int] = {}
        for member in members:
            for inode in self._looks[member.tgid].sockets:
                owners.setdefault(inode, member.process)
        opened = netlink.diag_socket() if is_own else opened_inside(self._proc, members[0].tgid, netlink.diag_socket)
        with closing(opened) as one:
            for socket in tcp_sockets(one, owners.keys(), deadline):
                found.setdefault(owners[socket.inode], []).append(socket)


def read_interfaces() -> tuple[Sequence[interfaces.Link], Sequence[interfaces.Queue]]:
    """Of this network namespace. Raises NotPossibleHere without pyroute2."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    try:
        with closing(netlink.route_socket()) as one:
            return list(interfaces.links(one, deadline)), list(interfaces.queues(one, deadline))
    except netlink.TooLate as error:
        raise NotPossibleHere("the interfaces are not told in time") from error


def network(
    node: str,
    ttl_ns: int,
    retransmits: MapReader | None,
    pods: PodCache | None,
    proc: Path,
    *,
    with_namespaces: bool,
) -> HostCollector:
    """The collector, with what it reads."""
    places = CgroupLabels(node, unified_hierarchy(), pods)
    return Network(places, ttl_ns, retransmits, TracedSockets(proc, with_namespaces=with_namespaces), read_interfaces)
