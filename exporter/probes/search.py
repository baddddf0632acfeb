"""Searches library files that no process has mapped yet, so that the first call of the first job is seen as well.

In: /proc. Out: opened files for Discovery.prepare(). It looks into the root directory of each mount namespace, and into the
Python environment of each interpreter, soon after its first process has come; and into all of them once a minute. A thread does
it, because a directory may lie on a file system that does not answer: then nothing more is found, and nothing else waits.
"""

from __future__ import annotations

import logging
import os
import queue
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final

from exporter.errors import ExporterError
from exporter.host import libraries
from exporter.host.libraries import LibraryKind, OpenedLibrary
from exporter.host.likely_libraries import in_root, python_prefixes
from exporter.host.likely_libraries import of_python as of_environment
from exporter.host.processes import Processes

log = logging.getLogger(__name__)

EVERY_SECONDS: Final = 1.0
FORGET_SECONDS: Final = 60.0
"""After this all places are searched again, and all files found again: a package may have been installed or removed."""
MAX_WAITING: Final = 16
"""Opened files that wait to be probed."""


class LikelyLibraries:
    """What has been searched already."""

    def __init__(self, processes: Processes, clock: Callable[[], float] = time.monotonic) -> None:
        self._processes = processes
        self._clock = clock
        self._forget_at = clock() + FORGET_SECONDS
        self._tgids: set[int] = set()
        self._roots: set[bytes] = set()
        self._environments: set[tuple[bytes, str]] = set()
        self._known: set[tuple[int, int]] = set()  # device and inode

    def fresh(self) -> Iterator[OpenedLibrary]:
        """Files, each once, in the places of processes that have come since the last call."""
        if self._clock() >= self._forget_at:
            self._forget_at = self._clock() + FORGET_SECONDS
            self._tgids, self._roots, self._environments, self._known = set(), set(), set(), set()
        before, self._tgids = self._tgids, set(self._processes.tgids())
        for tgid in sorted(self._tgids - before):
            try:
                namespace = self._processes.link(tgid, "ns/mnt")
            except ExporterError:
                continue
            root = self._processes.proc / str(tgid) / "root"
            if namespace not in self._roots:
                self._roots.add(namespace)
                yield from self._opened(in_root(root))
            for prefix in python_prefixes(self._processes, tgid):
                if (namespace, prefix) not in self._environments:
                    self._environments.add((namespace, prefix))
                    yield from self._opened(of_environment(root, prefix))

    def _opened(self, found: Iterable[tuple[Path, LibraryKind]]) -> Iterator[OpenedLibrary]:
        for path, kind in found:
            try:
                status = os.stat(path)  # noqa: PTH116 - follows links
                file = status.st_dev, status.st_ino
                if file in self._known:
                    continue
                self._known.add(file)
                library = libraries.inspect_file(path, kind)
            except (OSError, ExporterError):
                continue
            if isinstance(library, OpenedLibrary):
                yield library


class LibrarySearch:
    """The thread. wake: called when something was found.

    Without start() nothing is searched but by found_now().
    """

    def __init__(self, likely: LikelyLibraries, wake: Callable[[], None]) -> None:
        self._likely = likely
        self._wake = wake
        self._found: queue.Queue[OpenedLibrary] = queue.Queue(MAX_WAITING)
        self._is_closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="libraries", daemon=True)

    def start(self) -> None:
        """Call it once."""
        self._thread.start()

    def found(self) -> Iterator[OpenedLibrary]:
        """Those since the last call; the caller closes them."""
        while True:
            try:
                yield self._found.get_nowait()
            except queue.Empty:
                return

    def found_now(self) -> Iterator[OpenedLibrary]:
        """Searches in the calling thread; the caller closes them."""
        yield from self._likely.fresh()

    def close(self) -> None:
        """Does not wait for the thread."""
        self._is_closed.set()
        for library in self.found():
            library.close()

    def _run(self) -> None:
        while not self._is_closed.is_set():
            try:
                for library in self._likely.fresh():
                    self._put(library)
            except ExporterError as error:
                log.warning("cannot search libraries before they are mapped: %s", error.one_line())
            self._is_closed.wait(EVERY_SECONDS)

    def _put(self, library: OpenedLibrary) -> None:
        while not self._is_closed.is_set():
            try:
                self._found.put(library, timeout=EVERY_SECONDS)
            except queue.Full:
                continue
            self._wake()
            return
        library.close()
