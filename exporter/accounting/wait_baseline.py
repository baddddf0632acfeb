"""Baseline of waits for the GPU without a stall before them: a mean that follows the job from phase to phase.

For a job that stalls before every wait there is a ceiling instead.
"""

from __future__ import annotations

MIN_CLEAN = 5  # with fewer there is no mean
_FADING = 512  # beyond this many the older half counts half
_VARIATION = 16  # means of a few waits differ by less than 1/16


class WaitBaseline:
    """Mean of the last few hundred clean waits."""

    def __init__(self) -> None:
        self._count = 0
        self._sum_ns = 0

    def add(self, count: int, sum_ns: int) -> None:
        """Add clean waits."""
        self._count += count
        self._sum_ns += sum_ns
        while self._count >= _FADING:
            self._count, self._sum_ns = self._count // 2, self._sum_ns // 2

    @property
    def is_known(self) -> bool:
        return self._count >= MIN_CLEAN

    def expected_ns(self, count: int) -> int:
        """What `count` clean waits take."""
        return count * self._sum_ns // self._count


class Ceiling:
    """Upper bound of the waits of a job that stalls before every one of them.

    A stall shortens the wait after it by at most its own length: without the stall the wait would have taken at least as long as
    it did, and at most as long as both together. The smallest sum is kept until a wait exceeds it.
    """

    def __init__(self) -> None:
        self._bound_ns: int | None = None

    def add(self, count: int, waited_ns: int, stalled_ns: int) -> None:
        """Add waits, at least one, and the stalls before them."""
        least_ns, most_ns = waited_ns // count, (waited_ns + stalled_ns) // count
        if self._bound_ns is None or not least_ns <= self._bound_ns <= most_ns:
            self._bound_ns = most_ns

    def expected_ns(self, count: int) -> int:
        """Upper bound of `count` waits without stalls; a little more than was seen, since waits vary."""
        bound_ns = self._bound_ns or 0
        return count * (bound_ns + bound_ns // _VARIATION)
