"""Has calls made by a thread that may be left alone with them, so that a call that never returns costs nobody more than a moment.

In: errands, each some calls for one purpose. Out: their answers, or that there was none in time. The helper whose call does not
return is left to it, and ends when it does, if ever: as a daemon thread it does not keep the process. Another takes its place.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from exporter.errors import ExporterError
from exporter.units import seconds

T = TypeVar("T")

Note = Callable[[str], None]
"""Is told the name of a function before it is called."""
Wait = Callable[[threading.Event, float], object]
"""For the event, so many seconds at most."""


class Stopping(Exception):
    """There is no time to wait for the answer."""


class CallTimedOut(ExporterError):
    """errand: the one that hangs."""

    def __init__(self, errand: DriverCall, after_seconds: float) -> None:
        super().__init__(f"{errand.call} has not returned for {after_seconds:.3g} s; it is not asked again before that")
        self.errand = errand


class _Abandoned(Exception):
    """Nobody waits for this errand any more."""


class DriverCall:
    """Some calls for one purpose. is_over: it has returned, with an answer or an error. news: look again."""

    def __init__(self, ask: Callable[[Note], Any], clock_ns: Callable[[], int]) -> None:
        self._ask = ask
        self._clock_ns = clock_ns
        self.call = ""
        self.called_ns = clock_ns()
        self.is_over = False
        self.is_abandoned = False
        self.news = threading.Event()
        self.answer: Any = None
        self.error: Exception | None = None

    def note(self, call: str) -> None:
        """A call begins; none does any more where nobody waits for it."""
        if self.is_abandoned:
            raise _Abandoned
        self.call, self.called_ns = call, self._clock_ns()

    def run(self) -> None:
        """In the helper."""
        try:
            self.answer = self._ask(self.note)
        except Exception as error:  # whoever waits for the answer gets it
            self.error = error
        self.is_over = True
        self.news.set()


class _Helper:
    """A thread that runs errands until it is told to leave."""

    def __init__(self) -> None:
        self._errands: queue.SimpleQueue[DriverCall | None] = queue.SimpleQueue()
        self._is_left = False
        threading.Thread(target=self._run, name="driver", daemon=True).start()

    def do(self, errand: DriverCall) -> None:
        """Soon."""
        self._errands.put(errand)

    def leave(self) -> None:
        """End once the present errand is over."""
        self._is_left = True
        self._errands.put(None)

    def _run(self) -> None:
        while not self._is_left:
            errand = self._errands.get()
            if errand is None:
                return
            errand.run()


class CallThreads:
    """One at a time. clock_ns: CLOCK_MONOTONIC. stop() by any thread, ask() by one."""

    def __init__(self, clock_ns: Callable[[], int], wait: Wait) -> None:
        self._clock_ns = clock_ns
        self._wait = wait
        self._helper: _Helper | None = None
        self._errand: DriverCall | None = None
        self.stopping = threading.Event()

    def ask(self, ask: Callable[[Note], T], call_seconds: float) -> T:
        """The answer. Raises what the errand does, Unanswered, and Stopping. call_seconds: for each call."""
        errand = self._errand = DriverCall(ask, self._clock_ns)
        helper = self._helper = self._helper or _Helper()
        helper.do(errand)
        while not errand.is_over:
            if self.stopping.is_set():
                raise Stopping
            left_seconds = call_seconds - seconds(self._clock_ns() - errand.called_ns)
            if left_seconds <= 0:
                errand.is_abandoned = True
                helper.leave()
                self._helper = None
                raise CallTimedOut(errand, call_seconds)
            self._wait(errand.news, left_seconds)
        if errand.error is not None:
            raise errand.error
        answer: T = errand.answer
        return answer

    def stop(self) -> None:
        """Whoever waits stops waiting."""
        self.stopping.set()
        if self._errand is not None:
            self._errand.news.set()
        if self._helper is not None:
            self._helper.leave()
