"""Records the history while the exporter runs: builds windows, queues them and chain events, and writes both in a thread.

In: chain events and totals. Out: rows in the file. Callers never block: what does not fit into the queue is dropped and counted.
"""

from __future__ import annotations

import logging
import math
import queue
import threading
import time
from collections.abc import Callable, Mapping
from typing import Final

from exporter import catalog
from exporter.chains.event import ChainEvent
from exporter.clock import Clock, Moment
from exporter.history.store import WindowBatch
from exporter.history.window import ProcessLabels, Switches
from exporter.history.windowing import ProcessTotals, WindowBuilder
from exporter.history.writer import NOT_WRITTEN, RETRY_SECONDS, HistoryWriter, Settings
from exporter.own_metrics.store import OwnMetrics
from exporter.totals import Series, Total
from exporter.units import seconds

log = logging.getLogger(__name__)

SCRAPE_WINDOW_SECONDS: Final = 7.5
OWN_WINDOW_SECONDS: Final = 11.0
"""A window ends with the first scrape SCRAPE_WINDOW_SECONDS after the last window, which costs nothing extra. Without scrapes the
recorder reads the tables OWN_WINDOW_SECONDS after it: later than a scrape that comes every five or ten seconds.
"""

COST_SHARE: Final = 0.002
"""Share of a CPU that own readings may take: if one takes more than 22 ms, windows get longer."""

QUEUE_MAX: Final = 256
STOP_SECONDS: Final = 2.0

QUEUE_FULL, TOO_MANY_PROCESSES = "queue_full", "too_many_processes"
REASONS: Final = (QUEUE_FULL, NOT_WRITTEN, TOO_MANY_PROCESSES)


class Recorder:
    """Public methods may be called from any thread, but start() and stop() only from the one that made it."""

    def __init__(
        self, settings: Settings, own: OwnMetrics, clock: Clock, *, retry_seconds: float = RETRY_SECONDS
    ) -> None:
        self._own = own
        self._clock = clock
        started_at = clock.now()
        self._builder = WindowBuilder(started_at)
        self._writer = HistoryWriter(settings, own, clock, started_at, retry_seconds=retry_seconds)
        self._queue: queue.Queue[ChainEvent | WindowBatch] = queue.Queue(QUEUE_MAX)
        self._wake_up = threading.Event()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._next_reading_at = -math.inf
        for reason in REASONS:
            own.set(catalog.own.HISTORY_DROPPED, 0, reason)

    def on_chain_event(self, event: ChainEvent) -> None:
        """Queues it."""
        self._put(event)

    def is_due(self, now: Moment) -> bool:
        """Whether totals that are read now should go to on_totals()."""
        return seconds(now.monotonic_ns - self._builder.built_until.monotonic_ns) >= SCRAPE_WINDOW_SECONDS

    def on_totals(self, totals: ProcessTotals) -> None:
        """Builds the windows that end now, and queues them. One call at a time."""
        began = self._builder.built_until
        dropped_before = self._builder.dropped
        windows = self._builder.build(totals)
        self._dropped(self._builder.dropped - dropped_before, TOO_MANY_PROCESSES)
        self._put(WindowBatch(totals.at.unix_ns_of(began.monotonic_ns), totals.at.unix_ns, windows))

    def on_process_end(
        self, process: int, labels: ProcessLabels, totals: Mapping[Series, Total], switches: Switches
    ) -> None:
        """totals, switches: the last ones of the process."""
        self._builder.end_process(process, labels, totals, switches)

    def start(self, read_totals: Callable[[], None]) -> None:
        """read_totals: reads the tables and calls on_totals(); called from the recorder's thread when no one scrapes."""
        self._thread = threading.Thread(target=self._run, args=(read_totals,), name="history", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Writes what is queued and closes the file. Gives up after STOP_SECONDS, for a disk that does not respond."""
        self._stopping.set()
        self._wake_up.set()
        if self._thread is not None:
            self._thread.join(STOP_SECONDS)

    def _put(self, item: ChainEvent | WindowBatch) -> None:
        try:
            self._queue.put_nowait(item)
        except queue.Full:
            self._dropped(len(item.windows) if isinstance(item, WindowBatch) else 1, QUEUE_FULL)
        self._wake_up.set()

    def _dropped(self, count: int, reason: str) -> None:
        self._own.add(catalog.own.HISTORY_DROPPED, count, reason)

    def _run(self, read_totals: Callable[[], None]) -> None:
        self._wake_up.set()  # create the file at once
        while not self._stopping.is_set():
            self._wake_up.wait(self._seconds_until_reading())
            self._wake_up.clear()
            try:
                if self._seconds_until_reading() <= 0 and not self._stopping.is_set():
                    self._read(read_totals)
                self._writer.write(*self._queued())
            except Exception:  # a defect must not stop the exporter, only the history
                log.exception("history: write failed, retrying: defect in the exporter")
                self._writer.retry_later()
                self._stopping.wait(1.0)
        self._writer.close(*self._queued())

    def _seconds_until_reading(self) -> float:
        since_last = seconds(self._clock.now().monotonic_ns - self._builder.built_until.monotonic_ns)
        return max(OWN_WINDOW_SECONDS - since_last, self._next_reading_at - time.monotonic(), 0.0)

    def _read(self, read_totals: Callable[[], None]) -> None:
        self._next_reading_at = time.monotonic() + RETRY_SECONDS  # if it fails
        cpu_started_at = time.thread_time()
        read_totals()
        self._next_reading_at = time.monotonic() + (time.thread_time() - cpu_started_at) / COST_SHARE

    def _queued(self) -> tuple[list[ChainEvent], list[WindowBatch]]:
        events: list[ChainEvent] = []
        batches: list[WindowBatch] = []
        while True:
            try:
                item = self._queue.get_nowait()
            except queue.Empty:
                return events, batches
            if isinstance(item, WindowBatch):
                batches.append(item)
            else:
                events.append(item)
