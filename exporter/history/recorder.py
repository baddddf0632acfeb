"""Keeps the history while the exporter runs: takes what it is told, cuts windows, writes both from a thread of its own.

In: Reports, and what publications read. Out: rows in the file. Whoever tells it something never waits: what does not fit into the
queue is dropped and counted. Whatever is wrong with the file is said once, and tried again.
"""

from __future__ import annotations

import logging
import math
import queue
import sqlite3
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from exporter import __version__, catalog
from exporter.chains.chain import Change
from exporter.chains.event import ChainEvent
from exporter.clock import Clock, Moment
from exporter.history.file_guard import Busy, LockedFile, Unusable, claim
from exporter.history.store import CorruptError, Cut, Store
from exporter.history.window import ProcessLabels, Switches
from exporter.history.windowing import ProcessTotals, WindowBuilder
from exporter.output.own_metrics import OwnMetrics
from exporter.totals import Series, Total
from exporter.units import NANOSECONDS, seconds

log = logging.getLogger(__name__)

SHARED_SECONDS: Final = 7.5
WINDOW_SECONDS: Final = 11.0
"""A window ends when somebody scrapes so long after the last one ended, or else by a reading of our own: later than a scrape
that comes every five or ten seconds.
"""

COST_SHARE: Final = 0.002
"""Of a CPU, at most, for readings of our own: where one takes more than 22 ms, windows are longer."""

QUEUE_MAX: Final = 256
BACKLOG_MAX: Final = 256
RETRY_SECONDS: Final = 30.0
BUSY_RETRY_SECONDS: Final = 5.0
PRUNE_SECONDS: Final = 60.0
STOP_SECONDS: Final = 2.0

QUEUE_FULL, NOT_WRITTEN, NO_ROOM = "queue_full", "not_written", "too_many_processes"
REASONS: Final = (QUEUE_FULL, NOT_WRITTEN, NO_ROOM)


class Settings(NamedTuple):
    """path: of the file. max_bytes: of all files. has_chains: whether episodes are looked for."""

    path: Path
    max_bytes: int
    retention_seconds: float
    has_chains: bool


