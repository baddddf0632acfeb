"""Writes chain events and windows to the history file, and recovers from a full disk, a damaged file or another writer.

In: events and windows, in batches. Out: rows in the file. Windows that cannot be written are dropped and counted; events wait for
the next attempt. Each problem is logged once. One thread uses a HistoryWriter.
"""

from __future__ import annotations

import logging
import math
import sqlite3
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from exporter import __version__, catalog
from exporter.chains.chain import Change
from exporter.chains.event import ChainEvent
from exporter.clock import Clock, Moment
from exporter.history.file_guard import Busy, LockedFile, Unusable, claim
from exporter.history.store import CorruptError, Store
from exporter.history.window_batch import WindowBatch
from exporter.own_metrics.store import OwnMetrics
from exporter.units import NANOSECONDS

log = logging.getLogger(__name__)

BACKLOG_MAX: Final = 256
RETRY_SECONDS: Final = 30.0
BUSY_RETRY_SECONDS: Final = 5.0
PRUNE_SECONDS: Final = 60.0
NOT_WRITTEN: Final = "not_written"


class Settings(NamedTuple):
    """max_bytes: limit for all files together. has_chains: whether chains are detected in this run."""

    path: Path
    max_bytes: int
    retention_seconds: float
    has_chains: bool


class HistoryWriter:
    """retry_seconds: between attempts to open a file that could not be opened."""

    def __init__(
        self,
        settings: Settings,
        own: OwnMetrics,
        clock: Clock,
        started_at: Moment,
        *,
        retry_seconds: float,
    ) -> None:
        self._settings = settings
        self._own = own
        self._clock = clock
        self._started_at = started_at
        self._retry_seconds = retry_seconds
        self._file: LockedFile | None = None
        self._store: Store | None = None
        self._backlog: list[ChainEvent] = []
        self._open_chains: set[str] = set()
        self._problem = ""  # as it was logged
        self._has_failed = False  # the last time that there was something to write
        self._next_attempt_at = self._next_prune_at = -math.inf
        own.set(catalog.own.HISTORY_SUCCESS, 0)
        own.set(catalog.own.HISTORY_WRITE_FAILURES, 0)

    def write(self, events: Sequence[ChainEvent], batches: Sequence[WindowBatch]) -> None:
        """Events that could not be written before come first. Prunes once in a while."""
        self._note_open_chains(events)
        events = [*self._backlog, *events]
        if not self._is_open():
            self._keep(events, batches)
            return
        assert self._store is not None  # noqa: S101 - it is open
        store, now = self._store, self._clock.now()
        try:
            if store.is_wal_full():
                store.checkpoint()
                if store.is_wal_full():
                    raise sqlite3.OperationalError("another program has been reading the file for too long")
            if events or batches:
                self._has_failed = True
                store.write(events, batches, now.unix_ns)
                self._has_failed = False
            if time.monotonic() >= self._next_prune_at:
                self._next_prune_at = time.monotonic() + PRUNE_SECONDS
                self._prune(store, now)
        except CorruptError as error:
            self._keep(events, batches)
            self._replace(error)
        except (sqlite3.OperationalError, OSError) as error:
            self._own.add(catalog.own.HISTORY_WRITE_FAILURES, 1)
            self._keep(events, batches)
            self._failed(f"cannot write {self._settings.path}: {error}; retrying")
            self._make_room(store, now)
        else:
            self._backlog.clear()
            if not self._has_failed:
                self._succeeded()
        self._own.set(catalog.own.HISTORY_BYTES, store.size_bytes())

    def retry_later(self) -> None:
        """No attempt to open the file for a while."""
        self._next_attempt_at = time.monotonic() + self._retry_seconds

    def close(self, events: Sequence[ChainEvent], batches: Sequence[WindowBatch]) -> None:
        """Writes the last items and the end of the run."""
        try:
            self.write(events, batches)
            if self._store is not None:
                self._store.close(self._clock.now().unix_ns)
                self._store = None
        except (sqlite3.DatabaseError, CorruptError) as error:
            log.warning("history: cannot write the end of this run to %s: %s", self._settings.path, error)
        finally:
            self._release()

    def _note_open_chains(self, events: Iterable[ChainEvent]) -> None:
        for event in events:
            if event.change is Change.RESOLVED:
                self._open_chains.discard(event.chain_id)
            elif event.change is not Change.EVIDENCE:  # which may come after the end
                self._open_chains.add(event.chain_id)

    def _keep(self, events: Sequence[ChainEvent], batches: Sequence[WindowBatch]) -> None:
        """Windows are dropped; the latest events wait for the next attempt, without updates, which come again."""
        for batch in batches:
            self._own.add(catalog.own.HISTORY_DROPPED, len(batch.windows), NOT_WRITTEN)
        events = [event for event in events if event.change is not Change.UPDATED]
        self._own.add(catalog.own.HISTORY_DROPPED, max(len(events) - BACKLOG_MAX, 0), NOT_WRITTEN)
        self._backlog = events[-BACKLOG_MAX:]

    def _prune(self, store: Store, now: Moment) -> None:
        store.prune(now.unix_ns - int(self._settings.retention_seconds * NANOSECONDS), self._open_chains)

    def _make_room(self, store: Store, now: Moment) -> None:
        """Deletes old rows, which also helps on a full disk. The next write shows whether it was enough."""
        try:
            self._prune(store, now)
        except CorruptError as error:
            self._replace(error)
        except (sqlite3.OperationalError, OSError) as error:
            log.debug("history: cannot delete old rows: %s", error)

    # ---- opening

    def _is_open(self) -> bool:
        if self._store is not None and self._store.is_in_place():
            return True
        if self._store is not None:
            log.warning("history file %s was removed or replaced: creating a new one", self._settings.path)
            self._forget_store()
            self._release()
        if time.monotonic() < self._next_attempt_at:
            return False
        self.retry_later()
        try:
            self._open()
        except CorruptError as error:
            self._replace(error)
        except Busy as error:
            self._next_attempt_at = time.monotonic() + min(BUSY_RETRY_SECONDS, self._retry_seconds)
            self._failed(error.one_line())
        except Unusable as error:
            self._failed(error.one_line())
        except (sqlite3.OperationalError, OSError) as error:
            self._own.add(catalog.own.HISTORY_WRITE_FAILURES, 1)
            self._failed(f"cannot write {self._settings.path}: {error}; retrying")
        return self._store is not None

    def _open(self) -> None:
        if self._file is None:
            self._file = claim(self._settings.path)
        try:
            self._store = Store(
                self._file,
                self._settings.max_bytes,
                began_unix_ns=self._started_at.unix_ns,
                version=__version__,
                has_chains=self._settings.has_chains,
            )
            self._has_failed = False
        except (Unusable, sqlite3.OperationalError, OSError):
            self._release()
            raise

    def _release(self) -> None:
        if self._file is not None:
            self._file.release()
            self._file = None

    def _replace(self, error: CorruptError) -> None:
        """Moves the damaged file aside and creates a new one."""
        self._forget_store()
        assert self._file is not None  # noqa: S101 - nothing is opened before it is claimed
        self._own.add(catalog.own.HISTORY_WRITE_FAILURES, 1)
        path = self._settings.path
        try:
            aside = self._file.move_aside(self._clock.now().unix_ns // NANOSECONDS)
            self._open()
        except (CorruptError, Unusable, sqlite3.OperationalError, OSError) as second:
            self._failed(f"{path} is damaged ({error}), and a new file cannot be created: {second}")
            return
        log.warning("history file %s was damaged (%s): moved it to %s and created a new one", path, error, aside)

    def _forget_store(self) -> None:
        if self._store is not None:
            try:
                self._store.close()
            except (sqlite3.DatabaseError, CorruptError) as error:
                log.debug("history: cannot close the file: %s", error)
            self._store = None

    # ---- success and failure

    def _failed(self, problem: str) -> None:
        """Logs a problem once, until it is over or another one follows."""
        self._own.set(catalog.own.HISTORY_SUCCESS, 0)
        if problem != self._problem:
            log.warning("history writes paused: %s", problem)
        self._problem = problem

    def _succeeded(self) -> None:
        self._own.set(catalog.own.HISTORY_SUCCESS, 1)
        if self._problem:
            log.info("history: writing to %s has resumed", self._settings.path)
        self._problem = ""
