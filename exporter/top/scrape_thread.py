"""Scrapes at an interval in a thread, so that a slow server does not delay the keys of the table.

The thread blocks all signals, so that they reach the thread of the terminal.
"""

from __future__ import annotations

import queue
import signal
import threading
import time
from collections.abc import Callable
from typing import NamedTuple

from exporter.errors import ExporterError
from exporter.scrape.view import View


class ScrapeResult(NamedTuple):
    """view: None after a failure."""

    view: View | None
    failure: str = ""


class ScrapeThread:
    """Calls `scrape` every interval, the first time after one. scrape: raises ExporterError when it fails."""

    def __init__(self, scrape: Callable[[], View], interval_seconds: float) -> None:
        self._scrape = scrape
        self._interval_seconds = interval_seconds
        self._results: queue.SimpleQueue[ScrapeResult | Exception] = queue.SimpleQueue()
        self._stopping = threading.Event()
        # A daemon, since it may hang in a request at the end of the program.
        self._thread = threading.Thread(target=self._run, name="scrape", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Begin no further scrape."""
        self._stopping.set()

    def join(self) -> None:
        self._thread.join()

    def latest(self) -> ScrapeResult | None:
        """The newest result since the last call; None if there is none. Raises the exception of a defect in scrape()."""
        found = None
        while not self._results.empty():
            result = self._results.get()
            if isinstance(result, Exception):
                raise result
            found = result
        return found

    def _run(self) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        due = time.monotonic()
        while True:
            now = time.monotonic()
            due = max(due + self._interval_seconds, now)
            if self._stopping.wait(due - now):
                return
            try:
                self._results.put(ScrapeResult(self._scrape()))
            except ExporterError as error:
                self._results.put(ScrapeResult(None, str(error)))
            except Exception as defect:
                self._results.put(defect)  # the main thread raises it once the terminal is restored
                return
