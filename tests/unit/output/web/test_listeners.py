"""web.listeners: sockets at addresses, and those of a service manager."""

from __future__ import annotations

import fcntl
import os
import socket
from pathlib import Path

import pytest

from exporter.errors import BadInput
from exporter.output.web.listeners import from_systemd, listening, url_of
from tests.support.patience import PATIENCE_SECONDS


class TestListening:
    """--web.listen-address."""

    def test_every_address_has_a_socket(self) -> None:
        """IPv4 and IPv6 may have the same port."""
        first, second = listening([("127.0.0.1", 0), ("127.0.0.2", 0)])
        with first, second:
            assert [one.getsockname()[0] for one in (first, second)] == ["127.0.0.1", "127.0.0.2"]

    def test_empty_host_is_every_address(self) -> None:
        """IPv4, and IPv6 if the machine has it."""
        (found,) = listening([("", 0)])
        with found:
            port = found.getsockname()[1]
            for host in ("127.0.0.1", "::1") if found.family == socket.AF_INET6 else ("127.0.0.1",):
                socket.create_connection((host, port), timeout=PATIENCE_SECONDS).close()

    def test_ipv6(self) -> None:
        """The IPv4 port of the same number stays free."""
        try:
            (found,) = listening([("::1", 0)])
        except BadInput:
            pytest.skip("this machine has no IPv6 loopback address")
        with found:
            port = found.getsockname()[1]
            with listening([("127.0.0.2", port)])[0]:  # other tests take ports of 127.0.0.1
                assert url_of(found, is_tls=True) == f"https://[::1]:{port}"

    def test_taken_port_is_bad_input(self) -> None:
        """With a remedy."""
        (found,) = listening([("127.0.0.1", 0)])
        with found:
            port = found.getsockname()[1]
            with pytest.raises(BadInput, match=f"cannot listen on 127.0.0.1:{port}: Address already in use") as raised:
                listening([("127.0.0.1", port)])

        assert raised.value.remedy == "choose another --web.listen-address"

    def test_address_of_another_machine_is_bad_input(self) -> None:
        """192.0.2.0/24 is reserved for documentation; the socket that was opened first is closed."""
        free = listening([("127.0.0.1", 0)])[0]
        address = free.getsockname()
        free.close()
        with pytest.raises(BadInput, match=r"cannot listen on 192\.0\.2\.1:0"):
            listening([address, ("192.0.2.1", 0)])

        listening([address])[0].close()


class TestHandedOver:
    """--web.systemd-socket."""

    @pytest.mark.parametrize(
        "environment",
        [{}, {"LISTEN_FDS": "1"}, {"LISTEN_FDS": "1", "LISTEN_PID": "1"}, {"LISTEN_FDS": "x", "LISTEN_PID": "me"}],
    )
    def test_no_socket_is_bad_input(self, environment: dict[str, str]) -> None:
        """Or sockets for another process."""
        variables = {name: str(os.getpid()) if value == "me" else value for name, value in environment.items()}
        with pytest.raises(BadInput, match="no socket was passed"):
            from_systemd(variables)

    def test_only_listening_sockets_are_used(self, tmp_path: Path) -> None:
        """In a process of its own, whose descriptors 3, 4 and 5 are a file, a datagram socket and one that listens."""
        told, asking = os.pipe()
        child = os.fork()
        if child == 0:
            _as_started_by_systemd(tmp_path, asking)
        os.close(asking)
        with os.fdopen(told) as answer:
            said = answer.read()
        os.waitpid(child, 0)

        assert said == f"unix:{tmp_path}/listening"


def _as_started_by_systemd(folder: Path, asking: int) -> None:
    """Never returns."""
    try:
        stream, datagram = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        stream.bind(f"{folder}/listening")
        stream.listen()
        # The numbers from 3 on may be in use, by what has just been opened as well.
        asking = fcntl.fcntl(asking, fcntl.F_DUPFD, 64)
        opened = (os.open("/dev/null", 0), datagram.fileno(), stream.fileno())
        sources = [fcntl.fcntl(one, fcntl.F_DUPFD, 64) for one in opened]
        for n, one in enumerate(sources):
            os.dup2(one, 3 + n)
        found = from_systemd({"LISTEN_FDS": "3", "LISTEN_PID": str(os.getpid())})
        os.write(asking, ",".join(url_of(one, is_tls=False) for one in found).encode())
    finally:
        os._exit(0)
