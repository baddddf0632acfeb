"""A FleetExplanation as text: the verdict about each job, nodes that failed, clocks that are off, then a line for each node."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from exporter.fleet.clock_offset import offset_phrase
from exporter.fleet.clock_warnings import clock_warnings
from exporter.fleet.fleet_explanation import FleetExplanation
from exporter.fleet.job_verdict import JobKind, JobVerdict
from exporter.fleet.late_rank import OPEN, LateRank
from exporter.fleet.rank_report import NodeReport, RankReport
from exporter.history.process_names import process_name
from exporter.text.figures import duration, factor, ranks
from exporter.units import NANOSECONDS

JOBS_MAX: Final = 16
_RANKS_MAX: Final = 8
_CONFLICTS_MAX: Final = 3
TEXT_INDENT: Final = 13
"""Columns before the text of a field, which goes on below itself."""
_INDENT: Final = "  "
_SEVERITIES: Final = ("critical", "high", "medium", "low", "none")


def lines(found: FleetExplanation) -> Iterator[str]:
    """All of it."""
    if not found.reports:
        yield "no answer"
    for number, job in enumerate(found.wrong[:JOBS_MAX]):
        if number:
            yield ""
        yield from _job_lines(job, found)
    if found.reports:
        yield from _other_jobs(found)
    if found.failures:
        yield ""
        yield f"{len(found.failures)} of {len(found.failures) + len(found.reports)} nodes failed:"
        yield from (f"{_INDENT}{one.line}" for one in found.failures)
    if warnings := clock_warnings(found.clocks):
        yield ""
        yield "clocks:"
        yield from (f"{_INDENT}{one}" for one in warnings)
    if found.reports:
        yield ""
        yield "nodes:"
        yield from (f"{_INDENT}{name}: {node_line(one)}; {_clock(name, found)}" for name, one in found.reports.items())


def _other_jobs(found: FleetExplanation) -> Iterator[str]:
    wrong, left = len(found.wrong), len(found.jobs) - len(found.wrong)
    if wrong > JOBS_MAX:
        yield f"{wrong - JOBS_MAX} more jobs are slow, ambiguous or stand still"
    if not found.jobs:
        yield "no job: no process has a communicator of several ranks whose creation was traced"
    elif left:
        more = "other " if wrong else ""
        yield f"{left} {more}{_plural(left, 'job')} without a slowdown"


def _plural(count: int, word: str) -> str:
    return word if count == 1 else f"{word}s"


# ---- a job


def _job_lines(job: JobVerdict, found: FleetExplanation) -> Iterator[str]:
    yield f"{_job_name(job)}: {sentence(job)}"
    for one in (*job.late, *job.candidates)[:_RANKS_MAX]:
        yield f"{_INDENT}{'rank' if job.late else 'candidate':10} {rank_name(one)}{_reason(one)}"
        if one.line:
            yield f"{_INDENT}{'line':10} {one.line}"
    more = len(job.late) + len(job.candidates) - _RANKS_MAX
    if more > 0:
        yield f"{_INDENT}{'':10} and {more} more"
    if job.before_seconds and job.step_seconds > job.before_seconds:
        times = job.step_seconds / job.before_seconds
        lengths = f"{_length(job.before_seconds)} -> {_length(job.step_seconds)}"
        yield f"{_INDENT}{'steps':10} take {factor(times)} times as long: {lengths}"
    if job.lost_gpu_seconds:
        yield f"{_INDENT}{'cost':10} {_cost(job, found)}"
    if job.ambiguity:
        yield f"{_INDENT}{'unclear':10} {job.ambiguity}"
    if job.unseen:
        unseen = job.ranks - job.seen
        yield f"{_INDENT}{'not seen':10} {ranks(map(str, job.unseen))}{' and others' if unseen > len(job.unseen) else ''}"
    for claim in job.conflicts[:_CONFLICTS_MAX]:
        nodes = ", ".join(f"{one.node} (pid {one.report.tgid})" for one in claim.members[:_RANKS_MAX])
        yield f"{_INDENT}{'conflict':10} rank {claim.rank} of communicator {claim.communicator:016x}: {nodes}"


def _job_name(job: JobVerdict) -> str:
    where = job.nodes[0] if len(job.nodes) == 1 else f"{len(job.nodes)} nodes"
    return f"job of {job.ranks} ranks on {where} (communicator {job.communicator:016x})"


def sentence(job: JobVerdict) -> str:
    """What is wrong, and for how long."""
    since = f" for {_length(job.since_seconds)}" if job.since_seconds else ""
    match job.kind:
        case JobKind.FINE:
            return "no slowdown"
        case JobKind.SLOW_RANK | JobKind.SLOW_RANKS:
            verb = "is" if len(job.late) == 1 else "are"
            return f"{ranks(one.rank for one in job.late)} on {_nodes(job.late)} {verb} late{since}"
        case JobKind.ALL_SLOW:
            cause = f" to {job.cause}" if job.cause else ""
            culprit = f", culprit {job.culprit}" if job.culprit else ""
            return f"all ranks are slow together{since} and lose time{cause}{culprit}; no rank is the reason"
        case JobKind.SLOW_LINK:
            return f"collectives take longer{since} and no rank is late: a link or a NIC is slow"
        case JobKind.HANG if job.late:
            verb = "has" if len(job.late) == 1 else "have"
            return (
                f"stands still{since}: {ranks(one.rank for one in job.late)} on {_nodes(job.late)} {verb} not entered"
                f" collective {job.collectives + 1}, which others wait in"
            )
        case JobKind.HANG:
            return f"stands still{since}, and every rank has entered the collective"
        case JobKind.AMBIGUOUS:
            return f"is slow or stands still{since}, and it is ambiguous which rank is late"


def _nodes(late: Sequence[LateRank]) -> str:
    names = list(dict.fromkeys(one.node for one in late))
    shown = ", ".join(names[:_RANKS_MAX])
    return f"{shown} and others" if len(names) > _RANKS_MAX else shown


def rank_name(one: LateRank) -> str:
    """`rank 6 on gpu3 (pod trainer-6)`."""
    place = f"pod {one.pod}" if one.pod else f"pid {one.tgid}" if one.tgid else ""
    return f"rank {one.rank} on {one.node}{f' ({place})' if place else ''}"


def _reason(one: LateRank) -> str:
    facts = [one.cause or ("its process has ended" if one.is_gone else "cause not known")]
    if one.culprit:
        facts.append(f"culprit {one.culprit}")
    if one.late_seconds:
        facts.append(f"late by {_length(one.late_seconds)} of each step")
    if one.chain_id:
        facts.append(f"chain {one.chain_id[:8]}")
    return f": {', '.join(facts)}"


def _cost(job: JobVerdict, found: FleetExplanation) -> str:
    usd = found.usd(job.lost_gpu_seconds)
    price = "" if usd is None else f", {usd:,.2f} USD"
    waiting = f"{job.waiting_ranks} {_plural(job.waiting_ranks, 'rank')}"
    return f"{waiting} waited for {job.lost_gpu_seconds:,.0f} GPU-seconds{price}"


def _length(length_seconds: float) -> str:
    return duration(length_seconds * NANOSECONDS)


# ---- a node


def _clock(node: str, found: FleetExplanation) -> str:
    offset = found.clocks.get(node)
    return "clock offset unknown" if offset is None else f"clock {offset_phrase(offset)}"


def node_line(report: NodeReport) -> str:
    """Its worst open chain, and how many more there are."""
    if not report.is_recording:
        return f"no exporter has written its history for {_length(report.written_seconds_ago)}"
    if not report.detects_chains:
        return "the detection of chains is off"
    open_chains = [(one, chain) for one in report.ranks for chain in one.chains if chain.state == OPEN]
    if not open_chains:
        past = sum(len(one.chains) for one in report.ranks)
        return f"nothing is slow; {past} {_plural(past, 'chain')} in this time" if past else "nothing is slow"
    rank, chain = min(open_chains, key=lambda one: (_SEVERITIES.index(one[1].severity), -one[1].lost_ratio))
    culprit = f", culprit {chain.culprit}" if chain.culprit else ""
    more = f"; {len(open_chains) - 1} more" if len(open_chains) > 1 else ""
    return f"{_process(rank)}: {chain.cause.value}, {chain.severity}{culprit}, for {_length(chain.began_seconds_ago)}{more}"


def _process(rank: RankReport) -> str:
    return process_name(rank.identity, rank.tgid, rank.comm)
