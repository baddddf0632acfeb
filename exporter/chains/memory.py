"""Detects a GPU that is out of memory, and a leak that will get it there.

In: allocations of a process, tick by tick. Out: since when; a sentence about it.
"""

from __future__ import annotations

from typing import NamedTuple

from exporter.chains.thresholds import LEAK_BYTES, LEAK_RISES, LEAK_SCALES, LEAK_WINDOW_NS, LEAK_WINDOW_STEPS, RETRY_NS
from exporter.units import NANOSECONDS, spoken_bytes

_SECONDS_PER_HOUR = 3600


class Allocations(NamedTuple):
    """Allocations of one process. failed: out of memory, so far; refused_bytes: size of the last of those.

    allocated_bytes: so far; live_bytes: not freed yet, in live_allocations; peak_bytes: largest live_bytes so far.
    gpu_bytes: memory of the GPU; 0 if unknown.
    """

    failed: int = 0
    allocated_bytes: int = 0
    live_bytes: int = 0
    refused_bytes: int = 0
    peak_bytes: int = 0
    allocations: int = 0
    gpu_bytes: int = 0


class OutOfMemory:
    """An allocation failed and none has succeeded since: frameworks free what they can, and try again.

    since_ns: CLOCK_MONOTONIC of the first failure that no allocation followed; 0 while there is none.
    """

    def __init__(self) -> None:
        self._now = Allocations()
        self.since_ns = 0

    def update(self, now: Allocations, now_ns: int) -> None:
        """Update at a tick. An allocation in the tick of the failure counts as one after it."""
        before, self._now = self._now, now
        if now.allocated_bytes > before.allocated_bytes:
            self.since_ns = 0
        elif now.failed > before.failed:
            self.since_ns = self.since_ns or now_ns

    def is_certain(self, now_ns: int, *, has_ended: bool = False) -> bool:
        """Whether no allocation succeeded within RETRY_NS, or until the end."""
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
    """The minimum of live memory in a window, and when and at which step the window began."""

    live_bytes: int
    began_ns: int
    step: int


class Leak:
    """Live memory grows from window to window of many steps: what a step frees again does not show in a window's minimum.

    A framework's cache asks the driver for more only now and then: windows of several lengths are compared side by side.
    since_ns: CLOCK_MONOTONIC when it began to grow, once that is certain; 0 while it does not grow.
    """

    def __init__(self) -> None:
        self._growths = [_Growth(LEAK_WINDOW_NS * scale, LEAK_WINDOW_STEPS * scale) for scale in LEAK_SCALES]
        self._gpu_bytes = 0

    def update(self, now: Allocations, steps: int, now_ns: int) -> None:
        """Update at a tick."""
        self._gpu_bytes = now.gpu_bytes
        for growth in self._growths:
            growth.update(now.live_bytes, steps, now_ns)

    @property
    def since_ns(self) -> int:
        """The earliest onset over all lengths."""
        return min((growth.since_ns for growth in self._growths if growth.since_ns), default=0)

    @property
    def detail(self) -> str:
        """`1.2 GiB more within 90 s, 12.0 MiB a step; at this rate the GPU's 80.0 GiB are full in 1.4 h`"""
        growth = min((one for one in self._growths if one.since_ns), key=lambda one: one.since_ns)
        grown = (
            f"{spoken_bytes(growth.grown_bytes)} more within {growth.passed_ns / NANOSECONDS:.0f} s,"
            f" {spoken_bytes(growth.grown_bytes / growth.steps)} a step"
        )
        if not self._gpu_bytes:
            return grown
        left_bytes = max(self._gpu_bytes - growth.live_bytes, 0)
        hours = left_bytes * growth.passed_ns / max(growth.grown_bytes, 1) / NANOSECONDS / _SECONDS_PER_HOUR
        return f"{grown}; at this rate the GPU's {spoken_bytes(self._gpu_bytes)} are full in {hours:.1f} h"


class _Growth:
    """Growth in windows of at least this length and this many steps."""

    def __init__(self, window_ns: int, window_steps: int) -> None:
        self._window_ns = window_ns
        self._window_steps = window_steps
        self._rising: list[_Low] = []  # windows, each with more than the one before
        self._open: _Low | None = None
        self._calm_windows = 0
        self.since_ns = 0

    def update(self, live_bytes: int, steps: int, now_ns: int) -> None:
        """Update at a tick."""
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
            self._rising = [*self._rising[: LEAK_RISES + 1], window]  # the first ones hold the onset
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
