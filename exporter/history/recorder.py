"""Records the history while the exporter runs: queues windows and chain events, and writes both in a thread.

In: chain events and windows. Out: rows in the file. Callers never block: what does not fit into the queue is dropped and counted.
"""

from __future__ import annotations

import logging
import queue
import threading
from typing import Final

from exporter import catalog
from exporter.chains.chain import Change
from exporter.chains.event import ChainEvent
from exporter.clock import Clock
from exporter.history.window_batch import WindowBatch
from exporter.history.writer import NOT_WRITTEN, RETRY_SECONDS, HistoryWriter, Settings
from exporter.own_metrics.store import OwnMetrics

log = logging.getLogger(__name__)

QUEUE_MAX: Final = 256
WAIT_SECONDS: Final = 11.0
"""Without a new window or event, so long until what is waiting is tried again, and old rows are deleted."""

STOP_SECONDS: Final = 2.0

MEMBERSHIPS_MAX: Final = 1024
"""Places of processes in communicators, in a window: eight processes have 128 at most."""

QUEUE_FULL, TOO_MANY_PROCESSES, TOO_MANY_MEMBERSHIPS = "queue_full", "too_many_processes", "too_many_memberships"
REASONS: Final = (QUEUE_FULL, NOT_WRITTEN, TOO_MANY_PROCESSES, TOO_MANY_MEMBERSHIPS)


class Recorder:
    """Public methods may be called from any thread, but start() and stop() only from the one that made it."""

    def __init__(
        self, settings: Settings, own: OwnMetrics, clock: Clock, *, retry_seconds: float = RETRY_SECONDS
    ) -> None:
        self._own = own
        self._writer = HistoryWriter(settings, own, clock, clock.now(), retry_seconds=retry_seconds)
        self._queue: queue.Queue[ChainEvent | WindowBatch] = queue.Queue(QUEUE_MAX)
        self._wake_up = threading.Event()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        for reason in REASONS:
            own.set(catalog.own.HISTORY_DROPPED, 0, reason)

    def on_chain_event(self, event: ChainEvent) -> None:
        """Queues it. An update comes again: it takes no place of what does not, once the queue is half full."""
        if event.change is not Change.UPDATED or self._queue.qsize() < QUEUE_MAX // 2:
            self._put(event)

    @property
    def wants_windows(self) -> bool:
        """Always: a history that cannot be written now may be written later."""
        return True

    def on_windows(self, batch: WindowBatch) -> None:
        """Queues them."""
        memberships = batch.memberships[:MEMBERSHIPS_MAX]
        self._dropped(batch.dropped, TOO_MANY_PROCESSES)
        self._dropped(len(batch.memberships) - len(memberships), TOO_MANY_MEMBERSHIPS)
        self._put(batch._replace(memberships=memberships))

    def start(self) -> None:
        """Write from a thread of its own."""
        self._thread = threading.Thread(target=self._run, name="history", daemon=True)
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

    def _run(self) -> None:
        self._wake_up.set()  # create the file at once
        while not self._stopping.is_set():
            self._wake_up.wait(WAIT_SECONDS)
            self._wake_up.clear()
            try:
                self._writer.write(*self._queued())
            except Exception:  # a defect must not stop the exporter, only the history
                log.exception("history: write failed, retrying: internal error (bug)")
                self._writer.retry_later()
                self._stopping.wait(1.0)
        self._writer.close(*self._queued())

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
