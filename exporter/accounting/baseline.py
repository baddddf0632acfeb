"""What does a wait for the GPU take when nothing comes between? A mean that follows the job from phase to phase."""

from __future__ import annotations

MIN_CLEAN = 5  # fewer say nothing
_FADING = 512  # from this many on the older half counts half


class Baseline:
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