class Recorder:
    """Public methods may be called from any thread, but start() and stop() only from the one that made it.

    retry_seconds: until a file that could not be opened is tried again.
    """

    def __init__(
        self, settings: Settings, own: OwnMetrics, clock: Clock, *, retry_seconds: float = RETRY_SECONDS
    ) -> None:
        self._retry_seconds = retry_seconds
        self._settings = settings
        self._own = own
        self._clock = clock
        self._began_at = clock.now()
        self._cutter = WindowBuilder(self._began_at)
        self._queue: queue.Queue[ChainEvent | Cut] = queue.Queue(QUEUE_MAX)
        self._news = threading.Event()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._place: LockedFile | None = None
        self._store: Store | None = None
        self._backlog: list[ChainEvent] = []
        self._open_chains: set[str] = set()
        self._said = ""  # what is wrong, as it was logged
        self._next_attempt_at = self._next_prune_at = -math.inf
        self._not_before = -math.inf
        own.set(catalog.own.HISTORY_SUCCESS, 0)
        own.set(catalog.own.HISTORY_WRITE_FAILURES, 0)
        for reason in REASONS:
            own.set(catalog.own.HISTORY_DROPPED, 0, reason)

    # ---- what is told

    def on_chain_event(self, report: ChainEvent) -> None:
        """Of a chain."""
        self._put(report)

    def is_due(self, now: Moment) -> bool:
        """Whether a window would be cut now."""
        return seconds(now.monotonic_ns - self._cutter.cut_at.monotonic_ns) >= SHARED_SECONDS

    def on_totals(self, taken: ProcessTotals) -> None:
        """Cut the windows. One at a time."""
        began = self._cutter.cut_at
        left_out = self._cutter.left_out
        windows = self._cutter.cut(taken)
        self._own.add(catalog.own.HISTORY_DROPPED, self._cutter.left_out - left_out, NO_ROOM)
        self._put(Cut(taken.at.unix_ns_of(began.monotonic_ns), taken.at.unix_ns, windows))

    def on_process_end(
        self, process: int, labels: ProcessLabels, totals: Mapping[Series, Total], switches: Switches
    ) -> None:
        """A process has ended."""
        self._cutter.end_process(process, labels, totals, switches)

    def _put(self, item: ChainEvent | Cut) -> None:
        try:
            self._queue.put_nowait(item)
        except queue.Full:
            self._drop(item, QUEUE_FULL)
        self._news.set()

    def _drop(self, item: ChainEvent | Cut, reason: str) -> None:
        self._own.add(catalog.own.HISTORY_DROPPED, len(item.windows) if isinstance(item, Cut) else 1, reason)

    # ---- the thread

    def start(self, look: Callable[[], None]) -> None:
        """look: makes somebody read the tables, and show us what was read."""
        self._thread = threading.Thread(target=self._run, args=(look,), name="history", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Write what is there, and close the file. A disk that does not answer is not waited for."""
        self._stopping.set()
        self._news.set()
        if self._thread is not None:
            self._thread.join(STOP_SECONDS)

    def _run(self, look: Callable[[], None]) -> None:
        self._news.set()  # begin the file at once
        while not self._stopping.is_set():
            self._news.wait(self._seconds_until_own_reading())
            self._news.clear()
            try:
                if self._seconds_until_own_reading() <= 0 and not self._stopping.is_set():
                    self._look(look)
                self._write()
            except Exception:  # a defect here must cost the history only
                log.exception("history failed")
                self._next_attempt_at = time.monotonic() + self._retry_seconds
                self._stopping.wait(1.0)
        self._end()

    def _seconds_until_own_reading(self) -> float:
        since_cut = seconds(self._clock.now().monotonic_ns - self._cutter.cut_at.monotonic_ns)
        return max(WINDOW_SECONDS - since_cut, self._not_before - time.monotonic(), 0.0)

    def _look(self, look: Callable[[], None]) -> None:
        self._not_before = time.monotonic() + RETRY_SECONDS  # should it fail
        cpu_started_at = time.thread_time()
        look()
        self._not_before = time.monotonic() + (time.thread_time() - cpu_started_at) / COST_SHARE

    def _end(self) -> None:
        try:
            self._write()
            if self._store is not None:
                self._store.close(self._clock.now().unix_ns)
                self._store = None
        except (sqlite3.DatabaseError, CorruptError) as error:
            log.warning("history: the end could not be written: %s", error)
        finally:
            self._release()

    # ---- writing

    def _write(self) -> None:
        reports, cuts = self._drained()
        if not self._is_open():
            self._not_written(reports, cuts)
            return
        assert self._store is not None  # noqa: S101 - it is open
        store, now = self._store, self._clock.now()
        try:
            if store.is_log_full():
                store.checkpoint()
                if store.is_log_full():
                    raise sqlite3.OperationalError("another program has been reading the file for too long")
            if reports or cuts:
                store.write(reports, cuts, now.unix_ns)
            if time.monotonic() >= self._next_prune_at:
                self._next_prune_at = time.monotonic() + PRUNE_SECONDS
                store.prune(now.unix_ns - int(self._settings.retention_seconds * NANOSECONDS), self._open_chains)
        except CorruptError as error:
            self._not_written(reports, cuts)
            self._abandon(error)
        except (sqlite3.OperationalError, OSError) as error:
            self._own.add(catalog.own.HISTORY_WRITE_FAILURES, 1)
            self._not_written(reports, cuts)
            self._say(f"cannot write {self._settings.path}: {error}; it is tried again")
            self._make_room(store, now)
        else:
            self._backlog.clear()
            self._works()
        self._own.set(catalog.own.HISTORY_BYTES, store.size_bytes())

    def _drained(self) -> tuple[list[ChainEvent], list[Cut]]:
        """Everything that waits. What could not be written before comes first."""
        reports = list(self._backlog)
        cuts: list[Cut] = []
        while True:
            try:
                item = self._queue.get_nowait()
            except queue.Empty:
                return reports, cuts
            if isinstance(item, Cut):
                cuts.append(item)
                continue
            reports.append(item)
            if item.change is Change.RESOLVED:
                self._open_chains.discard(item.chain_id)
            else:
                self._open_chains.add(item.chain_id)

    def _not_written(self, reports: list[ChainEvent], cuts: list[Cut]) -> None:
        """Windows are gone; Reports are few and wait for better times."""
        for cut in cuts:
            self._drop(cut, NOT_WRITTEN)
        self._backlog = reports[-BACKLOG_MAX:]
        for report in reports[:-BACKLOG_MAX]:
            self._drop(report, NOT_WRITTEN)

    def _make_room(self, store: Store, now: Moment) -> None:
        """Old rows make room for new ones, also where it is the disk that is full. The next write shows whether it helped."""
        try:
            store.prune(now.unix_ns - int(self._settings.retention_seconds * NANOSECONDS), self._open_chains)
        except CorruptError as error:
            self._abandon(error)
        except (sqlite3.OperationalError, OSError) as error:
            log.debug("history: no room could be made: %s", error)

    # ---- opening

    def _is_open(self) -> bool:
        if self._store is not None and self._store.is_in_place():
            return True
        if self._store is not None:
            log.warning("history: %s was removed or replaced; a new file is begun", self._settings.path)
            self._forget_store()
            self._release()
        if time.monotonic() < self._next_attempt_at:
            return False
        self._next_attempt_at = time.monotonic() + self._retry_seconds
        try:
            self._open()
        except CorruptError as error:
            self._abandon(error)
        except Busy as error:
            self._next_attempt_at = time.monotonic() + min(BUSY_RETRY_SECONDS, self._retry_seconds)
            self._say(f"is off: {error.one_line()}")
        except Unusable as error:
            self._say(f"is off: {error.one_line()}")
        except (sqlite3.OperationalError, OSError) as error:
            self._own.add(catalog.own.HISTORY_WRITE_FAILURES, 1)
            self._say(f"is off: cannot write {self._settings.path}: {error}; it is tried again")
        return self._store is not None

    def _open(self) -> None:
        if self._place is None:
            self._place = claim(self._settings.path)
        try:
            self._store = Store(
                self._place,
                self._settings.max_bytes,
                began_unix_ns=self._began_at.unix_ns,
                version=__version__,
                has_chains=self._settings.has_chains,
            )
        except (Unusable, sqlite3.OperationalError, OSError):
            self._release()
            raise

    def _release(self) -> None:
        if self._place is not None:
            self._place.release()
            self._place = None

    def _abandon(self, error: CorruptError) -> None:
        """The file is broken: it goes aside, and a new one is begun."""
        self._forget_store()
        assert self._place is not None  # noqa: S101 - nothing is opened before it is claimed
        self._own.add(catalog.own.HISTORY_WRITE_FAILURES, 1)
        try:
            aside = self._place.move_aside(self._clock.now().unix_ns // NANOSECONDS)
            self._open()
        except (CorruptError, Unusable, sqlite3.OperationalError, OSError) as second:
            self._say(f"is off: {self._settings.path} is damaged ({error}), and no new one can be begun: {second}")
            return
        log.warning("history: %s was damaged (%s): moved to %s, a new one is begun", self._settings.path, error, aside)

    def _forget_store(self) -> None:
        if self._store is not None:
            try:
                self._store.close()
            except (sqlite3.DatabaseError, CorruptError) as error:
                log.debug("history: closing: %s", error)
            self._store = None

    # ---- what is said

    def _say(self, what: str) -> None:
        """Once, until it works again or something else is wrong."""
        self._own.set(catalog.own.HISTORY_SUCCESS, 0)
        if what != self._said:
            log.warning("history %s", what)
        self._said = what

    def _works(self) -> None:
        self._own.set(catalog.own.HISTORY_SUCCESS, 1)
        if self._said:
            log.info("history is written again to %s", self._settings.path)
        self._said = ""
