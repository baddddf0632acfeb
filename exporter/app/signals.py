"""Signals of the running exporter: stop, reload the configuration, remove the probes."""

from __future__ import annotations

import logging
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Protocol

log = logging.getLogger(__name__)


class SignalTarget(Protocol):
    """The daemon, or a fake in its place; each method returns at once."""

    def stop(self) -> None:
        """SIGINT, SIGTERM."""

    def reload(self) -> object:
        """SIGHUP."""

    def disable_probes(self) -> None:
        """SIGUSR1."""


@contextmanager
def handling_signals(daemon: SignalTarget) -> Iterator[None]:
    """SIGINT and SIGTERM stop the daemon, SIGHUP reloads its configuration, SIGUSR1 removes its probes, while the block lasts."""

    def stop(number: int, _frame: FrameType | None) -> None:
        log.info("stopping on %s", signal.Signals(number).name)
        daemon.stop()

    def disable_probes(_number: int, _frame: FrameType | None) -> None:
        daemon.disable_probes()

    def reload(_number: int, _frame: FrameType | None) -> None:
        daemon.reload()

    handlers = {
        signal.SIGINT: stop,
        signal.SIGTERM: stop,
        signal.SIGHUP: reload,
        signal.SIGUSR1: disable_probes,
    }
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    signal.pthread_sigmask(signal.SIG_UNBLOCK, handlers)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
