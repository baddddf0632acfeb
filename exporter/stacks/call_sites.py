"""Which lines of Python made slow calls since a moment, by the kernel's sums and when they grew.

In: all rows of call sites, about once a second. Out: the growth of each since a time.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from exporter.kernel.call_site_rows import CallSiteKey, CallSiteRow
from exporter.units import NANOSECONDS

REMEMBERED_NS: Final = 120 * NANOSECONDS
"""A chain asks for what was before its onset, which is seconds ago when it opens."""


class SlowCalls(NamedTuple):
    """Slow calls of an operation from one stack. calls, total_ns: since the chain began. row: its last state."""

    key: CallSiteKey
    calls: int
    total_ns: int
    row: CallSiteRow


class _Sum(NamedTuple):
    at_ns: int
    calls: int
    total_ns: int


class CallSites:
    """Sums of the last REMEMBERED_NS. Its methods may be called from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # for both
        self._rows: dict[CallSiteKey, CallSiteRow] = {}
        self._sums: dict[CallSiteKey, deque[_Sum]] = {}

    def update(self, rows: Mapping[CallSiteKey, CallSiteRow], now_ns: int) -> None:
        """rows: all that the kernel has; others are forgotten."""
        with self._lock:
            self._update(rows, now_ns)

    def _update(self, rows: Mapping[CallSiteKey, CallSiteRow], now_ns: int) -> None:
        self._rows = dict(rows)
        self._sums = {key: self._sums.get(key) or deque() for key in rows}
        for key, row in rows.items():
            sums = self._sums[key]
            if not sums or sums[-1].calls != row.calls:
                sums.append(_Sum(now_ns, row.calls, row.total_ns))
            while len(sums) > 1 and sums[1].at_ns <= now_ns - REMEMBERED_NS:
                sums.popleft()

    def since(self, process: int, since_ns: int) -> list[SlowCalls]:
        """Stacks of a process with slow calls that returned after since_ns, those that took the longest in all first."""
        with self._lock:
            return sorted(self._since(process, since_ns), key=lambda one: -one.total_ns)

    def _since(self, process: int, since_ns: int) -> Iterator[SlowCalls]:
        for key, row in self._rows.items():
            if key.process == process:
                before = _before(self._sums[key], since_ns)
                calls, total_ns = row.calls - before.calls, row.total_ns - before.total_ns
                if calls:
                    yield SlowCalls(key, calls, total_ns, row)


def _before(sums: deque[_Sum], since_ns: int) -> _Sum:
    """The last sum up to a time; nothing if there was none."""
    return next((one for one in reversed(sums) if one.at_ns <= since_ns), _Sum(0, 0, 0))
