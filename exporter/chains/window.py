"""A second of a job in a few figures, and what several of them have in common.

In: a Span of a second or a step. Out: a BaselineWindow; a Level, which an episode is judged against.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from exporter.causes import Cause
from exporter.chains.span import Span

# Standard deviations of a normal distribution, in mean and in median absolute deviations.
_DEVIATION_OF_MEAN = 1.2533
_DEVIATION_OF_MEDIAN = 1.4826


class BaselineWindow(NamedTuple):
    """step_ns, calls_per_step: 0 where no step ended. lost: shares of the wall time. late: share of it by which the job was
    slower than its baseline at that time; 0 without a baseline. lag: share of it for which other ranks waited for this one.
    """

    ended_ns: int
    wall_ns: int
    steps: int
    step_ns: float
    calls_per_step: float
    lost: Mapping[Cause, float]
    lost_of_all: float
    late: float = 0.0
    lag: float = 0.0


class Level(NamedTuple):
    """How slow a job is over a while, and what it loses. late, lost, lag: shares of the wall time; spread: standard deviation of
    `late` from window to window; calls_spread: of the calls per step, as a share of them.
    """

    late: float = 0.0
    lost: Mapping[Cause, float] = {}
    lost_of_all: float = 0.0
    calls_per_step: float = 0.0
    spread: float = 0.0
    calls_spread: float = 0.0
    lag: float = 0.0


def window_of(span: Span) -> BaselineWindow:
    steps = span.steps if span.steps_ns > 0 else 0  # the idle time of another second may be taken off
    return BaselineWindow(
        span.now.now_ns,
        span.wall_ns,
        steps,
        span.steps_ns / steps if steps else 0.0,
        span.calls_per_step,
        lost_shares(span),
        span.lost_of_all_ns() / span.wall_ns,
        span.late_share,
        span.lag_ns() / span.wall_ns,
    )


def level_of(windows: Sequence[BaselineWindow]) -> Level:
    """Means over at least one window, weighted by their length: what is lost now and then counts as much as it costs."""
    wall_ns = sum(window.wall_ns for window in windows)
    causes = {cause for window in windows for cause in window.lost}
    late = sum(window.late * window.wall_ns for window in windows) / wall_ns
    calls = [window.calls_per_step for window in windows if window.steps]
    return Level(
        late,
        {cause: sum(one.lost.get(cause, 0.0) * one.wall_ns for one in windows) / wall_ns for cause in causes},
        sum(window.lost_of_all * window.wall_ns for window in windows) / wall_ns,
        median(calls),
        deviation(window.late for window in windows),
        relative_deviation(calls),
        sum(window.lag * window.wall_ns for window in windows) / wall_ns,
    )


def lost_shares(span: Span) -> dict[Cause, float]:
    """Shares of wall time, by cause."""
    shares: dict[Cause, float] = {}
    for (cause, _), ns in span.lost_ns().items():
        shares[cause] = shares.get(cause, 0.0) + ns / span.wall_ns
    return shares


def deviation(values: Iterable[float]) -> float:
    """Standard deviation by the mean absolute difference from the mean, without the value that differs most: one odd second is no
    habit, but a job that pauses in every fourth second has one, which a median of differences does not see.
    """
    found = sorted(values)
    center = mean(found)
    if len(found) > 2:
        found.remove(max(found[0], found[-1], key=lambda value: abs(value - center)))
        center = mean(found)
    return _DEVIATION_OF_MEAN * mean(abs(value - center) for value in found)


def relative_deviation(values: Sequence[float]) -> float:
    """As a share of their mean; 0 of nothing."""
    center = mean(values)
    return deviation(values) / center if center else 0.0


def typical_deviation(values: Sequence[float]) -> float:
    """Standard deviation by the median difference from the median, as a share of it: a few odd values do not count."""
    center = median(values)
    return _DEVIATION_OF_MEDIAN * median(abs(value - center) for value in values) / center if center else 0.0


def mean(values: Iterable[float]) -> float:
    """0 of nothing."""
    found = list(values)
    return sum(found) / len(found) if found else 0.0


def median(values: Iterable[float]) -> float:
    """0 of nothing. statistics.median imports decimals and fractions: 0.8 MiB."""
    found = sorted(values)
    middle = len(found) // 2
    return (found[middle] + found[~middle]) / 2 if found else 0.0
