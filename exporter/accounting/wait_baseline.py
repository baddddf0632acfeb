"""What does a wait for the GPU take when nothing comes between? A mean that follows the job from phase to phase.

Of a job in which something always comes between there is still a ceiling.
"""

from __future__ import annotations

MIN_CLEAN = 5  # fewer say nothing
_FADING = 512  # from this many on the older half counts half
_VARIATION = 16  # means of a few waits differ by less than this part


class WaitBaseline:
    """The mean of clean waits, of the last few hundred."""

    def __init__(self) -> None:
        self._count = 0
        self._sum_ns = 0

    def see(self, count: int, sum_ns: int) -> None:
        """More clean waits."""
        self._count += count
        self._sum_ns += sum_ns
        while self._count >= _FADING:
            self._count, self._sum_ns = self._count // 2, self._sum_ns // 2

    @property
    def is_known(self) -> bool:
        """Whether there were enough."""
        return self._count >= MIN_CLEAN

    def expected_ns(self, count: int) -> int:
        """What `count` waits take, if they are clean."""
        return count * self._sum_ns // self._count


class Ceiling:
    """What waits of a job take at most that stalls before every one of them.

    A stall shortens the wait behind it by no more than it lasts: without the stall the wait would have taken as long as it
    did at least, and as long as both together at most. The smallest sum is kept, for as long as waits do not outgrow it.
    """

    def __init__(self) -> None:
        self._usual_ns: int | None = None

    def see(self, count: int, waited_ns: int, stalled_ns: int) -> None:
        """More waits, at least one; the stalls before them."""
        least_ns, most_ns = waited_ns // count, (waited_ns + stalled_ns) // count
        if self._usual_ns is None or not least_ns <= self._usual_ns <= most_ns:
            self._usual_ns = most_ns

    def expected_ns(self, count: int) -> int:
        """What `count` waits take without stalls, at most; a little more than was seen, since waits vary."""
        usual_ns = self._usual_ns or 0
        return count * (usual_ns + usual_ns // _VARIATION)
