"""Decides why a job is slower: shares of what was lost beyond the baseline, by cause.

In: a Span, and the baseline. Out: a Verdict, or None while it is too early for one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from exporter.causes import HOST_CAUSES, Cause
from exporter.chains.chain import Effect, Severity
from exporter.chains.gpu import DeviceSide
from exporter.chains.regime import Regime
from exporter.chains.span import Span
from exporter.chains.spending import Grown
from exporter.chains.thresholds import (
    ADDED_CALLS,
    BALANCE_MARGIN,
    CALLS_SPREADS,
    DISPLACED_SHARE,
    EVIDENT_NS,
    EVIDENT_STEPS,
    JOB_CAUSE_NS,
    JOB_CAUSE_SHARE,
    JOB_CAUSE_STEPS,
    LINK_SHARE,
    MAIN_SHARE,
    OWN_SHARE,
    PATIENCE_NS,
    PHASE_CHANGE,
    RULED_OUT_NS,
    SEVERITY_SHARES,
    TWO_SHARES,
    UNDECIDED_SHARE,
    WANDER_ALLOWED,
)
from exporter.chains.window import Level, lost_shares

OF_CPUS = {Cause.CPU_CONTENTION, Cause.CPU_OVERSUBSCRIBED, Cause.CPU_QUOTA, Cause.IRQ}

OF_OTHERS = frozenset((Cause.DATALOADER, Cause.NETWORK, Cause.LOCK))
"""Waits until another thread, process or machine does something."""

OF_THE_JOB = frozenset(
    (
        Cause.OWN_CODE,
        Cause.OWN_WAIT,
        Cause.GPU,
        Cause.ALLOCATION_CHURN,
        Cause.PAGEABLE_COPY,
        Cause.PCIE,
        Cause.GRAPH_RECAPTURE,
        Cause.GPU_THROTTLED,
        Cause.GPU_CONTENTION,
    )
)
"""Causes of slow steps where no resource of the host is the reason: the job's own work, or its GPU."""

_DISPLACED_BY = {
    Cause.CPU_OVERSUBSCRIBED: (Cause.CPU_CONTENTION,),
    Cause.LOCK: (Cause.MEMORY_RECLAIM, Cause.MAJOR_FAULT, Cause.BLOCK_IO, Cause.CPU_CONTENTION, Cause.CPU_QUOTA),
}
"""Waits of the job's threads for each other, and what makes these waits longer. See DISPLACED_SHARE."""

UNDETERMINED = Cause.GPU
"""Cause of slow steps while only the host is ruled out."""

