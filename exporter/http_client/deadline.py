"""One point in time for all waits of a request, so that a server that sends a byte now and then gains nothing."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from exporter.http_client.errors import DeadlineExceeded


@dataclass(slots=True)
class Deadline:
    """at: seconds of the clock. missed: the message of DeadlineExceeded. Both may be changed during a request."""

    at: float
    missed: str
    clock: Callable[[], float] = time.monotonic

    @classmethod
    def after(cls, seconds: float, missed: str = "", clock: Callable[[], float] = time.monotonic) -> Deadline:
        """A deadline that many seconds from now."""
        return cls(clock() + seconds, missed or f"no complete response within {seconds:.3g} s", clock)

    def left_seconds(self) -> float:
        """Positive. Raises DeadlineExceeded."""
        left = self.at - self.clock()
        if left <= 0:
            raise self.exceeded()
        return left

    def exceeded(self) -> DeadlineExceeded:
        """The error to raise when a wait has ended without a result."""
        return DeadlineExceeded(self.missed)
