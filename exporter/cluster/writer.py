"""The one thread that writes to the store. What arrives within a fifth of a second is committed at once.

In: batches from any thread. Out: for each a Future, which has a result when the rows are on the disk, or NotStored. The queue is
bounded: what does not fit is refused at once, and the sender tries again.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from exporter.catalog import cluster as catalog
from exporter.clock import Clock
from exporter.cluster.errors import NotStored, QueueFull, StoreUnavailable, Unstorable
from exporter.cluster.records import Batch, Stored
from exporter.cluster.retention import Retention
from exporter.cluster.store import ClusterStore
from exporter.errors import ExporterError
from exporter.own_metrics.store import OwnMetrics
from exporter.units import NANOSECONDS, seconds

log = logging.getLogger(__name__)

QUEUED_ROWS_MAX: Final = 8192
"""Ten seconds of 1,000 nodes with 8 ranks; up to 6 KiB each."""
COMMITTED_ROWS_MAX: Final = 4096
"""In one commit, unless one batch has more."""
GATHER_SECONDS: Final = 0.2
TICK_SECONDS: Final = 15.0
"""The hour and the limits of the store are looked at so often."""
FAILED_SECONDS: Final = 1.0
"""After a failure of the disk, so long until it is tried again; batches are refused at once until then."""


class _Waiting(NamedTuple):
    batch: Batch
    result: Future[Stored]


class _Copying(NamedTuple):
    target: Path
    result: Future[bool]


class StoreWriter:
    """store, retention: used by its thread alone from start() on."""

    def __init__(
        self,
        store: ClusterStore,
        retention: Retention,
        own: OwnMetrics,
        clock: Clock,
        *,
        gather_seconds: float = GATHER_SECONDS,
        tick_seconds: float = TICK_SECONDS,
    ) -> None:
        self._store = store
        self._retention = retention
        self._own = own
        self._clock = clock
        self._gather_seconds = gather_seconds
        self._tick_seconds = tick_seconds
        self._lock = threading.Lock()
        self._queue: queue.SimpleQueue[_Waiting | _Copying | None] = queue.SimpleQueue()
        self._queued_rows = 0
        self._is_stopping = False
        self._failure = ""
        self._not_before = 0.0
        self._tick_problem = ""
        self._tick_at = 0.0
        self._thread = threading.Thread(target=self._run, name="store", daemon=True)
        for reason in ("age", "size"):
            own.set(catalog.REMOVED_SEGMENTS, 0, reason)
        for metric in (catalog.COMMITS, catalog.COMMIT_FAILURES, catalog.DUPLICATES, catalog.QUEUED_ROWS):
            own.set(metric, 0)

    @property
    def failure(self) -> str:
        """Why nothing can be stored now, "" if it can."""
        return self._failure

    def start(self) -> None:
        self._thread.start()

    def submit(self, batch: Batch) -> Future[Stored]:
        """Raises QueueFull and StoreUnavailable at once. An empty batch is stored."""
        result: Future[Stored] = Future()
        result.set_running_or_notify_cancel()  # a client that has gone cannot cancel it
        if batch.row_count == 0:
            result.set_result(Stored(0, 0, 0))
            return result
        with self._lock:
            if self._is_stopping:
                raise StoreUnavailable("the store stops")
            if self._failure and time.monotonic() < self._not_before:
                raise StoreUnavailable(self._failure)
            if self._queued_rows and self._queued_rows + batch.row_count > QUEUED_ROWS_MAX:
                raise QueueFull(f"{self._queued_rows} rows wait to be written")
            self._queued_rows += batch.row_count
            self._queue.put(_Waiting(batch, result))
        return result

    def copy_open_segment(self, target: Path) -> Future[bool]:
        """Makes a file that other processes can open, with all that was acknowledged; False if no segment is open."""
        result: Future[bool] = Future()
        result.set_running_or_notify_cancel()
        with self._lock:
            if self._is_stopping:
                raise StoreUnavailable("the store stops")
            self._queue.put(_Copying(target, result))
        return result

    def stop(self) -> None:
        """Write what is queued, and close the store."""
        with self._lock:
            self._is_stopping = True
        self._queue.put(None)
        if self._thread.is_alive():
            self._thread.join()
        self._store.close()

    def _run(self) -> None:
        is_last = False
        self._tick()
        while not is_last:
            try:
                first = self._queue.get(timeout=self._tick_seconds)
            except queue.Empty:
                self._tick()
                continue
            group, copies, is_last = self._gathered(first)
            self._write(group)
            for copy in copies:
                _settle(copy.result, partial(self._store.copy_open_to, copy.target))
            self._tick()

    def _gathered(self, first: _Waiting | _Copying | None) -> tuple[list[_Waiting], list[_Copying], bool]:
        """What arrives from now on in a little while, or until it is enough."""
        group: list[_Waiting] = []
        copies: list[_Copying] = []
        row_count, until, one = 0, time.monotonic() + self._gather_seconds, first
        while one is not None:
            if isinstance(one, _Copying):
                copies.append(one)
            else:
                group.append(one)
                row_count += one.batch.row_count
            if row_count >= COMMITTED_ROWS_MAX:
                return group, copies, False
            try:
                one = self._queue.get(timeout=max(until - time.monotonic(), 0.0))
            except queue.Empty:
                return group, copies, False
        return group, copies, True

    def _write(self, group: Sequence[_Waiting]) -> None:
        if not group:
            return
        try:
            found = self._store.add([one.batch for one in group], self._clock.now().unix_ns)
        except Unstorable as error:
            self._write_apart(group, error)
        except ExporterError as error:
            self._failed(group, error)
        except Exception as error:  # a defect must not end the thread: all senders would wait
            log.exception("store: internal error (bug)")
            self._failed(group, error)
        else:
            self._succeeded(group, found)

    def _write_apart(self, group: Sequence[_Waiting], error: Unstorable) -> None:
        """One batch at a time: one of them is the reason."""
        if len(group) > 1:
            for one in group:
                self._write((one,))
            return
        log.error("store: internal error (bug): %s", error)
        self._settled(group, lambda one: one.result.set_exception(error))

    def _succeeded(self, group: Sequence[_Waiting], found: Sequence[Stored]) -> None:
        self._recovered()
        now = self._clock.now()
        self._own.add(catalog.COMMITS, 1)
        self._own.set(catalog.LAST_COMMIT, seconds(now.unix_ns))
        oldest_unix_ns = min(one.batch.arrived_unix_ns for one in group)
        self._own.set(catalog.COMMIT_LAG, max(now.unix_ns - oldest_unix_ns, 0) / NANOSECONDS)
        self._own.add(catalog.STORED_ROWS, sum(one.rows for one in found))
        self._own.add(catalog.DUPLICATES, sum(one.duplicates for one in found))
        results = iter(found)
        self._settled(group, lambda one: one.result.set_result(next(results)))

    def _recovered(self) -> None:
        if self._failure:
            log.warning("store writes resumed")
        self._failure = ""

    def _failed(self, group: Sequence[_Waiting], error: Exception) -> None:
        if not self._failure:
            log.error("store writes paused: %s", error)
        self._failure = str(error)
        self._not_before = time.monotonic() + FAILED_SECONDS
        self._own.add(catalog.COMMIT_FAILURES, 1)
        refused = error if isinstance(error, NotStored) else StoreUnavailable("internal error (bug) in the store")
        self._settled(group, lambda one: one.result.set_exception(refused))

    def _settled(self, group: Sequence[_Waiting], settle: Callable[[_Waiting], None]) -> None:
        with self._lock:
            self._queued_rows -= sum(one.batch.row_count for one in group)
        for one in group:
            settle(one)

    def _tick(self) -> None:
        self._own.set(catalog.QUEUED_ROWS, self._queued_rows)
        if time.monotonic() >= self._tick_at:
            self._tick_at = time.monotonic() + self._tick_seconds
            self._keep_limits()
        self._own.set(catalog.SUCCESS, 0 if self._failure or self._tick_problem else 1)

    def _keep_limits(self) -> None:
        """Seal, remove, and count."""
        now = self._clock.now()
        try:
            self._store.tick(now.unix_ns)
            self._recovered()  # a balancer sends nothing to a store that is not ready
            open_bytes = self._store.open_bytes()
            for reason in self._retention.apply(now, open_bytes):
                self._own.add(catalog.REMOVED_SEGMENTS, 1, reason)
            number, sealed_bytes = self._retention.sealed()
            self._own.set(catalog.SEGMENTS, number)
            self._own.set(catalog.STORE_BYTES, sealed_bytes + open_bytes)
            self._tick_problem = ""
        except (ExporterError, OSError) as error:
            if str(error) != self._tick_problem:
                log.error("cannot seal or remove segments: %s", error)
            self._tick_problem = str(error)


def _settle(result: Future[bool], action: Callable[[], bool]) -> None:
    try:
        result.set_result(action())
    except Exception as error:  # it is the asker's
        result.set_exception(error)
