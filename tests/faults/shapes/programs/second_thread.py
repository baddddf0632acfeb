"""A second thread of a job that acts once in each step while the step goes on or waits for it."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod


class SecondThread(ABC):
    """act() runs in the thread `name`; the step goes on when it has set `begun`."""

    def __init__(self, name: str) -> None:
        self.begun = threading.Event()
        self._go = threading.Event()
        self._seconds = 0.0
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    @abstractmethod
    def act(self, seconds: float) -> None:
        """So long."""

    def step(self, seconds: float) -> None:
        self._seconds = seconds
        self.begun.clear()
        self._go.set()
        self.begun.wait()

    def close(self) -> None:
        self._is_closed = True
        self._go.set()
        self._thread.join()

    def _run(self) -> None:
        while True:
            self._go.wait()
            self._go.clear()
            if self._is_closed:
                return
            self.act(self._seconds)
