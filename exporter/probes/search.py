"""Searches library files that no process has mapped yet, so that the first call of the first job is seen as well.

In: /proc, a reader of what belongs to tenants. Out: files probed in advance, by Discovery.prepare(). It looks into the root
directory of each mount namespace, and into the Python environment of each interpreter, soon after its first process has come; and
into all of them once a minute. A thread does it, with a reader of its own, because a directory may lie on a file system that does
not answer: that place is then left out, until the reader that hangs in it has ended.
"""

from __future__ import annotations

import logging
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from exporter.errors import ExporterError, NoAnswer
from exporter.host.processes import Processes
from exporter.host.reader import Likely, TenantReader
from exporter.probes.discovery import Discovery

log = logging.getLogger(__name__)

EVERY_SECONDS: Final = 1.0
FORGET_SECONDS: Final = 60.0
"""After this all places are searched again, and all files found again: a package may have been installed or removed."""
PATIENCE_SECONDS: Final = 2.0
STOP_SECONDS: Final = 0.5

Place = tuple[bytes, str]
"""A mount namespace, and the prefix of a Python environment in it; "" for its root directory."""


class LikelyLibraries:
    """What has been searched already, and where the reader hangs."""

    def __init__(self, processes: Processes, reader: TenantReader, clock: Callable[[], float] = time.monotonic) -> None:
        self._processes = processes
        self._reader = reader
        self._clock = clock
        self._forget_at = clock() + FORGET_SECONDS
        self._tgids: set[int] = set()
        self._places: set[Place] = set()
        self._known: set[tuple[int, int]] = set()  # device and inode
        self._hanging: dict[bytes, subprocess.Popen[bytes] | None] = {}  # by mount namespace

    def fresh(self) -> Iterator[tuple[int, Likely]]:
        """Files, each once, in the places of processes that have come since the last call, with the process."""
        if self._clock() >= self._forget_at:
            self._forget_at = self._clock() + FORGET_SECONDS
            self._tgids, self._places, self._known = set(), set(), set()
            self._hanging = {place: one for place, one in self._hanging.items() if one and one.poll() is None}
        before, self._tgids = self._tgids, set(self._processes.tgids())
        for tgid in sorted(self._tgids - before):
            try:
                namespace = self._processes.link(tgid, "ns/mnt")
                if namespace not in self._hanging:
                    yield from ((tgid, likely) for likely in self._of_process(tgid, namespace))
            except NoAnswer as error:
                self.give_up(tgid, error)
            except ExporterError:
                continue

    def give_up(self, tgid: int, error: NoAnswer) -> None:
        """The reader hangs in a file of this process's mount namespace."""
        try:
            namespace = self._processes.link(tgid, "ns/mnt")
        except ExporterError:
            return
        self._hanging[namespace] = self._reader.given_up
        log.warning(
            "cannot search libraries where process %d sees them (%s): they are probed when a process maps them",
            tgid,
            error,
        )

    def _of_process(self, tgid: int, namespace: bytes) -> Iterator[Likely]:
        if self._is_first((namespace, "")):
            yield from self._unknown(self._reader.likely(tgid, None))
        for prefix in self._reader.prefixes(tgid):
            if self._is_first((namespace, prefix)):
                yield from self._unknown(self._reader.likely(tgid, prefix))

    def _is_first(self, place: Place) -> bool:
        is_first = place not in self._places
        self._places.add(place)
        return is_first

    def _unknown(self, found: Iterable[Likely]) -> Iterator[Likely]:
        for likely in found:
            if likely.file not in self._known:
                self._known.add(likely.file)
                yield likely


class LibrarySearch:
    """The thread. Without start() nothing is searched but by search_now()."""

    def __init__(self, discovery: Discovery, processes: Processes) -> None:
        self._discovery = discovery
        self._reader = TenantReader(processes, PATIENCE_SECONDS)
        self._likely = LikelyLibraries(processes, self._reader)
        self._is_closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="libraries", daemon=True)

    def start(self) -> None:
        """Call it once."""
        self._thread.start()

    def search_now(self) -> None:
        """Searches once, in the calling thread."""
        for tgid, likely in self._likely.fresh():
            if self._is_closed.is_set():
                return
            try:
                self._discovery.prepare(tgid, likely.path, likely.kind, self._reader)
            except NoAnswer as error:
                self._likely.give_up(tgid, error)
            except ExporterError:
                continue  # no library, or not there any more

    def close(self) -> None:
        """Does not wait for a search that hangs."""
        self._is_closed.set()
        self._reader.close()
        if self._thread.ident is not None:
            self._thread.join(STOP_SECONDS)

    def _run(self) -> None:
        while not self._is_closed.is_set():
            try:
                self.search_now()
            except ExporterError as error:
                log.warning("cannot search libraries before they are mapped: %s", error.one_line())
            except Exception:  # a defect must not end the thread
                if not self._is_closed.is_set():
                    log.exception("cannot search libraries: internal error (bug)")
            self._is_closed.wait(EVERY_SECONDS)
