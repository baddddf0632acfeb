"""Readings of the monotonic clock with the time of day that belongs to it.

In: the two clocks of the kernel. Out: Moments. The difference of the two clocks is kept until the time of day is set, so that one
event has one timestamp in every exposition.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

from exporter.units import NANOSECONDS

_STEP_NS = (
    NANOSECONDS // 2
)  # both clocks are slewed alike, so a larger change of their difference means that the time of day was set


class Moment(NamedTuple):
    """A point in time. monotonic_ns: CLOCK_MONOTONIC, as in BPF programs. unix_ns: since 1970, for people and protocols."""

    monotonic_ns: int
    unix_ns: int

    def unix_ns_of(self, monotonic_ns: int) -> int:
        """The time of day of another reading of the monotonic clock."""
        return self.unix_ns - self.monotonic_ns + monotonic_ns


class Clock:
    """monotonic_ns, unix_ns: the clocks, in nanoseconds."""

    def __init__(
        self, monotonic_ns: Callable[[], int] = time.monotonic_ns, unix_ns: Callable[[], int] = time.time_ns
    ) -> None:
        self._monotonic_ns = monotonic_ns
        self._unix_ns = unix_ns
        self._difference_ns = unix_ns() - monotonic_ns()

    def now(self) -> Moment:
        monotonic_ns = self._monotonic_ns()
        difference_ns = self._unix_ns() - monotonic_ns
        if abs(difference_ns - self._difference_ns) > _STEP_NS:
            self._difference_ns = difference_ns
        return Moment(monotonic_ns, monotonic_ns + self._difference_ns)
