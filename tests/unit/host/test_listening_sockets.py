"""listening_sockets: rows of /proc/TGID/net/tcp and tcp6, of which a process has descriptors."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from exporter.host.listening_sockets import Listener, listeners
from exporter.host.processes import Processes

HEADING = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n"
TGID = 500


def row(address: str, inode: int, state: str = "0A") -> str:
    return (
        f"   0: {address} 00000000:0000 {state} 00000000:00000000 00:00000000 00000000  1000        0 {inode} 1 0 100\n"
    )


def process(proc: Path, tcp: str, tcp6: str = "", sockets: tuple[int, ...] = ()) -> Processes:
    """A process with these tables, and these sockets among its descriptors."""
    folder = proc / f"{TGID}"
    (folder / "net").mkdir(parents=True)
    (folder / "net" / "tcp").write_text(HEADING + tcp)
    (folder / "net" / "tcp6").write_text(HEADING + tcp6)
    (folder / "fd").mkdir()
    for number, inode in enumerate(sockets):
        (folder / "fd" / f"{number}").symlink_to(f"socket:[{inode}]")
    return Processes(proc)


@pytest.mark.skipif(os.sys.byteorder != "little", reason="the rows are of a little-endian machine")
class TestListeners:
    def test_own_socket_on_the_port(self, tmp_path: Path) -> None:
        """6D7C is 28028."""
        processes = process(tmp_path, row("0100007F:6D7C", 7), sockets=(7,))

        assert listeners(processes, TGID, 28028) == [Listener("127.0.0.1", 28028, 7, is_ipv6=False)]

    def test_socket_of_another_process(self, tmp_path: Path) -> None:
        assert listeners(process(tmp_path, row("0100007F:6D7C", 7), sockets=(8,)), TGID, 28028) == []

    def test_another_port(self, tmp_path: Path) -> None:
        assert listeners(process(tmp_path, row("0100007F:6D7D", 7), sockets=(7,)), TGID, 28028) == []

    def test_connection_is_no_listener(self, tmp_path: Path) -> None:
        assert listeners(process(tmp_path, row("0100007F:6D7C", 7, state="01"), sockets=(7,)), TGID, 28028) == []

    @pytest.mark.parametrize(
        ("local", "address"),
        [
            ("00000000000000000000000001000000", "::1"),
            ("00000000000000000000000000000000", "::1"),
            ("B80D0120000000000000000001000000", "2001:db8::1"),
        ],
    )
    def test_address_of_ipv6(self, tmp_path: Path, local: str, address: str) -> None:
        """A wildcard is reached on loopback."""
        processes = process(tmp_path, "", row(f"{local}:6D7C", 7), sockets=(7,))

        assert listeners(processes, TGID, 28028) == [Listener(address, 28028, 7, is_ipv6=True)]

    def test_process_that_has_ended(self, tmp_path: Path) -> None:
        assert listeners(Processes(tmp_path), TGID, 28028) == []


def test_real_socket_of_this_process() -> None:
    with socket.create_server(("127.0.0.1", 0)) as one:
        port = one.getsockname()[1]
        inode = os.fstat(one.fileno()).st_ino

        assert listeners(Processes(), os.getpid(), port) == [Listener("127.0.0.1", port, inode, is_ipv6=False)]
