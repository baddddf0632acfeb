"""Notifies systemd (sd_notify(3)) that the exporter serves, is alive, reloads or stops. Does nothing without NOTIFY_SOCKET."""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Mapping

log = logging.getLogger(__name__)

_MICROSECONDS = 1_000_000


class ServiceManager:
    """environment: of the process at its start."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._address = environment.get("NOTIFY_SOCKET", "")
        if self._address.startswith("@"):
            self._address = "\0" + self._address[1:]
        self._due_at = 0.0
        self._alive_seconds = _watchdog_seconds(environment) / 2

    def ready(self, status: str) -> None:
        """status: what `systemctl status` shows."""
        self._send(f"READY=1\nSTATUS={status}")

    def alive(self) -> None:
        """Called at every tick; pets the watchdog as often as WatchdogSec= needs it."""
        now = time.monotonic()
        if self._alive_seconds and now >= self._due_at:
            self._due_at = now + self._alive_seconds
            self._send("WATCHDOG=1")

    def reloading(self) -> None:
        """Until the next ready()."""
        self._send(f"RELOADING=1\nMONOTONIC_USEC={time.monotonic_ns() // 1000}")

    def stopping(self) -> None:
        self._send("STOPPING=1")

    def _send(self, text: str) -> None:
        if not self._address:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as out:
                out.setblocking(False)
                out.sendto(text.encode(), self._address)
        except OSError as error:
            log.debug("cannot notify systemd of %r: %s", text, error.strerror)


def _watchdog_seconds(environment: Mapping[str, str]) -> float:
    """Seconds within which systemd wants a sign of life from this process; 0 without a watchdog."""
    text = environment.get("WATCHDOG_USEC", "")
    is_ours = environment.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
    return int(text) / _MICROSECONDS if is_ours and text.isascii() and text.isdigit() else 0.0
