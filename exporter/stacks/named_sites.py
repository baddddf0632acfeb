"""The sums of slow calls with the names of their stacks, for every process.

In: all rows of call sites; frames that can be named. Out: CallSites, whose sums only grow. A stack is named soon after its first
slow call: later its functions may be gone.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Final

from exporter.errors import NotPossibleHere, ProcessGone
from exporter.kernel.apis import API_LABEL
from exporter.kernel.call_site_rows import CallSiteKey, CallSiteRow
from exporter.kernel.operations import OPERATIONS
from exporter.python.call_site import OTHER_STACKS, CallSite, CallStack, PythonFrame
from exporter.python.paths import without_folders
from exporter.stacks.python_stacks import PythonStacks

TRIES_MAX: Final = 3
"""For the names of a stack: its process may be changing while it is read."""
NAMED_AT_ONCE: Final = 64
"""Stacks; some take a millisecond, and stuck threads of a chain must not wait for long."""

Rows = Mapping[CallSiteKey, CallSiteRow]


class NamedSites:
    """name_new() and stack_of() read memory, in the collector's thread; the other methods may be called from any thread.

    with_paths: False: only names of files.
    """

    def __init__(
        self, stacks: PythonStacks, working_directory_of: Callable[[int], str], *, with_paths: bool = True
    ) -> None:
        self._stacks = stacks
        self._working_directory_of = working_directory_of
        self._with_paths = with_paths
        self._lock = threading.Lock()  # for the next three
        self._rows: dict[int, Rows] = {}  # by process
        self._names: dict[CallSiteKey, CallStack] = {}
        self._tries: dict[CallSiteKey, int] = {}
        self.read_ns = 0
        """When the rows were read, CLOCK_MONOTONIC."""

    def update(self, rows: Rows, now_ns: int) -> bool:
        """rows: all that the kernel has; others are forgotten. Returns whether some have no names yet."""
        by_process: dict[int, dict[CallSiteKey, CallSiteRow]] = {}
        for key, row in rows.items():
            by_process.setdefault(key.process, {})[key] = row
        with self._lock:
            self.read_ns = now_ns
            self._rows = {process: by_process[process] for process in by_process}
            self._names = {key: stack for key, stack in self._names.items() if key in rows}
            self._tries = {key: tries for key, tries in self._tries.items() if key in rows}
            return len(self._names) < len(rows)

    def name_new(self) -> None:
        """Names some of the stacks that have no names yet."""
        with self._lock:
            unnamed = [
                (key, row) for rows in self._rows.values() for key, row in rows.items() if key not in self._names
            ]
        for key, row in unnamed[:NAMED_AT_ONCE]:
            self.stack_of(key, row)

    def stack_of(self, key: CallSiteKey, row: CallSiteRow) -> CallStack | None:
        """The names of a stack; None if they cannot be read."""
        with self._lock:
            known = self._names.get(key)
        if known is None:
            known = self._read(row)
            self._remember(key, known)
        return known if known is not None and known.frames else None

    def call_sites(self, process: int) -> tuple[CallSite, ...]:
        """The slow calls of a process so far."""
        with self._lock:
            rows = self._rows.get(process, {})
        return self.named(rows)

    def named(self, rows: Rows) -> tuple[CallSite, ...]:
        """rows: of one process. Those of stacks that could not be named are added up by operation."""
        with self._lock:
            named = [(key, row, self._names[key]) for key, row in rows.items() if key in self._names]
        sums: dict[tuple[str, str, CallStack], CallSite] = {}
        for key, row, stack in named:
            operation = OPERATIONS[key.operation]
            one = CallSite(API_LABEL[operation.api], operation.name, row.slow_ns, row.calls, row.total_ns, stack)
            before = sums.get(one.place)
            sums[one.place] = one if before is None else before.plus(one)
        return tuple(sums.values())

    def _remember(self, key: CallSiteKey, stack: CallStack | None) -> None:
        with self._lock:
            if stack is not None:
                self._names[key] = stack
                return
            self._tries[key] = self._tries.get(key, 0) + 1
            if self._tries[key] >= TRIES_MAX:
                self._names[key] = OTHER_STACKS

    def _read(self, row: CallSiteRow) -> CallStack | None:
        """The thread that made the first call may have ended: the main thread has the same memory."""
        for tid in dict.fromkeys((row.tid, row.tgid)):
            frames = self._stacks.named(row.tgid, tid, row.place, row.frames)
            if frames:
                return self.shown(row.tgid, frames)
        return None

    def shown(self, tgid: int, frames: tuple[PythonFrame, ...]) -> CallStack:
        """Frames of a process, with its directory, or without any folder."""
        if not self._with_paths:
            return CallStack("", tuple(frame._replace(file=without_folders(frame.file)) for frame in frames))
        try:
            return CallStack(self._working_directory_of(tgid), frames)
        except (ProcessGone, NotPossibleHere):
            return CallStack("", frames)
