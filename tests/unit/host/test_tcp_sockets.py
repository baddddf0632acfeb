"""tcp_sockets: descriptors of a fake /proc, and sockets of this process in the kernel's dump, which needs no capability."""

from __future__ import annotations

import os
import socket
import time
from contextlib import closing
from pathlib import Path

import pytest

from exporter.errors import NotPossibleHere
from exporter.host import netlink, tcp_sockets
from tests.support.patience import PATIENCE_SECONDS


def _proc(folder: Path, *links: str) -> str:
    (folder / "7" / "fd").mkdir(parents=True)
    for number, link in enumerate(links):
        (folder / "7" / "fd" / str(number)).symlink_to(link)
    return str(folder)


class TestDescriptors:
    """/proc/TGID/fd."""

    def test_sockets_are_found_by_their_inode(self, tmp_path: Path) -> None:
        """Among files, pipes and devices."""
        proc = _proc(tmp_path, "/dev/null", "socket:[4711]", "pipe:[12]", "socket:[4712]", "anon_inode:[eventpoll]")

        assert tcp_sockets.socket_inodes(proc, 7) == (frozenset({4711, 4712}), True)

    def test_process_that_is_gone_has_no_sockets(self, tmp_path: Path) -> None:
        assert tcp_sockets.socket_inodes(str(tmp_path), 7) == (frozenset(), True)

    def test_descriptors_beyond_the_limit_are_not_read(self, tmp_path: Path) -> None:
        """The first 4,096 of 4,100; is_whole is false."""
        proc = _proc(tmp_path, *(f"socket:[{n}]" for n in range(4100)))
        found = tcp_sockets.socket_inodes(proc, 7)

        assert (len(found.sockets), found.is_whole) == (4096, False)

    def test_children_are_those_of_the_main_thread(self, tmp_path: Path) -> None:
        (tmp_path / "7" / "task" / "7").mkdir(parents=True)
        (tmp_path / "7" / "task" / "7" / "children").write_text("8 9 ")

        assert tcp_sockets.children(str(tmp_path), 7) == [8, 9]
        assert tcp_sockets.children(str(tmp_path), 8) == []


class TestUser:
    """Who has the other end of a connection."""

    @pytest.mark.parametrize(
        ("listens_on", "connects_to"), [("127.0.0.1", "127.0.0.1"), ("::1", "::1"), ("::", "127.0.0.7")]
    )
    def test_connection_of_this_process_is_this_users(self, listens_on: str, connects_to: str) -> None:
        """Also where a client uses IPv4 and the server IPv6."""
        family = socket.AF_INET6 if ":" in listens_on else socket.AF_INET
        try:
            listener = socket.create_server((listens_on, 0), family=family, dualstack_ipv6=listens_on == "::")
        except OSError:
            pytest.skip(f"there is no {listens_on} here")
        with listener, socket.create_connection((connects_to, listener.getsockname()[1])):
            other, _ = listener.accept()
            with other:
                found = tcp_sockets.user_of(other.getpeername()[:2], other.getsockname()[:2])

        assert found == os.getuid()

    def test_connection_from_elsewhere_has_no_known_user(self) -> None:
        """192.0.2.1 is of no machine."""
        assert tcp_sockets.user_of(("192.0.2.1", 4711), ("127.0.0.1", 1)) is None


class TestDump:
    """A connection of this process over the loopback interface."""

    @pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
    def test_wanted_socket_is_returned(self, address: str) -> None:
        """With its peer's port, segments sent, and round-trip time; not the listener and the other end."""
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        try:
            listener = socket.create_server((address, 0), family=family)
        except OSError:
            pytest.skip(f"there is no {address} here")
        port = listener.getsockname()[1]
        began_ns = time.monotonic_ns()
        with listener, socket.create_connection((address, port)) as client:
            other, _ = listener.accept()
            with other, closing(netlink.diag_socket()) as one:
                client.send(bytes(100))
                other.recv(100)
                until = time.monotonic() + PATIENCE_SECONDS
                (found,) = tcp_sockets.tcp_sockets(one, {os.fstat(client.fileno()).st_ino}, until)

        assert found.peer_port == port
        assert found.segments >= 2
        assert found.retransmits == 0
        assert 0 < found.round_trip_ns < time.monotonic_ns() - began_ns
        assert found.window > 0
        assert found.cookie > 0

    def test_passed_deadline_ends_the_dump(self) -> None:
        with closing(netlink.diag_socket()) as one, pytest.raises(netlink.DumpTimedOut):
            list(tcp_sockets.tcp_sockets(one, {1}, time.monotonic() - 1))

    def test_refused_request_raises_not_possible_here(self) -> None:
        """A request that the kernel does not know."""
        with closing(netlink.diag_socket()) as one, pytest.raises(NotPossibleHere):
            list(netlink.dump(one, 77, bytes(8), time.monotonic() + PATIENCE_SECONDS))
