"""Is the GPU out of memory, or on the way to it?

In: what a process has allocated, tick by tick. Out: since when it has been so; a sentence of it.
"""

from __future__ import annotations

from typing import NamedTuple

from exporter.chains.thresholds import LEAK_BYTES, LEAK_RISES, LEAK_SCALES, LEAK_WINDOW_NS, LEAK_WINDOW_STEPS, RETRY_NS
from exporter.units import NANOSECONDS, spoken_bytes

_SECONDS_PER_HOUR = 3600


class Allocations(NamedTuple):
    """Of one process. failed: for want of memory, so far; refused_bytes: asked for by the last of them.

    allocated_bytes: so far; live_bytes: of them not freed, in so many allocations; peak_bytes: the most of that at a time.
    gpu_bytes: what the GPU has in all; 0 where that is not known.
    """

    failed: int = 0
    allocated_bytes: int = 0
    live_bytes: int = 0
    refused_bytes: int = 0
    peak_bytes: int = 0
    allocations: int = 0
    gpu_bytes: int = 0


class OutOfMemory:
    """An allocation failed and none has worked since: frameworks free what they can, and try again.

    since_ns: CLOCK_MONOTONIC of the first failure that no allocation followed; 0 while there is none.
    """

    def __init__(self) -> None:
        self._now = Allocations()
        self.since_ns = 0

    def update(self, now: Allocations, now_ns: int) -> None:
        """What is known at a tick. An allocation in the tick of the failure counts as one after it."""
        before, self._now = self._now, now
        if now.allocated_bytes > before.allocated_bytes:
            self.since_ns = 0
        elif now.failed > before.failed:
            self.since_ns = self.since_ns or now_ns

    def is_certain(self, now_ns: int, *, has_ended: bool = False) -> bool:
        """Whether nothing worked within RETRY_NS, or until the end."""
        return self.since_ns > 0 and (has_ended or now_ns - self.since_ns >= RETRY_NS)

    @property
    def detail(self) -> str:
        """`2.0 GiB asked for while 71.2 GiB were live in 311 allocations, at most 74.0 GiB before`"""
        now = self._now
        return (
            f"{spoken_bytes(now.refused_bytes)} asked for while {spoken_bytes(now.live_bytes)} were live in"
            f" {now.allocations:,} allocations, at most {spoken_bytes(now.peak_bytes)} before"
        )


class _Low(NamedTuple):
    """The least that was live in a window, and when and at which step the window began."""

    live_bytes: int
    began_ns: int
    step: int


class Leak:
    """What is live grows from window to window of many steps: what every step frees again does not show in the least of a window.

    A cache of the framework asks the driver for more now and then only: windows of several lengths are looked at, side by side.
    since_ns: CLOCK_MONOTONIC when it began to grow, once that is certain; 0 while it does not.
    """

    def __init__(self) -> None:
        self._growths = [_Growth(LEAK_WINDOW_NS * scale, LEAK_WINDOW_STEPS * scale) for scale in LEAK_SCALES]
        self._gpu_bytes = 0

    def update(self, now: Allocations, steps: int, now_ns: int) -> None:
        """What is known at a tick."""
        self._gpu_bytes = now.gpu_bytes
        for growth in self._growths:
            growth.update(now.live_bytes, steps, now_ns)

    @property
    def since_ns(self) -> int:
        """The earliest that is known."""
        return min((growth.since_ns for growth in self._growths if growth.since_ns), default=0)

    @property
    def detail(self) -> str:
        """`1.2 GiB more within 90 s, 12.0 MiB a step; at this rate the GPU's 80.0 GiB are full in 1.4 h`"""
        growth = min((one for one in self._growths if one.since_ns), key=lambda one: one.since_ns)
        told = (
            f"{spoken_bytes(growth.grown_bytes)} more within {growth.passed_ns / NANOSECONDS:.0f} s,"
            f" {spoken_bytes(growth.grown_bytes / growth.steps)} a step"
        )
        if not self._gpu_bytes:
            return told
        left_bytes = max(self._gpu_bytes - growth.live_bytes, 0)
        hours = left_bytes * growth.passed_ns / max(growth.grown_bytes, 1) / NANOSECONDS / _SECONDS_PER_HOUR
        return f"{told}; at this rate the GPU's {spoken_bytes(self._gpu_bytes)} are full in {hours:.1f} h"


class _Growth:
    """In windows of at least so long, and so many steps."""

    def __init__(self, window_ns: int, window_steps: int) -> None:
        self._window_ns = window_ns
        self._window_steps = window_steps
        self._rising: list[_Low] = []  # windows, each with more than the one before
        self._open: _Low | None = None
        self._calm_windows = 0
        self.since_ns = 0

    def update(self, live_bytes: int, steps: int, now_ns: int) -> None:
        """What is known at a tick."""
        window = self._open
        if window is None:
            self._open = _Low(live_bytes, now_ns, steps)
        elif now_ns - window.began_ns < self._window_ns or steps - window.step < self._window_steps:
            self._open = window._replace(live_bytes=min(window.live_bytes, live_bytes))
        else:
            self._open = _Low(live_bytes, now_ns, steps)
            self._end(window)

    def _end(self, window: _Low) -> None:
        if self._rising and window.live_bytes > self._rising[-1].live_bytes:
            self._rising = [*self._rising[: LEAK_RISES + 1], window]  # the first ones say since when
            self._calm_windows = 0
        else:
            self._calm_windows += 1
            if not self.since_ns or self._calm_windows > 1:
                self._rising, self.since_ns = [window], 0
        if len(self._rising) > LEAK_RISES and self.grown_bytes >= LEAK_BYTES:
            self.since_ns = self._rising[0].began_ns

    @property
    def live_bytes(self) -> int:
        """In the last window."""
        return self._rising[-1].live_bytes

    @property
    def grown_bytes(self) -> int:
        """Since the first window."""
        return self._rising[-1].live_bytes - self._rising[0].live_bytes

    @property
    def passed_ns(self) -> int:
        """Since then."""
        return max(self._rising[-1].began_ns - self._rising[0].began_ns, 1)

    @property
    def steps(self) -> int:
        """Since then."""
        return max(self._rising[-1].step - self._rising[0].step, 1)
