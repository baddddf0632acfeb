"""Decides why a job is slower: shares of what was lost beyond the baseline, by cause.

In: a Span, and the baseline. Out: a Verdict, or None while it is too early for one.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from exporter.causes import HOST_CAUSES, Cause
from exporter.chains import findings
from exporter.chains.chain import Effect, Severity
from exporter.chains.findings import Findings
from exporter.chains.gpu import DeviceSide
from exporter.chains.spending import Grown
from exporter.chains.thresholds import (
    ADDED_CALLS,
    CLEAR_STEPS,
    EVIDENT_NS,
    JOB_CAUSE_NS,
    JOB_CAUSE_STEPS,
    LINK_SHARE,
    MAIN_SHARE,
    OWN_SHARE,
    PATIENCE_NS,
    RULED_OUT_NS,
    SEVERITY_SHARES,
    TWO_SHARES,
    UNDECIDED_SHARE,
)

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
    if found.slower is None:
        return _of_new_wait(found)
    if findings.is_another_phase(found):
        return None
    if not findings.is_shown(found):
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


def _of_new_wait(found: Findings) -> Verdict | None:
    """A verdict on a job whose steps are not known, as where they differ from batch to batch: what it waits for of its own accord
    is measured all the same. None for one that has waited so before, which depends on who uses it.
    """
    part = found.own_wait / found.total
    if found.has_own_waits or found.own_wait < found.least_of_job or part < MAIN_SHARE or found.wall_ns < JOB_CAUSE_NS:
        return None
    return Verdict(Cause.OWN_WAIT, Effect.GAP, min(part, 1.0), _named(_shares(found, found.total), found, found.total))


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
        is_clear = part >= MAIN_SHARE and found.steps >= CLEAR_STEPS
        return Verdict(cause, Effect.GAP, part, shares) if is_clear or found.wall_ns >= JOB_CAUSE_NS else None
    if part >= MAIN_SHARE:
        reason = reason._replace(effect=grown.effect)
    device_cause = side.cause
    if device_cause is not None and reason.effect in _EFFECTS[device_cause] and found.wall_ns >= EVIDENT_NS:
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
    if own is not None or not 0.0 < added <= (math.inf if grown.is_same_work else ADDED_CALLS):
        return own
    more_work = 0.0 if grown.is_same_work else added
    parts = {
        Cause.OWN_CODE: grown.computing - more_work * grown.usual_computing,
        Cause.OWN_WAIT: max(found.own_wait, grown.sleeping - more_work * grown.usual_sleeping),
    }
    cause = max(parts, key=lambda one: parts[one])
    part = min(parts[cause] / found.total, 1.0)
    return Verdict(cause, Effect.GAP, part, ((cause.value, part),)) if part >= MAIN_SHARE else None


def contribution_of(cause: Cause, reason: Verdict) -> float:
    """Share of a cause, which need not be the verdict's."""
    return reason.contribution if cause is reason.cause else dict(reason.shares).get(cause.value, 0.0)


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
