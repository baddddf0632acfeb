"""Lines of the log that make no thread wait: standard error may not be read, or its disk may not respond.

In: lines, from any thread. Out: bytes on a descriptor, written by a thread without capabilities; lines without room are dropped
and counted.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from exporter.host import capabilities

LINES_MAX: Final = 1_000
"""Lines that wait. A start with 100 libraries has some 200."""
STOP_SECONDS: Final = 1.0


class LogLines:
    """dropped: lines so far. report: called with them, in the thread that writes, when there is room again."""

    def __init__(self, fd: int, report: Callable[[int], None] = lambda _: None) -> None:
        self.dropped = 0
        self._fd = fd
        self._report = report
        self._lines: deque[bytes] = deque()
        self._changed = threading.Condition()
        self._is_stopping = False
        self._thread = threading.Thread(target=self._run, name="log", daemon=True)
        self._thread.start()

    def put(self, line: bytes) -> None:
        """Without a line break. Never waits."""
        with self._changed:
            if len(self._lines) >= LINES_MAX:
                self.dropped += 1
            else:
                self._lines.append(line + b"\n")
                self._changed.notify()

    def stop(self) -> bool:
        """Write what waits, for STOP_SECONDS at most; returns whether all of it is written."""
        with self._changed:
            self._is_stopping = True
            self._changed.notify()
        self._thread.join(STOP_SECONDS)
        return not self._thread.is_alive()

    def _run(self) -> None:
        with suppress(OSError):  # a filter of system calls may refuse it; the lines are written all the same
            capabilities.keep_only(())
        reported, is_cut = 0, False
        while (line := self._next()) is not None:
            line, is_cut = (b"\n" + line if is_cut else line), False
            length = len(line)
            try:
                while line:
                    line = line[os.write(self._fd, line) :]
            except OSError:
                is_cut = 0 < len(line) < length
                with self._changed:
                    self.dropped += 1
                continue
            if self.dropped > reported and not self._lines:
                reported = self.dropped
                self._report(reported)

    def _next(self) -> bytes | None:
        """The next line; None when it is stopping and none is left."""
        with self._changed:
            while not self._lines and not self._is_stopping:
                self._changed.wait()
            return self._lines.popleft() if self._lines else None
