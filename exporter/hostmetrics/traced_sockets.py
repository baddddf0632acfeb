"""TCP sockets of traced processes and the interfaces of this network namespace, read within a deadline.

In: traced processes, /proc/TGID/fd, the kernel's dumps. Out: SocketsRead. Descriptors are read in turn, a few processes a scrape:
a node has 64 workers with a hundred descriptors each, and each takes 6 us.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from exporter.errors import NotPossibleHere
from exporter.host import interfaces, netlink
from exporter.host.network_namespaces import opened_inside
from exporter.host.processes import Processes
from exporter.host.tcp_sockets import TcpSocket, children, network_namespace, socket_inodes, tcp_sockets
from exporter.hostmetrics.network import SocketsRead
from exporter.series.host_totals import TracedProcess

DEADLINE_SECONDS: Final = 0.05
SCANS_AT_ONCE: Final = 16
"""Processes whose descriptors are read in one scrape."""
FRESH_SECONDS: Final = 5.0
"""How long a list of descriptors is used."""
WORKERS_MAX: Final = 64
"""Workers of one rank whose descriptors are read."""
NAMESPACES_MAX: Final = 16


class _Descriptors(NamedTuple):
    """Sockets that a process had open. is_whole: whether all of its descriptors were read."""

    read_at: float
    namespace: int
    sockets: frozenset[int]
    is_whole: bool


_NEVER: Final = _Descriptors(float("-inf"), 0, frozenset(), is_whole=False)


@dataclass(slots=True)
class _Process:
    """A process whose sockets are wanted. traced: number of the traced process: this one, or the one that has started it."""

    tgid: int
    traced: int


class TracedSockets:
    """Reads sockets. with_namespaces: also those in other network namespaces, which takes CAP_SYS_ADMIN."""

    def __init__(
        self, proc: Path = Path("/proc"), *, with_namespaces: bool = False, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._proc = str(proc)
        self._processes = Processes(proc)
        self._with_namespaces = with_namespaces
        self._clock = clock
        self._descriptors: dict[int, _Descriptors] = {}
        self._unread: Counter[str] = Counter()

    def __call__(self, traced: Sequence[TracedProcess]) -> SocketsRead:
        """Raises NotPossibleHere where the kernel has no dump of sockets."""
        deadline = self._clock() + DEADLINE_SECONDS
        processes = list(self._wanted([one for one in traced if one.tgid]))
        self._read_descriptors(processes, deadline)
        own = network_namespace("/proc", "self")
        found: dict[int, list[TcpSocket]] = {}
        is_whole = True
        by_namespace = self._by_namespace(processes)
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
            except netlink.DumpTimedOut:
                self._unread["deadline"] += len(inside)
                is_whole = False
            except NotPossibleHere:
                if namespace == own:
                    raise
                self._unread["namespace"] += len(inside)
                is_whole = False
        return SocketsRead(found, is_whole, dict(self._unread))

    def _wanted(self, traced: Sequence[TracedProcess]) -> Iterator[_Process]:
        for one in traced:
            yield _Process(one.tgid, one.process)
        for one in traced:
            workers = children(self._proc, self._processes.readable_id(one.tgid))[:WORKERS_MAX]
            yield from (_Process(tgid, one.process) for tgid in workers)

    def _read_descriptors(self, processes: Sequence[_Process], deadline: float) -> None:
        """Read descriptors of the processes whose last reading is oldest; traced processes before their workers."""
        now = self._clock()
        known = {process.tgid for process in processes}
        self._descriptors = {tgid: one for tgid, one in self._descriptors.items() if tgid in known}
        due = [one for one in processes if now - self._read_at(one) >= FRESH_SECONDS]
        due.sort(key=self._read_at)  # stable: among equals the traced ones come first
        for process in due[:SCANS_AT_ONCE]:
            if self._clock() >= deadline:
                return
            shown_as = self._processes.readable_id(process.tgid)
            namespace = network_namespace(self._proc, shown_as)
            self._descriptors[process.tgid] = _Descriptors(now, namespace, *socket_inodes(self._proc, shown_as))

    def _read_at(self, process: _Process) -> float:
        return self._descriptors.get(process.tgid, _NEVER).read_at

    def _by_namespace(self, processes: Sequence[_Process]) -> dict[int, list[_Process]]:
        """Those that have sockets; counts those whose descriptors are not all known."""
        found: dict[int, list[_Process]] = {}
        for process in processes:
            descriptors = self._descriptors.get(process.tgid, _NEVER)
            if not descriptors.is_whole:
                self._unread["descriptors"] += 1
            if descriptors.sockets:
                found.setdefault(descriptors.namespace, []).append(process)
        return found

    def _dump(
        self, processes: Sequence[_Process], found: dict[int, list[TcpSocket]], deadline: float, *, is_own: bool
    ) -> None:
        traced_of: dict[int, int] = {}
        for process in processes:
            for inode in self._descriptors[process.tgid].sockets:
                traced_of.setdefault(inode, process.traced)
        inside = self._processes.readable_id(processes[0].tgid)
        opened = netlink.diag_socket() if is_own else opened_inside(self._proc, inside, netlink.diag_socket)
        with closing(opened) as one:
            for socket in tcp_sockets(one, traced_of.keys(), deadline):
                found.setdefault(traced_of[socket.inode], []).append(socket)


def read_interfaces() -> tuple[Sequence[interfaces.InterfaceCounts], Sequence[interfaces.QueueCounts]]:
    """Interfaces and queues of this network namespace. Raises NotPossibleHere without pyroute2."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    try:
        with closing(netlink.route_socket()) as one:
            return list(interfaces.interfaces(one, deadline)), list(interfaces.queues(one, deadline))
    except netlink.DumpTimedOut as error:
        raise NotPossibleHere("the kernel's dump of interfaces timed out") from error
