"""Runs driver calls with a timeout: a call that hangs costs one thread and is skipped until it returns.

In: functions that make a few calls for one purpose. Out: their results, or CallTimedOut. They run in a worker thread. When a call
does not return in time, its worker is abandoned: it ends when the call returns, if ever, and as a daemon thread it does not keep
the process alive. The next function gets a new worker.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from exporter.errors import ExporterError
from exporter.units import seconds

T = TypeVar("T")

BeforeCall = Callable[[str], None]
"""Called with the name of a driver function before that is called. What it raises must not be caught."""
Wait = Callable[[threading.Event, float], object]
"""Waits for the event for so many seconds at most."""


class Stopping(Exception):
    """The exporter stops, and does not wait for the result."""


class CallTimedOut(ExporterError):
    """hung: the call that has not returned."""

    def __init__(self, hung: DriverCall, after_seconds: float) -> None:
        super().__init__(f"NVML call {hung.function} timed out after {after_seconds:.3g} s; skipped until it returns")
        self.hung = hung


class _Abandoned(Exception):
    """The result of this function is not wanted any more."""


class DriverCall:
    """A function that makes driver calls, run by a worker. changed: set when it has returned, or when to look at it again."""

    def __init__(self, run: Callable[[BeforeCall], Any], clock_ns: Callable[[], int]) -> None:
        self._run = run
        self._clock_ns = clock_ns
        self.function = ""
        """The driver function that was called last."""
        self.called_ns = clock_ns()
        self.has_returned = False
        self.is_abandoned = False
        self.changed = threading.Event()
        self.result: Any = None
        self.error: Exception | None = None

    def before_call(self, function: str) -> None:
        """Restart the timeout; make no further call when abandoned."""
        if self.is_abandoned:
            raise _Abandoned
        self.function, self.called_ns = function, self._clock_ns()

    def run(self) -> None:
        """Called by the worker."""
        try:
            self.result = self._run(self.before_call)
        except Exception as error:  # raised again by CallThreads.run()
            self.error = error
        self.has_returned = True
        self.changed.set()


class _Worker:
    """A thread that runs driver calls in order."""

    def __init__(self) -> None:
        self._calls: queue.SimpleQueue[DriverCall | None] = queue.SimpleQueue()
        self._is_stopped = False
        threading.Thread(target=self._run, name="driver", daemon=True).start()

    def start(self, call: DriverCall) -> None:
        self._calls.put(call)

    def stop(self) -> None:
        """End the thread once its present call has returned."""
        self._is_stopped = True
        self._calls.put(None)

    def _run(self) -> None:
        while not self._is_stopped:
            call = self._calls.get()
            if call is None:
                return
            call.run()


class CallThreads:
    """Runs one call at a time. clock_ns: CLOCK_MONOTONIC. Any thread may call stop(), only one run()."""

    def __init__(self, clock_ns: Callable[[], int], wait: Wait) -> None:
        self.clock_ns = clock_ns
        self._wait = wait
        self._worker: _Worker | None = None
        self._call: DriverCall | None = None
        self.stopping = threading.Event()

    def run(self, function: Callable[[BeforeCall], T], timeout_seconds: float) -> T:
        """The result of the function. timeout_seconds: for each driver call in it.

        Raises what the function raises, CallTimedOut, and Stopping.
        """
        call = self._call = DriverCall(function, self.clock_ns)
        worker = self._worker = self._worker or _Worker()
        worker.start(call)
        while not call.has_returned:
            if self.stopping.is_set():
                raise Stopping
            left_seconds = timeout_seconds - seconds(self.clock_ns() - call.called_ns)
            if left_seconds <= 0:
                call.is_abandoned = True
                worker.stop()
                self._worker = None
                raise CallTimedOut(call, timeout_seconds)
            self._wait(call.changed, left_seconds)
        if call.error is not None:
            raise call.error
        result: T = call.result
        return result

    def stop(self) -> None:
        """Make run() raise Stopping at once."""
        self.stopping.set()
        if self._call is not None:
            self._call.changed.set()
        if self._worker is not None:
            self._worker.stop()
