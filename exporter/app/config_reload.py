"""Requests to read the configuration again: made from any thread or a signal handler, run by the loop.

In: a function that reads it, and returns the flags whose change needs a restart. Out: a Future for each request.
"""

from __future__ import annotations

import logging
import queue
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress

from exporter.errors import ExporterError

log = logging.getLogger(__name__)

NeedsRestart = Sequence[str]
"""Flags whose change needs a restart."""


class Reloads:
    """reload: raises ExporterError after it has logged it. failed: called for any other exception."""

    def __init__(self, reload: Callable[[], NeedsRestart], failed: Callable[[], None]) -> None:
        self._reload = reload
        self._failed = failed
        self._requested: queue.SimpleQueue[Future[NeedsRestart]] = queue.SimpleQueue()
        self._is_closed = False

    def request(self) -> Future[NeedsRestart]:
        """Done when the configuration is in force, or stays as it was."""
        requested: Future[NeedsRestart] = Future()
        self._requested.put(requested)
        if self._is_closed:
            self._refuse()
        return requested

    def run_requested(self) -> None:
        """Read it for every request so far."""
        while not self._requested.empty():
            requested = self._requested.get()
            try:
                requested.set_result(self._reload())
            except ExporterError as error:
                requested.set_exception(error)
            except Exception as error:
                self._failed()
                log.exception("configuration not reloaded, the old one stays in force: internal error (bug)")
                requested.set_exception(
                    ExporterError(f"{type(error).__name__}, an internal error (bug): see the log of the exporter")
                )

    def close(self) -> None:
        """Fail all requests, those of later included: the loop has ended."""
        self._is_closed = True
        self._refuse()

    def _refuse(self) -> None:
        with suppress(queue.Empty):
            while True:
                self._requested.get_nowait().set_exception(ExporterError("the exporter is stopping"))
