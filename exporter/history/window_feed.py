"""Ends windows and hands them to the history and to the receivers that want them; reads the tables when no one scrapes.

In: totals of scrapes and of own readings. Out: a WindowBatch for every WindowSink. Windows are built once for all of them.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Sequence
from typing import Final

from exporter.clock import Clock, Moment
from exporter.errors import ExporterError
from exporter.history.window_batch import WindowBatch, WindowSink
from exporter.history.windowing import CallSitesOf, EndedProcess, ProcessTotals, WindowBuilder, no_call_sites
from exporter.units import seconds

log = logging.getLogger(__name__)

SCRAPE_WINDOW_SECONDS: Final = 7.5
OWN_WINDOW_SECONDS: Final = 11.0
"""A window ends with the first scrape SCRAPE_WINDOW_SECONDS after the last window, which costs nothing extra. Without scrapes the
feed reads the tables OWN_WINDOW_SECONDS after it: later than a scrape that comes every five or ten seconds.
"""

COST_SHARE: Final = 0.002
"""Share of a CPU that own readings may take: if one takes more than 22 ms, windows get longer."""

RETRY_SECONDS: Final = 30.0
"""After a reading that failed."""

STOP_SECONDS: Final = 2.0


class WindowFeed:
    """Public methods may be called from any thread, but start() and stop() only from the one that made it.

    sinks: that get the windows. call_sites: may be called from any thread as well.
    """

    def __init__(self, sinks: Sequence[WindowSink], clock: Clock, call_sites: CallSitesOf = no_call_sites) -> None:
        self._sinks = sinks
        self._clock = clock
        self._builder = WindowBuilder(clock.now(), call_sites)
        self._dropped = 0  # by the builder, until the last windows
        self._has_gap = False  # no sink wanted windows since the last ones
        self._stopping = threading.Event()
        self._is_over = False  # the last windows have ended
        self._thread: threading.Thread | None = None
        self._read_totals: Callable[[], None] = _read_nothing
        self._next_reading_at = -math.inf

    def is_due(self, now: Moment) -> bool:
        """Whether totals that are read now should go to on_totals()."""
        if self._is_over or not self._is_wanted():
            return False
        since_last = seconds(now.monotonic_ns - self._builder.built_until.monotonic_ns)
        return since_last >= SCRAPE_WINDOW_SECONDS or (self._stopping.is_set() and since_last > 0)

    def on_totals(self, totals: ProcessTotals) -> None:
        """Builds the windows that end now, and hands them over. One call at a time."""
        began = self._builder.built_until
        windows = self._builder.build(totals)
        dropped_before, self._dropped = self._dropped, self._builder.dropped
        if self._has_gap:
            self._has_gap = False  # they are as long as the gap: only the next ones begin with them
            return
        batch = WindowBatch(
            totals.at.unix_ns_of(began.monotonic_ns),
            totals.at.unix_ns,
            windows,
            totals.collectives,
            totals.memberships,
            self._dropped - dropped_before,
        )
        for sink in self._sinks:
            if sink.wants_windows:
                sink.on_windows(batch)

    def on_process_end(self, ended: EndedProcess) -> None:
        """Its last totals go into the next windows."""
        if self._is_wanted():
            self._builder.end_process(ended)

    def start(self, read_totals: Callable[[], None]) -> None:
        """read_totals: reads the tables and calls on_totals(); called from the feed's thread when no one scrapes."""
        self._read_totals = read_totals
        self._thread = threading.Thread(target=self._run, name="windows", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Has the tables read once more: the last windows end now, and are shorter. Gives up after STOP_SECONDS."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(STOP_SECONDS)
        self._is_over = True

    def _run(self) -> None:
        while not self._stopping.wait(self._seconds_until_reading()):
            if self._seconds_until_reading() <= 0:  # no scrape has come in the meantime
                self._read()
        self._read()

    def _seconds_until_reading(self) -> float:
        since_last = seconds(self._clock.now().monotonic_ns - self._builder.built_until.monotonic_ns)
        return max(OWN_WINDOW_SECONDS - since_last, self._next_reading_at - time.monotonic(), 0.0)

    def _is_wanted(self) -> bool:
        is_wanted = any(sink.wants_windows for sink in self._sinks)
        self._has_gap |= not is_wanted
        return is_wanted

    def _read(self) -> None:
        if not self._is_wanted():
            self._next_reading_at = time.monotonic() + OWN_WINDOW_SECONDS
            return
        self._next_reading_at = time.monotonic() + RETRY_SECONDS  # if it fails
        cpu_started_at = time.thread_time()
        try:
            self._read_totals()
        except ExporterError as error:  # the kernel refuses to read a map, which the tick logs
            log.debug("no totals for the windows: %s", error.one_line())
        except Exception:  # a defect must not stop the exporter, only the windows
            log.exception("windows: reading failed, retrying: internal error (bug)")
        else:
            self._next_reading_at = time.monotonic() + (time.thread_time() - cpu_started_at) / COST_SHARE


def _read_nothing() -> None:
    """Before start()."""