# A rank that waits for another one of its node is covered by that one's own chain. The state of a GPU is observed beside the lost
# time, not charged to it.
_ONLY_SO_BAD = {
    Cause.OWN_CODE: Severity.MEDIUM,
    Cause.OWN_WAIT: Severity.MEDIUM,
    Cause.GPU: Severity.MEDIUM,
    Cause.PEER_RANK: Severity.MEDIUM,
    Cause.GPU_THROTTLED: Severity.HIGH,
    Cause.GPU_CONTENTION: Severity.HIGH,
    Cause.STALLED: Severity.HIGH,  # until it has lasted for STALLED_CRITICAL_NS
}
_ALWAYS = dict.fromkeys((Cause.NCCL_HANG, Cause.CUDA_OOM, Cause.CRASH, Cause.OOM_KILLED), Severity.CRITICAL) | {
    Cause.MEMORY_LEAK: Severity.MEDIUM,
    Cause.GRAPH_ABANDONED: Severity.MEDIUM,
    Cause.COLD_START: Severity.LOW,
    Cause.CHANGED: Severity.LOW,
}
_EFFECTS = dict.fromkeys(HOST_CAUSES, (Effect.GAP, Effect.SYNC)) | {
    Cause.PEER_RANK: (Effect.COLLECTIVE,),
    Cause.SLOW_RANK: (Effect.COLLECTIVE,),
    Cause.NCCL_HANG: (Effect.COLLECTIVE,),
    Cause.CUDA_OOM: (Effect.ALLOC,),
    Cause.ALLOCATION_CHURN: (Effect.ALLOC,),
    Cause.MEMORY_LEAK: (Effect.ALLOC,),
    Cause.PAGEABLE_COPY: (Effect.MEMCPY,),
    Cause.PCIE: (Effect.MEMCPY, Effect.SYNC),
    Cause.GRAPH_RECAPTURE: (Effect.GRAPH,),
    Cause.GRAPH_ABANDONED: (Effect.GRAPH,),
    Cause.GPU_THROTTLED: (Effect.SYNC, Effect.MEMCPY, Effect.LAUNCH, Effect.COLLECTIVE),
    Cause.GPU_CONTENTION: (Effect.SYNC, Effect.MEMCPY, Effect.LAUNCH, Effect.COLLECTIVE),
    Cause.COLD_START: (Effect.LAUNCH, Effect.ALLOC, Effect.GRAPH),
    Cause.CRASH: (Effect.EXIT,),
    Cause.OOM_KILLED: (Effect.EXIT,),
    Cause.OWN_CODE: (Effect.GAP,),
    Cause.OWN_WAIT: (Effect.GAP,),
    Cause.GPU: (Effect.SYNC, Effect.MEMCPY, Effect.LAUNCH, Effect.ALLOC, Effect.GRAPH, Effect.COLLECTIVE),
    Cause.STALLED: (Effect.STEP,),
    Cause.CHANGED: (Effect.STEP,),
}


