"""Detects that a job has become slower: Page's cumulative sum of what was lost beyond an allowance.

In: nanoseconds lost against the baseline, tick by tick, negative where the job was faster. Out: whether and when it changed.
"""

from __future__ import annotations

from exporter.chains.thresholds import ALARM_NS, ALLOWANCE, SPREADS_ALLOWED, SPREADS_TO_ALARM
from exporter.units import NANOSECONDS


class Cusum:
    """State of one job. began_ns: CLOCK_MONOTONIC of the onset, if it is slower; lost_ns: since then.

    After start_at() the state counts from that moment.
    """

    def __init__(self) -> None:
        self.began_ns = 0
        self.lost_ns = 0.0
        self._sum_ns = 0.0
        self._alarm_ns = float(ALARM_NS)

    def add(self, excess_ns: float, wall_ns: int, now_ns: int, *, spread: float) -> None:
        """Add a tick. spread: standard deviation of the share of a second that is lost while nothing is wrong."""
        if not self._sum_ns:
            self.began_ns, self.lost_ns = now_ns - wall_ns, 0.0
        self.lost_ns += excess_ns
        allowed_ns = max(ALLOWANCE, SPREADS_ALLOWED * spread) * wall_ns
        self._alarm_ns = max(ALARM_NS, SPREADS_TO_ALARM * spread * NANOSECONDS)
        self._sum_ns = max(self._sum_ns + excess_ns - allowed_ns, 0.0)

    @property
    def is_suspect(self) -> bool:
        """Whether more is being lost than is allowed."""
        return self._sum_ns > 0

    @property
    def is_calm(self) -> bool:
        """Whether the sum is far below an alarm."""
        return self._sum_ns < self._alarm_ns / 2

    @property
    def is_alarm(self) -> bool:
        """Whether it is slower beyond its own variation."""
        return self._sum_ns >= self._alarm_ns

    def start_at(self, began_ns: int) -> None:
        """Other ranks have lost enough since then waiting for this job."""
        if not self.is_alarm:
            self.began_ns, self.lost_ns, self._sum_ns = began_ns, 0.0, self._alarm_ns

    def reset(self) -> None:
        """Start over."""
        self._sum_ns = 0.0
