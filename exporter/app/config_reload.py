"""Who wants the configuration to be read again? Asked from any thread or a signal handler, obeyed by the loop.

In: a function that reads it, and returns the flags whose change needs a restart. Out: a Future for each who asks.
"""

from __future__ import annotations

import logging
import queue
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress

from exporter.errors import ExporterError

log = logging.getLogger(__name__)

Left = Sequence[str]
"""Flags whose change needs a restart."""


class Reloads:
    """reload: raises ExporterError, and then has said so. failed: is told of a defect, which has not."""

    def __init__(self, reload: Callable[[], Left], failed: Callable[[], None]) -> None:
        self._reload = reload
        self._failed = failed
        self._asked: queue.SimpleQueue[Future[Left]] = queue.SimpleQueue()
        self._is_closed = False

    def ask(self) -> Future[Left]:
        """Done when the configuration is in force, or stays as it was."""
        asked: Future[Left] = Future()
        self._asked.put(asked)
        if self._is_closed:
            self._refuse()
        return asked

    def obey(self) -> None:
        """All that have been asked for."""
        while not self._asked.empty():
            asked = self._asked.get()
            try:
                asked.set_result(self._reload())
            except ExporterError as error:
                asked.set_exception(error)
            except Exception as error:
                self._failed()
                log.exception("the configuration stays as it was")
                asked.set_exception(ExporterError(f"a defect, {type(error).__name__}: the log says more"))

    def close(self) -> None:
        """Nobody obeys any more, and nobody is kept waiting."""
        self._is_closed = True
        self._refuse()

    def _refuse(self) -> None:
        with suppress(queue.Empty):
            while True:
                self._asked.get_nowait().set_exception(ExporterError("the exporter is stopping"))
