"""Has a capture of a stream into a graph been given up? What the stream is given from then on is never done.

In: how many captures have begun and ended, tick by tick. Out: since when one is open that should not be.
"""

from __future__ import annotations

from typing import NamedTuple

from exporter.chains.thresholds import CAPTURE_NS
from exporter.units import NANOSECONDS


class Captures(NamedTuple):
    """Of one process so far."""

    begun: int = 0
    ended: int = 0


class AbandonedCapture:
    """As many have ended at most as had begun CAPTURE_NS ago, or one of those is still open: others may end meanwhile, and then
    nothing is said.

    since_ns: CLOCK_MONOTONIC when it was seen to be open first; 0 while there is none.
    """

    def __init__(self) -> None:
        self._seen: list[tuple[int, int]] = []  # now_ns, begun
        self._ended = 0
        self.since_ns = 0

    def update(self, now: Captures, now_ns: int) -> None:
        """What is known at a tick."""
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
