"""Finds short losses that come again and again: pauses that are over before a verdict, but cost as much as a lasting fault.

In: short losses, each when it is over. Out: since when they belong together.
"""

from __future__ import annotations

from exporter.chains.span import ProcessState
from exporter.chains.thresholds import HITCHES, HITCHES_WITHIN_NS


class Hitches:
    """Short losses of one process. rest_ns: the longest time between two of them."""

    def __init__(self) -> None:
        self._first: ProcessState | None = None
        self._last_ns = 0
        self._count = 0
        self.rest_ns = 0

    def add(self, began: ProcessState, now_ns: int) -> None:
        """Add one that began then, and is over now."""
        if self._first is None or began.now_ns - self._last_ns > HITCHES_WITHIN_NS:
            self._first, self._count, self.rest_ns = began, 0, 0
        else:
            self.rest_ns = max(self.rest_ns, began.now_ns - self._last_ns)
        self._count += 1
        self._last_ns = now_ns

    def since(self, now_ns: int) -> ProcessState | None:
        """The onset of the first, where there are enough; None otherwise."""
        is_recent = now_ns - self._last_ns <= HITCHES_WITHIN_NS
        return self._first if self._count >= HITCHES and is_recent else None

    def clear(self) -> None:
        self._first, self._count = None, 0
