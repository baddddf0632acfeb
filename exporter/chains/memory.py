"""Is the GPU out of memory? An allocation failed and none has worked since: frameworks free what they can, and try again."""

from __future__ import annotations

from typing import NamedTuple

from exporter.chains.thresholds import RETRY_NS


class Allocations(NamedTuple):
    """Of one process so far. failed: for want of memory."""

    failed: int = 0
    allocated_bytes: int = 0


class OutOfMemory:
    """Of one process. since_ns: CLOCK_MONOTONIC of the first failure that no allocation followed; 0 while there is none."""

    def __init__(self) -> None:
        self._before = Allocations()
        self.since_ns = 0

    def update(self, now: Allocations, now_ns: int) -> None:
        """What is known at a tick. An allocation in the tick of the failure counts as one after it."""
        before, self._before = self._before, now
        if now.allocated_bytes > before.allocated_bytes:
            self.since_ns = 0
        elif now.failed > before.failed:
            self.since_ns = self.since_ns or now_ns

    def is_certain(self, now_ns: int, *, has_ended: bool = False) -> bool:
        """Whether nothing worked within RETRY_NS, or until the end."""
        return self.since_ns > 0 and (has_ended or now_ns - self.since_ns >= RETRY_NS)
