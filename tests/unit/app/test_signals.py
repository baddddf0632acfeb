"""app.signals: what each signal asks of the daemon."""

from __future__ import annotations

import os
import signal

import pytest

from exporter.app.signals import handling_signals


class _Daemon:
    """Notes the calls."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def stop(self) -> None:
        self.calls.append("stop")

    def reload(self) -> None:
        self.calls.append("reload")

    def disable_probes(self) -> None:
        self.calls.append("disable_probes")


@pytest.mark.parametrize(
    ("number", "call"),
    [
        (signal.SIGINT, "stop"),
        (signal.SIGTERM, "stop"),
        (signal.SIGHUP, "reload"),
        (signal.SIGUSR1, "disable_probes"),
    ],
)
def test_signal_calls_the_daemon(number: signal.Signals, call: str) -> None:
    """Once, in the main thread."""
    daemon = _Daemon()
    with handling_signals(daemon):
        os.kill(os.getpid(), number)

    assert daemon.calls == [call]


def test_handlers_are_restored() -> None:
    """After the block a signal does what it did before."""
    before = signal.getsignal(signal.SIGHUP)
    with handling_signals(_Daemon()):
        pass

    assert signal.getsignal(signal.SIGHUP) is before
