"""Baseline of a job: medians of its last quiet seconds.

In: Spans of one second. Out: length of a step, calls per step, share of the time lost by cause.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from exporter.causes import Cause
from exporter.chains.span import Span
from exporter.chains.thresholds import FASTER, STEPS_NEEDED, WINDOWS_KEPT, WINDOWS_NEEDED

_DEVIATION_OF_MAD = 1.4826  # standard deviations of a normal distribution, in median absolute deviations


class _Window(NamedTuple):
    """step_ns, calls_per_step: 0 where no step ended. lost: shares of the wall time."""

    steps: int
    step_ns: float
    calls_per_step: float
    lost: Mapping[Cause, float]
    lost_of_all: float


class Baseline:
    """Baseline of one process."""

    def __init__(self) -> None:
        self._windows: list[_Window] = []
        self.step_ns = 0.0
        self.calls_per_step = 0.0
        self.lost: Mapping[Cause, float] = {}
        self.lost_of_all = 0.0
        self.spread = 0.0

    def add(self, span: Span) -> None:
        """Add a second in which nothing was wrong."""
        steps = span.steps
        is_faster = self._has_become_faster(span)
        self._windows.append(
            _Window(
                steps,
                span.steps_ns / steps if steps else 0.0,
                span.calls / steps if steps else 0.0,
                lost_shares(span),
                span.lost_of_all_ns() / span.wall_ns,
            )
        )
        del self._windows[:-WINDOWS_KEPT]
        while is_faster and self._is_enough(self._windows[1:]):
            del self._windows[0]
        self._sum_up()

    def forget(self) -> None:
        """The job is in another phase: start over."""
        self._windows.clear()
        self._sum_up()

    @property
    def is_known(self) -> bool:
        return self._is_enough(self._windows)

    def _is_enough(self, windows: Collection[_Window]) -> bool:
        if len(windows) < WINDOWS_NEEDED:
            return False
        return not self.step_ns or sum(window.steps for window in windows) >= STEPS_NEEDED

    def _has_become_faster(self, span: Span) -> bool:
        return bool(self.step_ns and span.steps and span.steps_ns / span.steps < self.step_ns * (1 - FASTER))

    def _sum_up(self) -> None:
        windows = self._windows
        stepped = [window for window in windows if window.steps]
        self.step_ns = _median(window.step_ns for window in stepped)
        self.calls_per_step = _median(window.calls_per_step for window in stepped)
        causes = {cause for window in windows for cause in window.lost}
        self.lost = {cause: _median(window.lost.get(cause, 0.0) for window in windows) for cause in causes}
        self.lost_of_all = _median(window.lost_of_all for window in windows)
        if self.step_ns:
            parts = [1 - self.step_ns / window.step_ns for window in stepped]
        else:
            parts = [window.lost_of_all - self.lost_of_all for window in windows]
        self.spread = _DEVIATION_OF_MAD * _median(map(abs, parts))


def lost_shares(span: Span) -> dict[Cause, float]:
    """Shares of wall time, by cause."""
    shares: dict[Cause, float] = {}
    for (cause, _), ns in span.lost_ns().items():
        shares[cause] = shares.get(cause, 0.0) + ns / span.wall_ns
    return shares


def _median(values: Iterable[float]) -> float:
    """0 of nothing. statistics.median imports decimals and fractions: 0.8 MiB."""
    found = sorted(values)
    middle = len(found) // 2
    return (found[middle] + found[~middle]) / 2 if found else 0.0
