"""Is a job slower than it was? Page's cumulative sum of what was lost beyond an allowance.

In: nanoseconds lost against the usual, tick by tick, negative where the job was faster. Out: whether it has changed, since when.
"""

from __future__ import annotations

from exporter.chains.thresholds import ALARM_NS, ALLOWANCE, SPREADS_ALLOWED, SPREADS_TO_ALARM
from exporter.units import NANOSECONDS


class Cusum:
    """Of one job. began_ns: CLOCK_MONOTONIC since when it is slower, if it is; lost_ns: since then, however long that is.

    Of what others accuse it of nothing is known before they did.
    """

    def __init__(self) -> None:
        self.began_ns = 0
        self.lost_ns = 0.0
        self._sum_ns = 0.0
        self._alarm_ns = float(ALARM_NS)

    def see(self, excess_ns: float, wall_ns: int, now_ns: int, *, spread: float) -> None:
        """One tick more. spread: standard deviation of the part of a second that is lost while nothing is wrong."""
        if not self._sum_ns:
            self.began_ns, self.lost_ns = now_ns - wall_ns, 0.0
        self.lost_ns += excess_ns
        allowed_ns = max(ALLOWANCE, SPREADS_ALLOWED * spread) * wall_ns
        self._alarm_ns = max(ALARM_NS, SPREADS_TO_ALARM * spread * NANOSECONDS)
        self._sum_ns = max(self._sum_ns + excess_ns - allowed_ns, 0.0)

    @property
    def is_suspect(self) -> bool:
        """Whether more was lost lately than is allowed."""
        return self._sum_ns > 0

    @property
    def is_calm(self) -> bool:
        """Whether nothing is on its way to an alarm."""
        return self._sum_ns < self._alarm_ns / 2

    @property
    def is_alarm(self) -> bool:
        """Whether it is slower, beyond what its own variation explains."""
        return self._sum_ns >= self._alarm_ns

    def accuse(self, began_ns: int) -> None:
        """Others have lost enough since then, and say that it is this job's doing."""
        if not self.is_alarm:
            self.began_ns, self.lost_ns, self._sum_ns = began_ns, 0.0, self._alarm_ns

    def reset(self) -> None:
        """As if nothing had been lost."""
        self._sum_ns = 0.0
