"""Signals of the running exporter: stop, reload the configuration, remove the probes."""

from __future__ import annotations

import logging
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

log = logging.getLogger(__name__)


@contextmanager
def handling_signals(
    *, stop: Callable[[], object], reload: Callable[[], object], disable_probes: Callable[[], object]
) -> Iterator[None]:
    """While the block lasts: SIGINT and SIGTERM call stop, SIGHUP reload, SIGUSR1 disable_probes. Each must return at once."""

    def on_stop(number: int, _frame: FrameType | None) -> None:
        log.info("stopping on %s", signal.Signals(number).name)
        stop()

    def on_reload(_number: int, _frame: FrameType | None) -> None:
        reload()

    def on_disable_probes(_number: int, _frame: FrameType | None) -> None:
        disable_probes()

    handlers = {
        signal.SIGINT: on_stop,
        signal.SIGTERM: on_stop,
        signal.SIGHUP: on_reload,
        signal.SIGUSR1: on_disable_probes,
    }
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    signal.pthread_sigmask(signal.SIG_UNBLOCK, handlers)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