class Findings(NamedTuple):
    """Lost in a span beyond what was lost before, as shares of its wall time.

    slower: 0.5 where the job takes twice as long; None without a rhythm of steps. pace: steps made, of those that the baseline
    would make; 1 without a rhythm. lost: by cause of the host. own_wait: sleeps of the job's own. other: lost to what is no cause
    at all. undecided: CPU waits without a culprit yet. exposed: the part of all that in synchronising calls. What is lost is
    never more than the job is slower by.
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


class Verdict(NamedTuple):
    """contribution: share of the total with this cause; shares: of every cause, largest first. peer: a rank.

    culprits, detail: for a cause of the GPU; see Chain.
    """

    cause: Cause
    effect: Effect
    contribution: float
    shares: tuple[tuple[str, float], ...]
    peer: str = ""
    culprits: tuple[tuple[str, float], ...] = ()
    detail: str = ""


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
        span.lag_ns() / span.wall_ns,
        calls_spread=before.calls_spread,
        is_resized=span.now.progress.resized != span.then.progress.resized,
        least_of_job=max(JOB_CAUSE_SHARE, WANDER_ALLOWED * usual.wander),
    ).balanced()


def judge(found: Findings) -> Verdict | None:
    """None: too early, or no fault."""
    total = found.total
    if total <= 0:
        return None
    shares = _shares(found, total)
    (first, share), second = shares[0] if shares else (None, 0.0), shares[1][1] if len(shares) > 1 else 0.0
    if first and (share >= MAIN_SHARE or share + second >= TWO_SHARES):
        named = _named(shares, found, total)
        return Verdict(first, _effect(first, found), share * found.balance, named, _peer(first, found))
    if found.undecided / total >= UNDECIDED_SHARE and found.wall_ns < PATIENCE_NS:
        return None
    if found.slower is None or is_another_phase(found):
        return None
    if found.wall_ns < EVIDENT_NS or found.steps < EVIDENT_STEPS:
        return None
    if first in HOST_CAUSES and sum(part for cause, part in shares if cause in HOST_CAUSES) >= MAIN_SHARE:
        is_long = found.wall_ns >= JOB_CAUSE_NS and found.steps >= JOB_CAUSE_STEPS
        named = _named(shares, found, total)
        return Verdict(first, _effect(first, found), share * found.balance, named) if is_long else None
    if found.slower < found.least_of_job:
        return None
    if found.undecided / total >= UNDECIDED_SHARE and found.wall_ns < RULED_OUT_NS:
        return None
    unexplained = max(1.0 - sum(part for _, part in shares), 0.0)
    return Verdict(UNDETERMINED, Effect.SYNC, unexplained, _named(shares, found, total))


def of_the_job(reason: Verdict, found: Findings, grown: Grown, side: DeviceSide) -> Verdict | None:
    """A verdict that rules out the host, with its reason: the job's own calls, code or waits, or the GPU. None: too early."""
    own = of_own_doing(found, grown)
    if own is not None:
        return own._replace(shares=(*own.shares, *reason.shares))
    parts = {
        Cause.GPU: max(grown.calls.get(grown.effect, 0.0), 0.0),
        Cause.OWN_CODE: max(grown.computing, 0.0),
        Cause.OWN_WAIT: max(found.own_wait, grown.sleeping),
    }
    cause = max(parts, key=lambda one: parts[one])
    part = min(parts[cause] / found.total, 1.0)
    if 0 < part < MAIN_SHARE and found.wall_ns < RULED_OUT_NS:
        return None  # none of them explains half of it yet
    of_host = max(((share, Cause(name)) for name, share in reason.shares if Cause(name) in HOST_CAUSES), default=None)
    if of_host is not None and of_host[0] >= max(part, OWN_SHARE):
        return reason._replace(cause=of_host[1], effect=_effect(of_host[1], found), contribution=of_host[0])
    if part >= OWN_SHARE and cause is not Cause.GPU:
        shares = ((cause.value, part), *(one for one in reason.shares if one[0] != cause.value))
        return Verdict(cause, Effect.GAP, part, shares) if found.wall_ns >= JOB_CAUSE_NS else None
    if part >= MAIN_SHARE:
        reason = reason._replace(effect=grown.effect)
    device_cause = side.cause
    if device_cause is not None and reason.effect in _EFFECTS[device_cause]:
        shares = ((device_cause.value, reason.contribution), *reason.shares)
        return reason._replace(cause=device_cause, shares=shares, culprits=side.culprits, detail=side.detail)
    return reason if found.wall_ns >= JOB_CAUSE_NS and found.steps >= JOB_CAUSE_STEPS else None


def of_peer(reason: Verdict, rank: str) -> Verdict:
    """Nothing of this rank explains the slowdown, but another rank of its communicator is known to be slow, too."""
    shares = ((Cause.PEER_RANK.value, reason.contribution), *reason.shares)
    return Verdict(Cause.PEER_RANK, Effect.COLLECTIVE, reason.contribution, shares, rank)


def of_own_doing(found: Findings, grown: Grown) -> Verdict | None:
    """A verdict on the job's own work besides kernels: captures, allocations, copies. None unless that is most of it."""
    parts = (
        (Cause.GRAPH_RECAPTURE, Effect.GRAPH, grown.capture),
        (Cause.ALLOCATION_CHURN, Effect.ALLOC, grown.calls.get(Effect.ALLOC, 0.0)),
        (Cause.PAGEABLE_COPY, Effect.MEMCPY, grown.pageable),
    )
    cause, effect, share = max(parts, key=lambda one: one[2])
    part = min(share / found.total, 1.0)
    if part < MAIN_SHARE:
        cause, effect, part = Cause.PCIE, grown.effect, min(grown.link / found.total, 1.0)
        if grown.link < LINK_SHARE or effect not in _EFFECTS[cause]:
            return None
    return Verdict(cause, effect, part, ((cause.value, part),))


