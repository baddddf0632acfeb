"""traced_sockets: which processes are read, and when; sockets of this process in the kernel's dump."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from exporter.hostmetrics.traced_sockets import FRESH_SECONDS, SCANS_AT_ONCE, TracedSockets
from exporter.model import Identity
from exporter.series.host_totals import TracedProcess

RANK = Identity("gpu7", rank="0")


@dataclass
class Clock:
    """Set by the test; step: how much each reading advances it."""

    now: float = 1_000_000.0
    step: float = 0.0

    def __call__(self) -> float:
        self.now += self.step
        return self.now


@pytest.fixture
def connection() -> Iterator[socket.socket]:
    """A client of this process; the other end is not among the sockets of the fake /proc."""
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        socket.create_connection(listener.getsockname()) as client,
        listener.accept()[0],
    ):
        yield client


def _process(proc: Path, tgid: int, sockets: list[socket.socket], namespace: str = "/proc/self/ns/net") -> None:
    """A process with these sockets open."""
    (proc / str(tgid) / "fd").mkdir(parents=True)
    (proc / str(tgid) / "ns").mkdir()
    (proc / str(tgid) / "ns" / "net").symlink_to(namespace)
    for one in sockets:
        inode = os.fstat(one.fileno()).st_ino
        (proc / str(tgid) / "fd" / str(one.fileno())).symlink_to(f"socket:[{inode}]")


def _started(proc: Path, tgid: int, *children: int) -> None:
    (proc / str(tgid) / "task" / str(tgid)).mkdir(parents=True)
    (proc / str(tgid) / "task" / str(tgid) / "children").write_text(" ".join(map(str, children)))


class TestProcesses:
    """Sockets and the processes that have them open."""

    def test_sockets_of_a_traced_process_are_read(self, tmp_path: Path, connection: socket.socket) -> None:
        """By its number, not by its tgid."""
        _process(tmp_path, 7, [connection])
        read = TracedSockets(tmp_path)([TracedProcess(1, 7, RANK)])

        assert [[one.peer_port for one in sockets] for sockets in read.by_process.values()] == [
            [connection.getpeername()[1]]
        ]
        assert [*read.by_process] == [1]
        assert read.is_whole
        assert read.unread == {}

    def test_sockets_of_workers_count_for_the_traced_process(self, tmp_path: Path, connection: socket.socket) -> None:
        _process(tmp_path, 7, [])
        _process(tmp_path, 8, [connection])
        _started(tmp_path, 7, 8)

        assert [*TracedSockets(tmp_path)([TracedProcess(1, 7, RANK)]).by_process] == [1]

    def test_process_with_tgid_0_is_skipped(self, tmp_path: Path) -> None:
        assert TracedSockets(tmp_path)([TracedProcess(1, 0, RANK)]).by_process == {}

    def test_other_namespace_is_not_entered_by_default(self, tmp_path: Path, connection: socket.socket) -> None:
        """It is counted."""
        (tmp_path / "another").touch()
        _process(tmp_path, 7, [connection], str(tmp_path / "another"))
        read = TracedSockets(tmp_path)([TracedProcess(1, 7, RANK)])

        assert (read.by_process, read.unread) == ({}, {"namespace": 1})

    def test_namespace_that_cannot_be_entered_is_counted(self, tmp_path: Path, connection: socket.socket) -> None:
        """A file that is no namespace."""
        (tmp_path / "another").touch()
        _process(tmp_path, 7, [connection], str(tmp_path / "another"))
        read = TracedSockets(tmp_path, with_namespaces=True)([TracedProcess(1, 7, RANK)])

        assert (read.by_process, read.unread, read.is_whole) == ({}, {"namespace": 1}, False)


class TestBounds:
    def test_processes_are_read_in_turn(self, tmp_path: Path) -> None:
        """16 in one scrape, the others in the next; those not read yet are counted."""
        traced = [TracedProcess(number, number, RANK) for number in range(1, SCANS_AT_ONCE + 5)]
        for one in traced:
            _process(tmp_path, one.tgid, [])
        sockets = TracedSockets(tmp_path)

        assert sockets(traced).unread == {"descriptors": 4}
        assert sockets(traced).unread == {"descriptors": 4}

    def test_descriptors_are_reused_for_5_seconds(self, tmp_path: Path, connection: socket.socket) -> None:
        """A new socket is found later."""
        clock = Clock()
        _process(tmp_path, 7, [])
        sockets = TracedSockets(tmp_path, clock=clock)
        sockets([TracedProcess(1, 7, RANK)])
        inode = os.fstat(connection.fileno()).st_ino
        (tmp_path / "7" / "fd" / "3").symlink_to(f"socket:[{inode}]")

        assert sockets([TracedProcess(1, 7, RANK)]).by_process == {}
        clock.now += FRESH_SECONDS
        # The dump uses the real clock, which is far behind, so that its deadline has passed.
        assert set(sockets([TracedProcess(1, 7, RANK)]).unread) <= {"deadline"}
        assert sockets._descriptors[7].sockets == {inode}

    def test_process_skipped_at_the_deadline_is_counted(self, tmp_path: Path) -> None:
        _process(tmp_path, 7, [])
        read = TracedSockets(tmp_path, clock=Clock(step=1.0))([TracedProcess(1, 7, RANK)])

        assert read.unread == {"descriptors": 1}
