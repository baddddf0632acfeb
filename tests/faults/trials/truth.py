"""What the step log of a job shows: how much longer its steps were during a fault, and how much time that cost.

In: logged steps and the moments of a fault. Out: a StepTruth. A job whose steps follow each other is measured from the end of one
step to the end of the next; one that waits for its users, by the length of its steps.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise, takewhile
from statistics import fmean, median
from typing import NamedTuple

from exporter.units import NANOSECONDS
from tests.faults.job import Step

BOUND = 0.2
"""A fault is one only if steps become longer by this part."""
NOISE_FACTOR = 3.0
SETTLED = 0.3
"""Steps that change by more before the fault cannot be compared with: the machine has other work."""
BASE_NS = 10 * NANOSECONDS


class Span(NamedTuple):
    """One step, with the time since the one before where these follow each other."""

    start_ns: int
    end_ns: int

    @property
    def wall_ns(self) -> int:
        return self.end_ns - self.start_ns


@dataclass(frozen=True)
class StepTruth:
    """One rank in the time of a fault. A job with several is as slow as its slowest rank.

    impact: how much longer the median step was than before. lost_share: of the time of the fault, lost against the mean before.
    noise_share: the same of the second half of the time before the fault, against its first half.
    wall_ns: of the fault, without pauses.
    first_slow_ns: the begin of the first step that was longer by half the bound, as was the mean of the second that it begins; 0
    without one. A single long step is no fault.
    rates: steps per second before, during and after.
    """

    impact: float
    lost_share: float
    noise_share: float
    first_slow_ns: int
    wall_ns: int
    rates: tuple[float, float, float]

    @property
    def lost_ns(self) -> float:
        """Beyond what as many steps took before."""
        return self.lost_share * self.wall_ns

    @property
    def slowdown(self) -> float:
        """Slowdown of the median step, or of the mean where few steps are much longer."""
        share = min(max(self.lost_share, 0.0), 0.999)
        return max(
            self.impact, share / (1 - share) if self.lost_share > NOISE_FACTOR * max(self.noise_share, 0) else 0.0
        )

    @property
    def is_settled(self) -> bool:
        """Whether steps before the fault were of one kind."""
        return abs(self.noise_share) <= SETTLED

    @property
    def is_real(self) -> bool:
        """Whether there was a fault at all, whatever was done."""
        return self.slowdown >= BOUND


def truth_of(steps: Iterable[Step], on_ns: int, off_ns: int, *, has_pauses: bool = False) -> StepTruth:
    """The rank that lost most. has_pauses: between its steps. Raises ValueError when no rank has steps before the fault."""
    by_rank: dict[int, list[Step]] = {}
    for step in steps:
        by_rank.setdefault(step.rank, []).append(step)
    ranks = (_of_rank(own, on_ns, off_ns, has_pauses=has_pauses) for own in by_rank.values())
    return max(ranks, key=lambda truth: truth.slowdown)


def _of_rank(steps: Sequence[Step], on_ns: int, off_ns: int, *, has_pauses: bool) -> StepTruth:
    spans = spans_of(steps, has_pauses=has_pauses)
    middle_ns = on_ns - BASE_NS // 2
    before = [span for span in spans if on_ns - BASE_NS <= span.start_ns and span.end_ns <= on_ns]
    if not before:
        raise ValueError("no steps before the fault")
    during = [span for span in spans if span.end_ns > on_ns and span.start_ns < off_ns]
    after = [span for span in spans if span.start_ns >= off_ns]
    wall_ns = sum(span.wall_ns for span in during) if has_pauses else off_ns - on_ns
    base_ns = median(span.wall_ns for span in before)
    first = [span for span in before if span.end_ns <= middle_ns]
    second = [span for span in before if span.end_ns > middle_ns]
    return StepTruth(
        median(span.wall_ns for span in during) / base_ns - 1 if during else float("inf"),
        lost_share(before, during, wall_ns) if during else 1.0,
        lost_share(first, second, sum(span.wall_ns for span in second)) if first and second else 0.0,
        _first_slow_ns(during, (1 + BOUND / 2) * base_ns),
        wall_ns,
        (_rate(before), _rate(during), _rate(after)),
    )


def _first_slow_ns(during: Sequence[Span], least_ns: float) -> int:
    """The begin of the first step of so long, in a second of which this is the mean; 0 without one."""
    for number, span in enumerate(during):
        if span.wall_ns >= least_ns:
            second = takewhile(lambda one, end_ns=span.start_ns + NANOSECONDS: one.start_ns < end_ns, during[number:])
            if fmean(one.wall_ns for one in second) >= least_ns:
                return span.start_ns
    return 0


def spans_of(steps: Iterable[Step], *, has_pauses: bool = False) -> list[Span]:
    """Steps of one rank as they count, in the order of their end."""
    own = [Span(step.start_ns, step.end_ns) for step in sorted(steps, key=lambda step: step.end_ns)]
    cycles = [Span(before.end_ns, after.end_ns) for before, after in pairwise(own)]
    return own if has_pauses else cycles or own


def lost_share(before: Sequence[Span], during: Sequence[Span], wall_ns: int) -> float:
    """What steps took beyond as many steps of the usual length, as a share of this time."""
    usual_ns = fmean(span.wall_ns for span in before)
    lost_ns = sum(span.wall_ns - usual_ns for span in during)
    return lost_ns / max(wall_ns, 1)


def _rate(spans: Sequence[Span]) -> float:
    """Steps per second."""
    wall_ns = spans[-1].end_ns - spans[0].start_ns if spans else 0
    return len(spans) * NANOSECONDS / wall_ns if wall_ns else 0.0