def of_added_work(found: Findings, grown: Grown) -> Verdict | None:
    """A verdict on steps that make other calls than before: the same steps with something added, which takes most of the excess.

    None for another phase.
    """
    if found.is_resized:
        return None
    own = of_own_doing(found, grown)
    added = found.calls - 1.0
    if own is not None or not 0.0 < added <= ADDED_CALLS:
        return own
    parts = {
        Cause.OWN_CODE: grown.computing - added * grown.usual_computing,
        Cause.OWN_WAIT: max(found.own_wait, grown.sleeping - added * grown.usual_sleeping),
    }
    cause = max(parts, key=lambda one: parts[one])
    part = min(parts[cause] / found.total, 1.0)
    return Verdict(cause, Effect.GAP, part, ((cause.value, part),)) if part >= MAIN_SHARE else None


def is_evident(found: Findings) -> bool:
    """Whether a job has been slower for so long, and by so much, that its own work is the cause."""
    is_long = found.wall_ns >= EVIDENT_NS and found.steps >= EVIDENT_STEPS
    return is_long and found.slower is not None and found.slower >= found.least_of_job


def has_no_cpu(span: Span) -> bool:
    """Whether the job was kept from running for most of the span: it cannot do what other ranks wait for."""
    then, now = span.then.progress, span.now.progress
    of_cpus_ns = sum(ns for (cause, _), ns in span.lost_ns().items() if cause in OF_CPUS)
    return of_cpus_ns + now.undecided_ns - then.undecided_ns >= MAIN_SHARE * span.wall_ns


def contribution_of(cause: Cause, reason: Verdict) -> float:
    """Share of a cause, which need not be the verdict's."""
    return reason.contribution if cause is reason.cause else dict(reason.shares).get(cause.value, 0.0)


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


def severity_of(cause: Cause, lost_share: float) -> Severity:
    """lost_share: of the time, lost to the cause. At least LOW, since an open chain has a severity."""
    if cause in _ALWAYS:
        return _ALWAYS[cause]
    found = Severity(max(sum(lost_share >= least for least in SEVERITY_SHARES), Severity.LOW))
    return min(found, _ONLY_SO_BAD.get(cause, Severity.CRITICAL))


def possible() -> tuple[tuple[Cause, Effect, Severity], ...]:
    """What a chain can be when it opens: (cause, main effect, severity)."""
    return tuple(
        (cause, effects[0], severity)
        for cause, effects in _EFFECTS.items()
        for severity in (Severity.LOW, Severity.MEDIUM, Severity.HIGH, Severity.CRITICAL)
        if _ALWAYS.get(cause, severity) is severity and severity <= _ONLY_SO_BAD.get(cause, severity)
    )


def _shares(found: Findings, total: float) -> list[tuple[Cause, float]]:
    """Shares of the total, each at most 1, largest first. The last rank to arrive does not wait for others as well."""
    parts = {cause: min(part / total, 1.0) for cause, part in found.lost.items()}
    explained = sum(parts.values())
    if explained < MAIN_SHARE:
        parts[Cause.PEER_RANK] = min(max(found.peers.values(), default=0.0) / total, 1.0)
        parts[Cause.SLOW_RANK] = min(found.lateness / total, 1.0)
    return sorted(((cause, part) for cause, part in parts.items() if part > 0), key=lambda item: -item[1])


def _named(shares: list[tuple[Cause, float]], found: Findings, total: float) -> tuple[tuple[str, float], ...]:
    named = [(cause.value, part) for cause, part in shares]
    named += [
        (name, min(part / total, 1.0))
        for name, part in ((Cause.OWN_WAIT.value, found.own_wait), (Cause.OTHER.value, found.other))
        if part > 0
    ]
    return tuple(sorted(((name, part * found.balance) for name, part in named), key=lambda item: -item[1]))


def _effect(cause: Cause, found: Findings) -> Effect:
    first, *other = _EFFECTS[cause]
    return other[0] if other and found.exposed > found.lost_of_all / 2 else first


def _peer(cause: Cause, found: Findings) -> str:
    return max(found.peers, key=lambda rank: found.peers[rank]) if cause is Cause.PEER_RANK else ""
