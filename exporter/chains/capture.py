"""Finds abandoned captures of a stream into a graph: work given to the stream after that never runs.

In: how many captures have begun and ended, tick by tick. Out: since when one has been open for too long.
"""

from __future__ import annotations

from typing import NamedTuple

from exporter.chains.thresholds import CAPTURE_NS
from exporter.units import NANOSECONDS


class Captures(NamedTuple):
    """Captures of one process so far."""

    begun: int = 0
    ended: int = 0


class AbandonedCapture:
    """A capture is abandoned while no more captures have ended than had begun CAPTURE_NS ago. Where others end in that time the
    abandoned one goes unnoticed.

    since_ns: CLOCK_MONOTONIC when it was first seen open; 0 without one.
    """

    def __init__(self) -> None:
        self._seen: list[tuple[int, int]] = []  # now_ns, begun
        self._ended = 0
        self.since_ns = 0

    def update(self, now: Captures, now_ns: int) -> None:
        """Update at a tick."""
        self._ended = now.ended
        if not self._seen or now.begun != self._seen[-1][1]:
            self._seen.append((now_ns, now.begun))
        while len(self._seen) > 1 and self._seen[0][1] <= now.ended:
            del self._seen[0]
        first_ns, begun = self._seen[0]
        is_old = begun > now.ended and now_ns - first_ns >= CAPTURE_NS
        self.since_ns = first_ns if is_old else 0

    @property
    def detail(self) -> str:
        """`3 captures have begun and not ended for more than 10 s`"""
        count = self._seen[0][1] - self._ended
        what = "a capture has" if count == 1 else f"{count} captures have"
        return f"{what} begun and not ended for more than {CAPTURE_NS // NANOSECONDS} s"
