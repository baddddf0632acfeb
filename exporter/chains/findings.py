"""What a job lost beyond its baseline in a span, as shares of the time, and what that says of its steps.

In: a Span, and the baseline. Out: Findings, from which verdict decides.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from exporter.causes import HOST_CAUSES, Cause
from exporter.chains.regime import Regime
from exporter.chains.span import Span
from exporter.chains.thresholds import (
    ADDED_CALLS,
    ALLOWANCE,
    BALANCE_MARGIN,
    CALLS_SPREADS,
    CLEAR_NS,
    CLEAR_STEPS,
    DISPLACED_SHARE,
    EVIDENT_NS,
    EVIDENT_STEPS,
    JOB_CAUSE_SHARE,
    JOB_CAUSE_STEPS,
    MAIN_SHARE,
    PHASE_CHANGE,
    WANDER_ALLOWED,
)
from exporter.chains.window import Level, lost_shares

OF_CPUS = {Cause.CPU_CONTENTION, Cause.CPU_OVERSUBSCRIBED, Cause.CPU_QUOTA, Cause.IRQ}


_DISPLACED_BY = {
    Cause.CPU_OVERSUBSCRIBED: (Cause.CPU_CONTENTION,),
    Cause.LOCK: (Cause.MEMORY_RECLAIM, Cause.MAJOR_FAULT, Cause.BLOCK_IO, Cause.CPU_CONTENTION, Cause.CPU_QUOTA),
}
"""Waits of the job's threads for each other, and what makes these waits longer. See DISPLACED_SHARE."""


class Findings(NamedTuple):
    """Lost in a span beyond what was lost before, as shares of its wall time.

    slower: 0.5 where the job takes twice as long; None without a rhythm of steps. pace: steps made, of those that the baseline
    would make; 1 without a rhythm. lost: by cause of the host. own_wait: sleeps of the job's own; has_own_waits: whether it had
    any before. other: lost to what is no cause at all. undecided: CPU waits without a culprit yet. exposed: the part of all that
    in synchronising calls. What is lost is never more than the job is slower by.
    calls: per step, relative to the baseline; calls_spread: its standard deviation from second to second; is_resized: the same
    calls, of other sizes. peers: by rank, how long this one waited for it. lateness: how long the others waited for this one.
    balance: 1; less where so much was charged that the accounting is in doubt. least_of_job: how much slower the job has to be
    for a cause of its own.
    """

    wall_ns: int
    steps: int
    slower: float | None
    pace: float
    lost: Mapping[Cause, float]
    own_wait: float
    other: float
    undecided: float
    exposed: float
    calls: float
    peers: Mapping[str, float]
    lateness: float
    balance: float = 1.0
    calls_spread: float = 0.0
    least_of_job: float = JOB_CAUSE_SHARE
    is_resized: bool = False
    has_own_waits: bool = False

    @property
    def lost_of_all(self) -> float:
        """Lost for any reason."""
        return sum(self.lost.values()) + self.own_wait + self.other + max(self.undecided, 0.0)

    @property
    def total(self) -> float:
        """Lost time or slowness, whichever is larger: what a verdict explains."""
        return self.lost_of_all if self.slower is None else self.slower

    def balanced(self) -> Findings:
        """In steady state no more can be lost than the job is slower by: what was charged beyond that is taken off."""
        charged = self.lost_of_all
        if self.slower is None or not 0.0 < self.slower < charged:
            return self
        part = self.slower / charged
        return self._replace(
            lost={cause: share * part for cause, share in self.lost.items()},
            own_wait=self.own_wait * part,
            other=self.other * part,
            undecided=self.undecided * part,
            exposed=self.exposed * part,
            balance=min(BALANCE_MARGIN * part, 1.0) if self.steps >= JOB_CAUSE_STEPS else 1.0,
        )


