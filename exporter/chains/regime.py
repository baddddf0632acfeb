"""What a job is like while nothing is wrong: medians of its last quiet seconds.

In: Windows. Out: length of a step, calls per step, share of the time lost by cause.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from exporter.causes import Cause
from exporter.chains.thresholds import (
    FASTER,
    PHASE_CHANGE,
    SAME_LENGTH,
    SAME_LENGTH_SPREADS,
    STEPS_NEEDED,
    STRETCH_WINDOWS,
    STRETCHES_KEPT,
    STRETCHES_NEEDED,
    VARIED,
    WINDOWS_KEPT,
    WINDOWS_NEEDED,
    WINDOWS_NEEDED_VARIED,
    WINDOWS_TO_REMEMBER,
)
from exporter.chains.window import BaselineWindow, Level, deviation, mean, median, relative_deviation, typical_deviation


class Regime:
    """A way in which a job works: a batch size, a phase, a model.

    began_ns: CLOCK_MONOTONIC of its first window; 0 before. late: mean share of a second by which steps are longer than their
    median: 0 for a steady job, more for one that pauses now and then. spread: standard deviation of that share. wander: the
    same of stretches of ten seconds, over ten minutes; 0 while little is known. lag: mean share for which other ranks waited.
    """

    def __init__(self, windows: Iterable[BaselineWindow] = (), *, is_fault: bool = False) -> None:
        self._windows: list[BaselineWindow] = list(windows)[-WINDOWS_KEPT:]
        self._is_fault = is_fault
        self.began_ns = self._windows[0].ended_ns - self._windows[0].wall_ns if self._windows else 0
        self.step_ns = 0.0
        self.calls_per_step = 0.0
        self.lost: Mapping[Cause, float] = {}
        self.lost_of_all = 0.0
        self.late = 0.0
        self.spread = 0.0
        self.calls_spread = 0.0
        self.lag = 0.0
        self.wander = 0.0
        self._recorded: list[float] = []  # lengths of a step that are not part of _stretches yet
        self._stretches: list[float] = []
        self._sum_up()

    def add(self, window: BaselineWindow) -> None:
        """Add a second in which nothing was wrong: the last minute counts, so that slow changes are followed both ways."""
        self.began_ns = self.began_ns or window.ended_ns - window.wall_ns
        self._windows.append(window)
        del self._windows[:-WINDOWS_KEPT]
        self._sum_up()

    def record(self, window: BaselineWindow) -> None:
        """Add any second, slow or not, to how far the job strays from its own baseline within minutes."""
        if not window.steps:
            return
        self._recorded.append(window.step_ns)
        if len(self._recorded) < STRETCH_WINDOWS:
            return
        self._stretches = [*self._stretches[1 - STRETCHES_KEPT :], median(self._recorded)]
        self._recorded.clear()
        if len(self._stretches) >= STRETCHES_NEEDED:
            self.wander = typical_deviation(self._stretches)

    @property
    def is_known(self) -> bool:
        """A job whose seconds differ takes longer to know."""
        return _is_enough(self._windows) and (self.spread < VARIED or len(self._windows) >= WINDOWS_NEEDED_VARIED)

    @property
    def is_worth_keeping(self) -> bool:
        """Whether the job may come back to it."""
        return self.step_ns > 0 and len(self._windows) >= WINDOWS_TO_REMEMBER and not self._is_fault

    @property
    def level(self) -> Level:
        """The same, for comparison with a time."""
        return Level(
            self.late, self.lost, self.lost_of_all, self.calls_per_step, self.spread, self.calls_spread, self.lag
        )

    def is_faster(self, window: BaselineWindow) -> bool:
        """Whether a window is faster by so much that it belongs to another regime."""
        return bool(self.step_ns and window.steps and window.step_ns < self.step_ns * (1 - FASTER))

    def is_like(self, other: Regime) -> bool:
        """Whether both are one, by length and by calls of a step."""
        return self.fits(other.step_ns, other.calls_per_step, other.spread)

    def fits(self, step_ns: float, calls_per_step: float, spread: float = 0.0) -> bool:
        """Whether steps of such a length, with so many calls, are usual here."""
        if not (self.step_ns and step_ns):
            return False
        allowed = max(SAME_LENGTH, SAME_LENGTH_SPREADS * max(self.spread, spread))
        return abs(step_ns / self.step_ns - 1) <= allowed and is_same_work(calls_per_step, self.calls_per_step)

    def _sum_up(self) -> None:
        windows = self._windows
        stepped = [window for window in windows if window.steps]
        self.step_ns = median(window.step_ns for window in stepped)
        calls = [window.calls_per_step for window in stepped]
        self.calls_per_step, self.calls_spread = median(calls), relative_deviation(calls)
        causes = {cause for window in windows for cause in window.lost}
        self.lost = {cause: median(window.lost.get(cause, 0.0) for window in windows) for cause in causes}
        self.lost_of_all = median(window.lost_of_all for window in windows)
        self.lag = mean(window.lag for window in windows)
        late = [1 - self.step_ns / window.step_ns for window in stepped]
        self.late = mean(late)
        self.spread = deviation(late or [window.lost_of_all for window in windows])


def _is_enough(windows: Collection[BaselineWindow]) -> bool:
    if len(windows) < WINDOWS_NEEDED:
        return False
    steps = sum(window.steps for window in windows)
    return not steps or steps >= STEPS_NEEDED


def is_same_work(calls: float, others: float) -> bool:
    """Whether steps with so many calls do the same."""
    return abs(calls - others) <= PHASE_CHANGE * max(calls, others)
