"""What systemd is told: that we serve, that we live, that we read the configuration again, that we stop. sd_notify(3).

Nothing is said where nobody listens, which is when NOTIFY_SOCKET is not set.
"""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Mapping

log = logging.getLogger(__name__)

_MICROSECONDS = 1_000_000


class ServiceManager:
    """environment: as it was at the start."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._address = environment.get("NOTIFY_SOCKET", "")
        if self._address.startswith("@"):
            self._address = "\0" + self._address[1:]
        self._due_at = 0.0
        self._alive_seconds = _watchdog_seconds(environment) / 2

    def ready(self, status: str) -> None:
        """The first tick is over. status: what `systemctl status` shows."""
        self._say(f"READY=1\nSTATUS={status}")

    def alive(self) -> None:
        """To be called at every tick; says so as often as WatchdogSec= wants it."""
        now = time.monotonic()
        if self._alive_seconds and now >= self._due_at:
            self._due_at = now + self._alive_seconds
            self._say("WATCHDOG=1")

    def reloading(self) -> None:
        """Until ready() is said again."""
        self._say(f"RELOADING=1\nMONOTONIC_USEC={time.monotonic_ns() // 1000}")

    def stopping(self) -> None:
        """The last pushes are under way."""
        self._say("STOPPING=1")

    def _say(self, text: str) -> None:
        if not self._address:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as out:
                out.setblocking(False)
                out.sendto(text.encode(), self._address)
        except OSError as error:
            log.debug("the service manager was not told %r: %s", text, error.strerror)


def _watchdog_seconds(environment: Mapping[str, str]) -> float:
    """0 where nobody watches us."""
    text = environment.get("WATCHDOG_USEC", "")
    is_ours = environment.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
    return int(text) / _MICROSECONDS if is_ours and text.isascii() and text.isdigit() else 0.0
