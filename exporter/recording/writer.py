"""Writes a recording of each chain that opens: the minute that ends 15 s after the opening. Old files are deleted.

In: chain events; the RowRing. Out: files in a directory of bounded size.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from stat import S_ISREG

from exporter import __version__
from exporter.causes import Cause
from exporter.chains.chain import Change
from exporter.chains.event import ChainEvent
from exporter.clock import Moment
from exporter.files import trust
from exporter.recording.file import MAX_EVENTS, SUFFIX, RecordedProcess, Recording, write
from exporter.recording.ring import RowRing
from exporter.units import NANOSECONDS

log = logging.getLogger(__name__)

AFTER_SECONDS = 15
"""After the opening: the verdict is stable by then, and three quarters of the minute are from before the opening."""
STOP_SECONDS = 2.0
MAX_FILES = 50
MAX_BYTES = 64 << 20
_DIRECTORY_MODE = 0o750


class RecordingWriter:
    """ring: the rows in memory. processes: the living processes, by number; called from tick(). dropped_events: without room.

    on_chain_event() and tick() are called from one thread; files are written in another one, one at a time.
    """

    def __init__(
        self, directory: Path, node: str, ring: RowRing, processes: Callable[[], Mapping[int, RecordedProcess]]
    ) -> None:
        self._directory = directory
        self._node = node
        self.ring = ring
        self.dropped_events = 0
        self._processes = processes
        self._events: list[ChainEvent] = []  # of the next recording
        self._due_ns = 0
        self._writing: threading.Thread | None = None
        self._has_failed = False

    def on_chain_event(self, event: ChainEvent) -> None:
        """An opening starts a recording; later events until it is written are added to it, those of other chains as well.

        A lasting change is reported when the rows of its onset are gone. While a disk does not respond, MAX_EVENTS are kept.
        """
        if (event.change is Change.OPENED and event.cause is not Cause.CHANGED) or self._events:
            if len(self._events) < MAX_EVENTS:
                self._events.append(event)
            else:
                self.dropped_events += 1

    def tick(self, now: Moment) -> None:
        """Called when all maps of a tick have been read."""
        self.ring.tick(now.monotonic_ns)
        if self._events and not self._due_ns:
            self._due_ns = now.monotonic_ns + AFTER_SECONDS * NANOSECONDS
        is_idle = self._writing is None or not self._writing.is_alive()
        if self._events and now.monotonic_ns >= self._due_ns and is_idle:
            self._start_writing(now)

    def recording(self, events: tuple[ChainEvent, ...], now: Moment) -> Recording:
        """The last minute; without ticks if rows change faster than the limit of the ring."""
        return Recording(__version__, self._node, now, self._processes(), events, tuple(self.ring.ticks()))

    def close(self, now: Moment) -> None:
        """Writes the recording that is due. Gives up after STOP_SECONDS, for a disk that does not respond."""
        if self._writing is not None:
            self._writing.join(STOP_SECONDS)
            if self._writing.is_alive():
                return
        if self._events:
            self._start_writing(now)
        if self._writing is not None:
            self._writing.join(STOP_SECONDS)

    def _start_writing(self, now: Moment) -> None:
        events, self._events, self._due_ns = tuple(self._events), [], 0
        recording = self.recording(events, now)
        if not recording.compressed_ticks:
            log.warning(
                "chain %s is not recorded: the kernel tables are too large, or change too fast;"
                " the chain itself is not affected",
                events[0].chain_id,
            )
            return
        self._writing = threading.Thread(target=self._write, args=(recording,), name="recording", daemon=True)
        self._writing.start()

    def _write(self, recording: Recording) -> None:
        path = self._directory / f"{recording.events[0].chain_id}{SUFFIX}"
        try:
            trust.make_directory(self._directory, _DIRECTORY_MODE)
            self._make_room(sum(map(len, recording.compressed_ticks)))
            write(recording, path)
        except OSError as error:
            if not self._has_failed:
                log.error("cannot write recordings: %s: %s", error.filename or self._directory, error.strerror)
            self._has_failed = True
            return
        self._has_failed = False
        log.info("chain %s recorded to %s", ", ".join(_opened(recording)), path)

    def _make_room(self, wanted_bytes: int) -> None:
        """Deletes recordings only, oldest first."""
        found = [(path.lstat(), path) for path in self._directory.glob(f"*{SUFFIX}")]
        known = sorted(((status, path) for status, path in found if S_ISREG(status.st_mode)), key=_age)
        sizes = [status.st_size for status, _ in known]
        while known and (len(known) >= MAX_FILES or sum(sizes) + wanted_bytes > MAX_BYTES):
            known.pop(0)[1].unlink(missing_ok=True)
            del sizes[0]


def _age(known: tuple[os.stat_result, Path]) -> int:
    return known[0].st_mtime_ns


def _opened(recording: Recording) -> list[str]:
    """Ids of the chains that opened in it."""
    return [event.chain_id for event in recording.events if event.change is Change.OPENED]