def find(
    span: Span, usual: Regime, peers: Mapping[str, int], before: Level | None = None, *, is_chronic: bool = False
) -> Findings:
    """Findings of a span. peers: by rank, nanoseconds that this process waited for it. before: the time that the span is compared
    with; None for the regime.

    is_chronic: there is no baseline; the job was never better.
    """
    before = before or usual.level
    shares = lost_shares(span)
    is_paced = not is_chronic and usual.step_ns and span.excess_ns(usual.step_ns) is not None
    slower = span.late_beyond(before.late) if is_paced else None
    # The baseline is lost step by step: a job that makes fewer steps loses less of it.
    as_before = 0.0 if is_chronic else 1.0 - max(slower or 0.0, 0.0)
    beyond = {cause: max(share - before.lost.get(cause, 0.0) * as_before, 0.0) for cause, share in shares.items()}
    lost = {cause: beyond[cause] for cause in HOST_CAUSES if beyond.get(cause)}
    for displaced, by in _DISPLACED_BY.items():
        if sum(lost.get(cause, 0.0) for cause in by) >= DISPLACED_SHARE * lost.get(displaced, 0.0) > 0:
            lost[max(by, key=lambda cause: lost.get(cause, 0.0))] += lost.pop(displaced)
    paused = (span.now.progress.stopped_ns - span.then.progress.stopped_ns) / span.wall_ns
    if paused > lost.get(Cause.PAUSED, 0.0):
        lost[Cause.PAUSED] = min(paused, 1.0)
    calls_per_step = span.calls_per_step
    return Findings(
        span.wall_ns,
        span.steps,
        slower,
        1.0 - span.late_share if is_paced else 1.0,
        lost,
        beyond.pop(Cause.OWN_WAIT, 0.0),
        sum(part for cause, part in beyond.items() if cause not in HOST_CAUSES and cause is not Cause.OWN_WAIT),
        (span.now.progress.undecided_ns - span.then.progress.undecided_ns) / span.wall_ns,
        span.exposed_ns / span.wall_ns,
        calls_per_step / before.calls_per_step if calls_per_step and before.calls_per_step else 1.0,
        {rank: ns / span.wall_ns for rank, ns in peers.items()},
        max(span.lag_ns() / span.wall_ns - before.lag * as_before, 0.0),
        calls_spread=before.calls_spread,
        is_resized=span.now.progress.resized != span.then.progress.resized,
        least_of_job=max(JOB_CAUSE_SHARE, WANDER_ALLOWED * usual.wander),
        has_own_waits=before.lost.get(Cause.OWN_WAIT, 0.0) > ALLOWANCE,
    ).balanced()


def part_of(cause: Cause, found: Findings) -> float:
    """Share of wall time with this cause. CPU waits without a culprit yet may belong to any of the causes of CPUs."""
    if cause is Cause.PEER_RANK:
        return max(found.peers.values(), default=0.0)
    if cause is Cause.SLOW_RANK:
        return found.lateness
    if cause in HOST_CAUSES:
        return found.lost.get(cause, 0.0) + (max(found.undecided, 0.0) if cause in OF_CPUS else 0.0)
    if cause is Cause.OWN_WAIT:
        return found.own_wait
    return max(found.total - sum(found.lost.values()) - found.own_wait, 0.0)


def is_evident(found: Findings) -> bool:
    """Whether a job has been slower for so long, and by so much, that its own work is the cause."""
    return is_shown(found) and found.slower is not None and found.slower >= found.least_of_job


def is_another_phase(found: Findings) -> bool:
    """Whether a step makes more or fewer calls than the baseline, or copies and collectives of other sizes.

    Spans begin and end within a step: one step of tolerance.
    """
    if found.is_resized and found.steps > 0:
        return True
    allowed = max(PHASE_CHANGE, CALLS_SPREADS * found.calls_spread)
    return found.steps > 0 and abs(found.calls - 1.0) > allowed + 1 / found.steps


def is_other_work(found: Findings) -> bool:
    """Whether the steps differ for no reason but that the job is in another phase."""
    return is_another_phase(found) and sum(found.lost.values()) + found.own_wait < MAIN_SHARE * found.total


def is_certain_phase(found: Findings) -> bool:
    """Whether another phase has shown for long enough: the calls of a server's steps depend on its requests, and where there are
    more than before, the same steps may have something added.
    """
    may_be_same = found.calls_spread > PHASE_CHANGE or (not found.is_resized and 1.0 < found.calls <= 1.0 + ADDED_CALLS)
    return not may_be_same or found.wall_ns >= EVIDENT_NS


def has_no_cpu(span: Span) -> bool:
    """Whether the job was kept from running for most of the span: it cannot do what other ranks wait for."""
    then, now = span.then.progress, span.now.progress
    of_cpus_ns = sum(ns for (cause, _), ns in span.lost_ns().items() if cause in OF_CPUS)
    return of_cpus_ns + now.undecided_ns - then.undecided_ns >= MAIN_SHARE * span.wall_ns


def is_shown(found: Findings) -> bool:
    """Whether so much of it was seen."""
    is_long = found.wall_ns >= EVIDENT_NS and found.steps >= EVIDENT_STEPS
    return is_long or (found.wall_ns >= CLEAR_NS and found.steps >= CLEAR_STEPS)
