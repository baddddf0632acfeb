"""A thread that exists while there is work: pieces of work wait in a bounded queue, and the thread ends when none is left."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable
from typing import Final

log = logging.getLogger(__name__)

STOP_SECONDS: Final = 2.0
"""A stop waits so long for work that has begun, which may itself wait for a lock in the kernel or for an answer."""


class OnDemandThread:
    """name: of the thread. waiting_max: pieces of work that wait. on_idle: called in the thread before it ends."""

    def __init__(self, name: str, waiting_max: int, on_idle: Callable[[], None] = lambda: None) -> None:
        self._name = name
        self._waiting_max = waiting_max
        self._on_idle = on_idle
        self._work: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._lock = threading.Lock()  # for the next three
        self._waiting = 0
        self._thread: threading.Thread | None = None
        self._is_closed = False

    def run(self, work: Callable[[], None]) -> bool:
        """Queues work; False where too much waits. Never blocks."""
        with self._lock:
            if self._waiting >= self._waiting_max:
                return False
            self._waiting += 1
            self._work.put(work)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()
            return True

    def close(self) -> None:
        """Drops the work that waits. Returns at once."""
        with self._lock:
            self._is_closed = True

    def join(self) -> None:
        """Waits for the work that has begun, STOP_SECONDS at most."""
        with self._lock:
            thread = self._thread
        if thread is not None:
            thread.join(STOP_SECONDS)

    def _run(self) -> None:
        while True:
            with self._lock:
                if self._is_closed or not self._waiting:
                    self._thread = None
                    break
                work = self._work.get()
                self._waiting -= 1
            try:
                work()
            except Exception:  # a defect must not lose the next work
                log.exception("%s: failed: internal error (bug)", self._name)
        self._on_idle()
