"""A late rank: where it is, and what makes it late.

In: a member of a job, and by how much more of a step is lost to which cause than before. Out: a LateRank.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from exporter.causes import HOST_CAUSES, Cause
from exporter.fleet.jobs import Member
from exporter.fleet.lateness import RankLateness
from exporter.fleet.rank_report import ReportedChain

CAUSE_SHARE: Final = 0.35
"""Share of the lateness of a rank that one cause explains."""
CHAIN_SHARE: Final = 0.2
"""Share of the lateness of a rank that a chain has to have cost it to be its reason."""
STANDING_SHARE: Final = 0.5
"""Share of its time that a chain costs a rank which does not go on because of it."""
OF_HABITS: Final = frozenset((Cause.CHANGED, Cause.COLD_START))
"""Chains of what a process is like now, which is no slowdown."""
_OF_VICTIMS: Final = frozenset((Cause.GPU, Cause.PEER_RANK, Cause.SLOW_RANK)) | OF_HABITS
"""Chains that say nothing about why a rank is late: it may wait for another one, or be as it was."""
_ENDINGS: Final = (Cause.CRASH, Cause.OOM_KILLED, Cause.CUDA_OOM)
UNNAMED: Final = frozenset((Cause.OTHER.value, Cause.UNKNOWN.value, Cause.WAKEUP_LATENCY.value))
OPEN: Final = "open"


@dataclass(frozen=True, slots=True)
class LateRank:
    """cause: of Cause, or "" if none is known. late_seconds: of a step, 0 for a rank that stands still. is_gone: it has ended."""

    node: str
    rank: str
    pod: str
    tgid: int
    cause: str
    culprit: str
    line: str
    chain_id: str
    late_seconds: float
    is_gone: bool = False


def open_chain(member: Member, causes: frozenset[Cause]) -> ReportedChain | None:
    return next((one for one in member.report.chains if one.state == OPEN and one.cause in causes), None)


def explained(late: RankLateness) -> LateRank:
    """The cause that more time is lost to than before; without one that its chain has; its own code, if that computes longer."""
    grown = {cause: lost for cause, lost in late.grown().items() if cause not in UNNAMED}
    cause = max(grown, key=lambda name: grown[name], default="")
    least_ratio = CHAIN_SHARE * late.seconds / late.now.step
    chains = [
        one
        for one in late.member.report.chains
        if one.state == OPEN and one.cause not in _OF_VICTIMS and one.lost_ratio >= least_ratio
    ]
    if not cause or grown[cause] < CAUSE_SHARE * late.seconds:
        if chains:
            cause = chains[0].cause.value
        else:
            cause = Cause.OWN_CODE.value if late.more_computing >= CAUSE_SHARE * late.seconds else ""
    chain = next((one for one in chains if one.cause.value == cause), None)
    return late_rank(late.member, cause, chain, late.seconds)


def late_rank(member: Member, cause: str, chain: ReportedChain | None, late_seconds: float) -> LateRank:
    return LateRank(
        member.node,
        member.rank,
        member.report.identity.pod,
        member.report.tgid,
        cause,
        chain.culprit if chain else "",
        chain.line if chain else "",
        chain.chain_id if chain else "",
        late_seconds,
        member.is_gone,
    )


def standing_rank(member: Member) -> LateRank:
    chain = _why_standing(member)
    cause = chain.cause.value if chain else ""
    return late_rank(member, cause, chain, 0.0)


def _why_standing(member: Member) -> ReportedChain | None:
    """What has ended it, what of the host keeps it from going on, or that it stands still."""
    chains = [one for one in member.report.chains if one.state == OPEN and one.lost_ratio >= STANDING_SHARE]
    ended = [one for one in member.report.chains if one.cause in _ENDINGS]
    for wanted in ((*HOST_CAUSES, Cause.OWN_WAIT, Cause.OWN_CODE), (Cause.STALLED, Cause.NCCL_HANG)):
        ended += [one for one in chains if one.cause in wanted]
    return ended[0] if ended else None
