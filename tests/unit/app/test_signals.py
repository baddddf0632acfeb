"""app.signals: what each signal calls."""

from __future__ import annotations

import os
import signal
from functools import partial

import pytest

from exporter.app.signals import handling_signals


@pytest.mark.parametrize(
    ("number", "call"),
    [
        (signal.SIGINT, "stop"),
        (signal.SIGTERM, "stop"),
        (signal.SIGHUP, "reload"),
        (signal.SIGUSR1, "disable_probes"),
    ],
)
def test_signal_calls_its_function(number: signal.Signals, call: str) -> None:
    """Once, in the main thread."""
    calls: list[str] = []
    with handling_signals(
        stop=partial(calls.append, "stop"),
        reload=partial(calls.append, "reload"),
        disable_probes=partial(calls.append, "disable_probes"),
    ):
        os.kill(os.getpid(), number)

    assert calls == [call]


def test_handlers_are_restored() -> None:
    """After the block a signal does what it did before."""
    before = signal.getsignal(signal.SIGHUP)
    with handling_signals(stop=lambda: None, reload=lambda: None, disable_probes=lambda: None):
        pass

    assert signal.getsignal(signal.SIGHUP) is before
