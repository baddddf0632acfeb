"""Keeps a capsule of each chain that opens: the minute up to a quarter of one behind it, in a directory that stays small.

In: Reports; the flight recorder. Out: files, oldest removed first.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

from exporter import __version__
from exporter.chains.chain import Change
from exporter.chains.event import ChainEvent
from exporter.clock import Moment
from exporter.recording.file import SUFFIX, RecordedProcess, Recording, write
from exporter.recording.ring import RowRing
from exporter.units import NANOSECONDS

log = logging.getLogger(__name__)

AFTER_SECONDS = 15
"""Behind the opening: what is said of a chain is settled by then, and three quarters of the minute are from before."""
MAX_FILES = 50
MAX_BYTES = 64 << 20
_DIRECTORY_MODE = 0o750


class RecordingWriter:
    """Owns the directory. ring: what is kept in memory. subjects: the processes alive, by number; called from tick().

    on_chain_event() and tick() belong to the loop; files are written in a thread of their own, one at a time.
    """

    def __init__(
        self, directory: Path, node: str, ring: RowRing, subjects: Callable[[], Mapping[int, RecordedProcess]]
    ) -> None:
        self._directory = directory
        self._node = node
        self.ring = ring
        self._subjects = subjects
        self._reports: list[ChainEvent] = []  # of the capsule that is due next
        self._due_ns = 0
        self._writing: threading.Thread | None = None
        self._has_failed = False

    def on_chain_event(self, report: ChainEvent) -> None:
        """What is said while a capsule is due belongs to it."""
        if report.change is Change.OPENED or self._reports:
            self._reports.append(report)

    def tick(self, now: Moment) -> None:
        """The readings of this tick are done."""
        self.ring.tick(now.monotonic_ns)
        if self._reports and not self._due_ns:
            self._due_ns = now.monotonic_ns + AFTER_SECONDS * NANOSECONDS
        is_idle = self._writing is None or not self._writing.is_alive()
        if self._reports and now.monotonic_ns >= self._due_ns and is_idle:
            self._take(now)

    def recording(self, reports: tuple[ChainEvent, ...], now: Moment) -> Recording:
        """Of this moment; without ticks where more moves than is kept."""
        return Recording(__version__, self._node, now, self._subjects(), reports, tuple(self.ring.ticks()))

    def close(self, now: Moment) -> None:
        """Nothing is left behind that was due."""
        if self._writing is not None:
            self._writing.join()
        if self._reports:
            self._take(now)
        if self._writing is not None:
            self._writing.join()

    def _take(self, now: Moment) -> None:
        reports, self._reports, self._due_ns = tuple(self._reports), [], 0
        capsule = self.recording(reports, now)
        if not capsule.packed:
            log.warning("no capsule of chain %s: more rows move on this node than are kept", reports[0].chain_id)
            return
        self._writing = threading.Thread(target=self._write, args=(capsule,), name="capsule", daemon=True)
        self._writing.start()

    def _write(self, capsule: Recording) -> None:
        path = self._directory / f"{capsule.reports[0].chain_id}{SUFFIX}"
        try:
            self._directory.mkdir(mode=_DIRECTORY_MODE, parents=True, exist_ok=True)
            self._make_room(sum(map(len, capsule.packed)))
            write(capsule, path)
        except OSError as error:
            if not self._has_failed:
                log.error("no capsules are kept: %s: %s", error.filename or self._directory, error.strerror)
            self._has_failed = True
            return
        self._has_failed = False
        log.info("capsule of chain %s: %s", capsule.reports[0].chain_id, path)

    def _make_room(self, wanted_bytes: int) -> None:
        """Of our own files only."""
        files = sorted(self._directory.glob(f"*{SUFFIX}"), key=lambda path: path.stat().st_mtime_ns)
        sizes = [path.stat().st_size for path in files]
        while files and (len(files) >= MAX_FILES or sum(sizes) + wanted_bytes > MAX_BYTES):
            files.pop(0).unlink(missing_ok=True)
            del sizes[0]
