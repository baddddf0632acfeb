"""app.systemd_notify: messages on a socket of the test."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from exporter.app.systemd_notify import ServiceManager


@pytest.fixture
def systemd(tmp_path: Path) -> Iterator[socket.socket]:
    """Its end."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(str(tmp_path / "notify"))
        listening.setblocking(False)
        yield listening


def manager(systemd: socket.socket, **environment: str) -> ServiceManager:
    """As systemd starts it."""
    return ServiceManager({"NOTIFY_SOCKET": systemd.getsockname(), **environment})


def heard(systemd: socket.socket) -> list[str]:
    """All messages until now."""
    messages = []
    while True:
        try:
            messages.append(systemd.recv(4096).decode())
        except BlockingIOError:
            return messages


class TestMessages:
    """sd_notify(3)."""

    def test_ready_comes_with_a_status(self, systemd: socket.socket) -> None:
        """Which `systemctl status` shows."""
        manager(systemd).ready("serving")

        assert heard(systemd) == ["READY=1\nSTATUS=serving"]

    def test_reloading_carries_the_monotonic_time(self, systemd: socket.socket) -> None:
        """In microseconds, by which systemd knows which reload it was."""
        manager(systemd).reloading()

        assert re.fullmatch(r"RELOADING=1\nMONOTONIC_USEC=[0-9]+", heard(systemd)[0])

    def test_stopping_is_sent(self, systemd: socket.socket) -> None:
        """While the last pushes are under way."""
        manager(systemd).stopping()

        assert heard(systemd) == ["STOPPING=1"]

    def test_socket_may_have_an_abstract_name(self) -> None:
        """Which begins with @."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
            listening.bind(f"\0tests-{os.getpid()}")
            listening.settimeout(5)
            ServiceManager({"NOTIFY_SOCKET": f"@tests-{os.getpid()}"}).stopping()

            assert listening.recv(64) == b"STOPPING=1"

    def test_missing_listener_is_no_error(self, tmp_path: Path) -> None:
        """Neither without systemd, nor when its socket is gone."""
        ServiceManager({}).ready("serving")
        ServiceManager({"NOTIFY_SOCKET": str(tmp_path / "gone")}).ready("serving")


class TestWatchdog:
    """alive()."""

    def test_watchdog_is_petted_at_half_of_its_timeout(self, systemd: socket.socket) -> None:
        """Twice at once are one message."""
        service = manager(systemd, WATCHDOG_USEC="60000000")
        service.alive()
        service.alive()

        assert heard(systemd) == ["WATCHDOG=1"]

    @pytest.mark.parametrize(
        "environment",
        [{}, {"WATCHDOG_USEC": "soon"}, {"WATCHDOG_USEC": "60000000", "WATCHDOG_PID": "1"}],
        ids=["none", "malformed", "another process"],
    )
    def test_nothing_is_sent_without_a_watchdog(self, systemd: socket.socket, environment: dict[str, str]) -> None:
        """Or with one for another process."""
        manager(systemd, **environment).alive()

        assert heard(systemd) == []
