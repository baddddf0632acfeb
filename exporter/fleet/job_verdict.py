"""The verdict about a job from the reports of its nodes: which rank is late, through what, and what it costs. Pure.

In: reports by node, names of nodes that gave none. Out: a JobVerdict for each job. Ages are compared with ages, counts with
counts, and never a clock with another one. Ambiguity is part of a verdict, with the candidates.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Final

from exporter.causes import HOST_CAUSES, Cause
from exporter.fleet.job_standstill import JobStandstill, standstill_of
from exporter.fleet.jobs import Claim, Job, Member, jobs_of
from exporter.fleet.late_rank import (
    CAUSE_SHARE,
    OF_HABITS,
    OPEN,
    UNNAMED,
    LateRank,
    explained,
    late_rank,
    open_chain,
    standing_rank,
)
from exporter.fleet.lateness import RankLateness, StepComparison, comparison_of
from exporter.fleet.rank_report import NodeReport

MAIN_SHARE: Final = 0.5
"""Share of the slowdown that a rank is late by, if it is the reason."""
SECOND_SHARE: Final = 0.15
"""Share of the lateness of the latest rank by which a further one is late, if its cause is known: fixing one of them alone would
leave so much.
"""
SECOND_SHARE_ALONE: Final = 0.5
"""The same where nothing says why."""
NONE_SHARE: Final = 0.4
"""If no rank is late by so much, none is the reason."""
ALL_SHARE: Final = 0.4
"""If most ranks are late by so much, all are slow together."""
ALIKE_SHARE: Final = 0.5
SOME_SHARE: Final = 0.1
"""If most ranks are late by ALIKE_SHARE of what the latest is, and by SOME_SHARE of the slowdown, all are slow, in turn: each
step takes as long as the rank that is late in it.
"""
BROAD_SHARE: Final = 0.2
MEAN_SHARE: Final = 0.05
"""All are slow by one cause if most ranks lose BROAD_SHARE of what the worst loses to it, and MEAN_SHARE of the slowdown each: of
a pipeline's ranks each adds its part.
"""
CANDIDATE_SHARE: Final = 0.1
"""Share of its time that a chain of the host costs a rank which may be the late one."""
STANDING_OUT: Final = 0.1
"""Share of a step by which a rank waits less than the others, where nothing is known from before."""

_OF_DEVICES: Final = frozenset((Cause.GPU_THROTTLED, Cause.GPU_CONTENTION, Cause.PCIE))


class JobKind(enum.StrEnum):
    """What is wrong with a job."""

    FINE = "fine"
    SLOW_RANK = "slow_rank"
    SLOW_RANKS = "slow_ranks"
    ALL_SLOW = "all_slow"  # by one cause: no rank is the reason
    SLOW_LINK = "slow_link"  # collectives take longer, and no rank is late
    HANG = "hang"
    AMBIGUOUS = "ambiguous"


@dataclass(frozen=True, slots=True)
class JobVerdict:
    """communicator: of the job, its largest one. ranks: in all; seen: that nodes have reported.

    since_seconds: how long ago it began; 0 where that is not known. cause: of all ranks together, "" where they have their own.
    late: ranks to look at first. candidates: those of which one is late, where that is ambiguous. unseen: numbers of ranks
    that no node reported, the first of them. ambiguity: what is not known. waiting_ranks, lost_gpu_seconds: others, and what
    it has cost them.
    """

    kind: JobKind
    communicator: int
    ranks: int
    seen: int
    nodes: tuple[str, ...]
    step_seconds: float = 0.0
    before_seconds: float = 0.0
    since_seconds: float = 0.0
    cause: str = ""
    culprit: str = ""
    late: tuple[LateRank, ...] = ()
    candidates: tuple[LateRank, ...] = ()
    unseen: tuple[int, ...] = ()
    ambiguity: str = ""
    waiting_ranks: int = 0
    lost_gpu_seconds: float = 0.0
    collectives: int = 0
    conflicts: tuple[Claim, ...] = ()


def verdicts(reports: Mapping[str, NodeReport], since_seconds: float) -> list[JobVerdict]:
    """One for each job, those that stand still first. since_seconds: length of the span."""
    jobs = jobs_of({node: one.ranks for node, one in reports.items() if one.is_recording})
    found = [_verdict(job, since_seconds) for job in jobs]
    return sorted(
        found, key=lambda one: (one.kind is not JobKind.HANG, one.kind is JobKind.FINE, -one.lost_gpu_seconds)
    )


def _verdict(job: Job, since_seconds: float) -> JobVerdict:
    living = [one for one in job.members if not one.is_gone]
    comparison = comparison_of(living, since_seconds, _suspected_seconds(living))
    nodes = tuple(dict.fromkeys(one.node for one in job.members))
    known = JobVerdict(
        JobKind.FINE,
        job.communicator,
        job.ranks,
        len(job.members),
        nodes,
        unseen=job.unseen_ranks(),
        conflicts=job.conflicts,
    )
    if comparison is not None:
        known = replace(known, step_seconds=comparison.step_seconds, before_seconds=comparison.before_seconds)
    standstill = standstill_of(job, comparison.step_seconds if comparison else 0.0)
    if standstill is not None:
        return _of_standstill(known, standstill)
    if comparison is None:
        return known
    return _of_change(known, comparison) if comparison.slower_seconds else _without_change(known, comparison)


def _suspected_seconds(members: Sequence[Member]) -> float:
    """Age of the first open chain that costs anything."""
    ages = (
        chain.began_seconds_ago
        for one in members
        for chain in one.report.chains
        if chain.state == OPEN and chain.cause not in OF_HABITS and chain.lost_ratio >= CANDIDATE_SHARE
    )
    return max(ages, default=0.0)


# ---- a job that stands still


def _of_standstill(known: JobVerdict, found: JobStandstill) -> JobVerdict:
    known = replace(known, kind=JobKind.HANG, since_seconds=found.since_seconds, collectives=found.collectives)
    late = tuple(map(standing_rank, found.late))
    if late and not known.conflicts:
        return _costing(replace(known, late=late, culprit=late[0].culprit), len(late))
    if found.candidates:
        reason = "ranks wait for each other in different communicators: they enter collectives in different orders"
        return replace(
            known, kind=JobKind.AMBIGUOUS, candidates=tuple(map(standing_rank, found.candidates)), ambiguity=reason
        )
    if known.conflicts:
        return replace(
            known, kind=JobKind.AMBIGUOUS, candidates=(*late, *_claimants(known)), ambiguity=_contested(known)
        )
    if not found.is_complete:
        return replace(known, kind=JobKind.AMBIGUOUS, ambiguity="the late rank may be one that no node has reported")
    reason = "every rank has entered, and the collective does not end: a link, a NIC or a GPU"
    return _costing(replace(known, ambiguity=reason), 0)


# ---- steps that have become longer


def _of_change(known: JobVerdict, comparison: StepComparison) -> JobVerdict:
    slower = comparison.slower_seconds
    known = replace(known, since_seconds=_onset(comparison))
    shares = {id(one): one.seconds / slower for one in comparison.ranks}
    latest_first = sorted(comparison.ranks, key=lambda one: -one.seconds)
    first = shares[id(latest_first[0])]
    if len(shares) > 1 and (_is_alike(list(shares.values())) or _has_cause_of_all(comparison)):
        return _all_slow(known, latest_first)
    if first < NONE_SHARE:
        return _without_late_rank(known, comparison)
    named = tuple(_named(latest_first))
    if first < MAIN_SHARE:
        reason = f"the latest rank explains only {first:.0%} of the slowdown"
        return replace(known, kind=JobKind.AMBIGUOUS, candidates=named, ambiguity=reason)
    if known.conflicts:
        return replace(
            known, kind=JobKind.AMBIGUOUS, candidates=(*named, *_claimants(known)), ambiguity=_contested(known)
        )
    kind = JobKind.SLOW_RANK if len(named) == 1 else JobKind.SLOW_RANKS
    return _costing(replace(known, kind=kind, late=named, culprit=named[0].culprit), len(named))


def _is_alike(shares: Sequence[float]) -> bool:
    """Whether most ranks are late. shares: of the slowdown, by rank."""
    least = min(ALL_SHARE, max(ALIKE_SHARE * max(shares), SOME_SHARE))
    return 2 * sum(share >= least for share in shares) > len(shares)


def _has_cause_of_all(comparison: StepComparison) -> bool:
    """Whether most ranks lose more time to one cause than before, though each in other steps."""
    grown = [one.grown() for one in comparison.ranks]
    causes = {cause for of_rank in grown for cause in of_rank} - UNNAMED
    for cause in causes:
        lost = [max(of_rank.get(cause, 0.0), 0.0) for of_rank in grown]
        is_much = sum(lost) >= MEAN_SHARE * comparison.slower_seconds * len(lost)
        if is_much and 2 * sum(one >= BROAD_SHARE * max(lost) for one in lost) > len(lost):
            return True
    return False


def _named(latest_first: Sequence[RankLateness]) -> Iterator[LateRank]:
    """The latest rank, and those that are late beside it."""
    for one in latest_first:
        late = explained(one)
        least = SECOND_SHARE if late.cause else SECOND_SHARE_ALONE
        if one.seconds >= least * latest_first[0].seconds:
            yield late


def _all_slow(known: JobVerdict, ranks: Sequence[RankLateness]) -> JobVerdict:
    grown: Counter[str] = Counter()
    for one in ranks:
        grown.update({cause: lost for cause, lost in one.grown().items() if lost > 0 and cause not in UNNAMED})
    total = sum(one.seconds for one in ranks)
    cause, lost = max(grown.items(), key=lambda item: item[1], default=("", 0.0))
    if lost < CAUSE_SHARE * total:
        computing = sum(max(one.more_computing, 0.0) for one in ranks)
        cause = Cause.OWN_CODE.value if computing >= CAUSE_SHARE * total else ""
    culprits = Counter(
        chain.culprit
        for one in ranks
        for chain in one.member.report.chains
        if chain.cause.value == cause and chain.state == OPEN and chain.culprit
    )
    culprit = max(culprits, key=lambda name: culprits[name]) if culprits else ""
    return _costing(replace(known, kind=JobKind.ALL_SLOW, cause=cause, culprit=culprit), 0)


def _without_late_rank(known: JobVerdict, comparison: StepComparison) -> JobVerdict:
    """All wait longer. A GPU that is slow makes its own rank wait as well; else it is what carries collectives."""
    with_device = [(one, chain) for one in comparison.ranks if (chain := open_chain(one.member, _OF_DEVICES))]
    if with_device and 2 * len(with_device) > len(comparison.ranks) > 1:
        causes = Counter(chain.cause.value for _, chain in with_device)
        return _costing(replace(known, kind=JobKind.ALL_SLOW, cause=max(causes, key=lambda name: causes[name])), 0)
    if with_device:
        late = tuple(
            late_rank(one.member, chain.cause.value, chain, comparison.slower_seconds) for one, chain in with_device
        )
        kind = JobKind.SLOW_RANK if len(late) == 1 else JobKind.SLOW_RANKS
        return _costing(replace(known, kind=kind, late=late, culprit=late[0].culprit), len(late))
    if known.conflicts:
        return replace(known, kind=JobKind.AMBIGUOUS, candidates=_claimants(known), ambiguity=_contested(known))
    candidates = tuple(explained(one) for one in comparison.ranks if _may_be_late(one))
    if candidates:
        reason = "all ranks wait longer, and some lose time to their hosts"
        return replace(known, kind=JobKind.AMBIGUOUS, candidates=candidates, ambiguity=reason)
    if known.unseen:
        reason = "all ranks that were seen wait longer: the late one may be one that no node has reported"
        return replace(known, kind=JobKind.AMBIGUOUS, ambiguity=reason)
    if not any(chain.state == OPEN for one in comparison.ranks for chain in one.member.report.chains):
        return known  # each node takes the steps for what is normal from now on, as after a larger batch
    reason = "a GPU that is slow for no reason that its driver reports looks the same"
    return _costing(replace(known, kind=JobKind.SLOW_LINK, cause=Cause.NETWORK.value, ambiguity=reason), 0)


def _may_be_late(one: RankLateness) -> bool:
    chain = open_chain(one.member, frozenset(HOST_CAUSES))
    return chain is not None and chain.lost_ratio >= CANDIDATE_SHARE and one.seconds > 0


def _onset(comparison: StepComparison) -> float:
    """The chains of the nodes know it better than a bin, where they agree with it."""
    ages = [
        chain.began_seconds_ago
        for one in comparison.ranks
        for chain in one.member.report.chains
        if chain.state == OPEN and 0.5 <= chain.began_seconds_ago / comparison.since_seconds <= 2
    ]
    return median(ages) if ages else comparison.since_seconds


# ---- steps as they always were


def _without_change(known: JobVerdict, comparison: StepComparison) -> JobVerdict:
    """A fault that was there for the whole span: a rank with an open chain of the host that waits less than the others."""
    with_chain = [one for one in comparison.ranks if open_chain(one.member, frozenset(HOST_CAUSES))]
    least = STANDING_OUT * comparison.step_seconds
    late = [one for one in with_chain if one.seconds >= least]
    oldest = max((chain.began_seconds_ago for one in late for chain in one.member.report.chains), default=0.0)
    known = replace(known, since_seconds=oldest)
    if late:
        named = tuple(explained(one) for one in sorted(late, key=lambda one: -one.seconds))
        kind = JobKind.SLOW_RANK if len(named) == 1 else JobKind.SLOW_RANKS
        if known.conflicts:
            return replace(
                known, kind=JobKind.AMBIGUOUS, candidates=(*named, *_claimants(known)), ambiguity=_contested(known)
            )
        slower = max(one.seconds for one in late)
        known = replace(known, before_seconds=max(comparison.step_seconds - slower, 0.0))
        return _costing(replace(known, kind=kind, late=named, culprit=named[0].culprit), len(named))
    if 2 * len(with_chain) > len(comparison.ranks):
        causes = Counter(
            chain.cause.value for one in with_chain if (chain := open_chain(one.member, frozenset(HOST_CAUSES)))
        )
        return replace(known, kind=JobKind.ALL_SLOW, cause=max(causes, key=lambda name: causes[name]))
    return known


# ---- other facts


def _claimants(known: JobVerdict) -> tuple[LateRank, ...]:
    members = dict.fromkeys(member for claim in known.conflicts for member in claim.members)
    return tuple(late_rank(one, "", None, 0.0) for one in members)


def _contested(known: JobVerdict) -> str:
    claim = known.conflicts[0]
    nodes = ", ".join(dict.fromkeys(one.node for one in claim.members))
    return f"rank {claim.rank} of communicator {claim.communicator:016x} is claimed by several processes ({nodes})"


def _costing(verdict: JobVerdict, late: int) -> JobVerdict:
    """What the others have lost since then. late: ranks that are not among them."""
    waiting = max(verdict.ranks - late, 0)
    if verdict.kind is JobKind.HANG:
        share = 1.0
    else:
        slower = verdict.step_seconds - verdict.before_seconds
        share = slower / verdict.step_seconds if verdict.step_seconds and verdict.before_seconds else 0.0
    return replace(verdict, waiting_ranks=waiting, lost_gpu_seconds=waiting * share * verdict.since_seconds)
