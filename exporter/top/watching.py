"""Scraping at an interval, beside whoever looks at it: a server that is slow, or huge, holds up no key.

In: a function that makes a View or raises. Out: the latest News. The thread takes no signals, so that they reach the
terminal's own.
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


class News(NamedTuple):
    """What came of one scrape: a View, or why there is none."""

    view: View | None
    failure: str = ""


class Watcher:
    """Calls `look` every interval, the first time after one. look: raises an ExporterError for a scrape that failed."""

    def __init__(self, look: Callable[[], View], interval_seconds: float) -> None:
        self._look = look
        self._interval_seconds = interval_seconds
        self._news: queue.SimpleQueue[News | Exception] = queue.SimpleQueue()
        self._stopping = threading.Event()
        # Nobody waits for its end: it may hang in a request, and has nothing to lose.
        self._thread = threading.Thread(target=self._run, name="scrape", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """No scrape begins any more."""
        self._stopping.set()

    def join(self) -> None:
        """Until it has ended."""
        self._thread.join()

    def latest(self) -> News | None:
        """The last news that nobody has been told of; None for none. Raises what broke the watching, a defect of ours."""
        found = None
        while not self._news.empty():
            one = self._news.get()
            if isinstance(one, Exception):
                raise one
            found = one
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
                self._news.put(News(self._look()))
            except ExporterError as error:
                self._news.put(News(None, str(error)))
            except Exception as defect:
                self._news.put(defect)  # the main thread raises it, when the terminal is its old self again
                return
