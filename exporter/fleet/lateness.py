"""How much longer the steps of a job take than before, and which rank's own work that is: the late rank waits least.

In: the members of a job, whose slices have ages. Out: a StepComparison: for each rank, seconds of a step by which it is later
than before. All ranks of a job take the same time for a step, and what is not a rank's own work it spends waiting for the others;
so where steps have become longer by a second, ranks that wait a second longer are victims, and one that does not is late.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Final, NamedTuple

from exporter.fleet.jobs import Member
from exporter.fleet.rank_report import RankSlice

BIN_SECONDS_MIN: Final = 15.0
BINS_MAX: Final = 40
BINS_BEFORE: Final = 2
"""So many are needed to know what a job was like before."""

CLEAR_BINS: Final = 2
"""With more bins after a change, the first of them is left out."""

CHANGE_MIN: Final = 1.08
"""Steps that are longer by less are no change."""
EXPLAINED_MIN: Final = 0.5
"""Share of the scatter of steps that a change must explain."""


class Parts(NamedTuple):
    """One step of a rank, in seconds: how long it takes, and its parts."""

    step: float
    waiting: float
    computing: float
    lost: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class RankLateness:
    """seconds: of a step by which the rank is later than before, or than the others. now, before: None if that is not known."""

    member: Member
    seconds: float
    now: Parts
    before: Parts | None

    def grown(self) -> dict[str, float]:
        """Cause -> seconds of a step that are lost to it beyond what was lost before."""
        before = self.before.lost if self.before else {}
        return {cause: lost - before.get(cause, 0.0) for cause, lost in self.now.lost.items()}

    @property
    def more_computing(self) -> float:
        return self.now.computing - (self.before.computing if self.before else 0.0)


@dataclass(frozen=True, slots=True)
class StepComparison:
    """step_seconds, before_seconds: of a step of the job, now and before. since_seconds: age of the change.

    before_seconds: 0 where no change is seen in the span; the ranks are compared with each other then.
    """

    step_seconds: float
    before_seconds: float
    since_seconds: float
    ranks: tuple[RankLateness, ...]

    @property
    def slower_seconds(self) -> float:
        """By how much a step has become longer; 0 without a change."""
        return max(self.step_seconds - self.before_seconds, 0.0) if self.before_seconds else 0.0


def comparison_of(
    members: Sequence[Member], since_seconds: float, suspected_seconds: float = 0.0
) -> StepComparison | None:
    """None: no rank has ended a step. since_seconds: length of the span.

    suspected_seconds: how long ago a node has seen the begin of a slowdown, 0 if none has: where steps vary too much for a change
    to show, they are compared with those from before that.
    """
    width = max(BIN_SECONDS_MIN, since_seconds / (BINS_MAX - 1))
    by_rank = [(one, _binned(one.report.slices, width)) for one in members]
    steps = _steps([bins for _, bins in by_rank])
    if not steps:
        return None
    oldest_first = sorted(steps, reverse=True)
    lengths = [steps[number] for number in oldest_first]
    split = change_point(lengths)
    if not split and suspected_seconds:
        split = _checked(lengths, sum(number * width > suspected_seconds for number in oldest_first))
    old, new = (oldest_first[:split], oldest_first[split:]) if split else ([], oldest_first)
    # The change is somewhere within the first of the bins.
    clear = new[1:] if old and len(new) > CLEAR_BINS else new
    compared = [
        (one, parts, _parts(bins, old) if old else None)
        for one, bins in by_rank
        if (parts := _parts(bins, clear)) is not None
    ]
    if not compared:
        return None
    usual = median(now.waiting for _, now, _ in compared)
    ranks = [
        RankLateness(one, _later(now, before) if old else max(usual - now.waiting, 0.0), now, before)
        for one, now, before in compared
    ]
    before_steps = [one.before.step for one in ranks if one.before]
    return StepComparison(
        median(one.now.step for one in ranks),
        median(before_steps) if before_steps else 0.0,
        (max(new) + 0.5) * width,
        tuple(ranks),
    )


def _binned(slices: Sequence[RankSlice], width: float) -> dict[int, list[RankSlice]]:
    """Number of a bin, 0 for the last one -> slices in it."""
    found: dict[int, list[RankSlice]] = {}
    for one in slices:
        if one.covered_seconds > 0:
            found.setdefault(min(int(one.ended_seconds_ago / width), BINS_MAX), []).append(one)
    return found


def _steps(of_ranks: Sequence[Mapping[int, list[RankSlice]]]) -> dict[int, float]:
    """Bin -> the step of the job in it: the median of the ranks that have ended one."""
    found: dict[int, list[float]] = {}
    for bins in of_ranks:
        for number, slices in bins.items():
            if steps := sum(one.steps for one in slices):
                found.setdefault(number, []).append(sum(one.step_seconds for one in slices) / steps)
    return {number: one for number, steps in found.items() if (one := median(steps)) > 0}


def _later(now: Parts, before: Parts | None) -> float:
    """What of longer steps is not waited away. Nothing for a rank of which nothing is known from before."""
    if before is None:
        return 0.0
    longer = max(now.step - before.step, 0.0)
    return min(max(longer - (now.waiting - before.waiting), 0.0), longer)


def _parts(bins: Mapping[int, list[RankSlice]], numbers: Sequence[int]) -> Parts | None:
    """From the first to the last of the bins."""
    between = range(min(numbers), max(numbers) + 1)
    found = [one for number in between for one in bins.get(number, ())]
    return _sum(found) if sum(one.steps for one in found) else None


def _sum(slices: Sequence[RankSlice]) -> Parts:
    """Steps that begin in one window end in another: what is spent is a share of the time, and so of a step."""
    step = sum(one.step_seconds for one in slices) / sum(one.steps for one in slices)
    of_step = step / sum(one.covered_seconds for one in slices)
    lost: dict[str, float] = {}
    for one in slices:
        for cause, seconds in one.lost.items():
            lost[cause] = lost.get(cause, 0.0) + seconds
    return Parts(
        step,
        sum(one.waiting_seconds for one in slices) * of_step,
        sum(one.computing_seconds for one in slices) * of_step,
        {cause: one * of_step for cause, one in lost.items()},
    )


def change_point(steps: Sequence[float]) -> int:
    """Where steps became longer, for good as far as is known: index of the first long one; 0 without such a change.

    steps: lengths, oldest first. The split is the one that leaves least scatter of their logarithms on both sides.
    """
    logs = [math.log(one) for one in steps]
    whole = _scatter(logs)
    best, found = whole, 0
    for split in range(BINS_BEFORE, len(logs)):
        left = _scatter(logs[:split]) + _scatter(logs[split:])
        if left < best:
            best, found = left, split
    if not found or best > (1 - EXPLAINED_MIN) * whole:
        return 0
    return _checked(steps, found)


def _checked(steps: Sequence[float], split: int) -> int:
    """The index, if enough is known on both sides and steps are longer after it; else 0."""
    if not BINS_BEFORE <= split < len(steps):
        return 0
    return split if fmean(steps[split:]) >= CHANGE_MIN * fmean(steps[:split]) else 0


def _scatter(values: Sequence[float]) -> float:
    mean = sum(values) / len(values)
    return sum((one - mean) ** 2 for one in values)
