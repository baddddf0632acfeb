"""A FleetExplanation as a JSON document, version 1: docs/explain-nodes.schema.json is its JSON Schema."""

from __future__ import annotations

from typing import Any, Final

from exporter.fleet import fleet_text
from exporter.fleet.clock_offset import ClockOffset
from exporter.fleet.clock_warnings import clock_warnings
from exporter.fleet.fleet_explanation import FleetExplanation
from exporter.fleet.job_verdict import JobVerdict
from exporter.fleet.jobs import Claim
from exporter.fleet.late_rank import LateRank
from exporter.fleet.rank_report import NodeReport
from exporter.units import seconds

VERSION: Final = 1
_CLAIMS_MAX: Final = 16
_LATE_MAX: Final = 256


def document(found: FleetExplanation) -> dict[str, Any]:
    """Times are ages: seconds before the answer."""
    return {
        "version": VERSION,
        "since_seconds": found.since_seconds,
        "is_complete": found.is_complete,
        "jobs": [_job(one, found) for one in found.jobs],
        "failed_nodes": [one.document() for one in found.failures],
        "clock_warnings": clock_warnings(found.clocks),
        "nodes": [_node(name, report, found.clocks.get(name)) for name, report in found.reports.items()],
    }


def _job(job: JobVerdict, found: FleetExplanation) -> dict[str, Any]:
    return {
        "communicator": f"{job.communicator:016x}",
        "kind": job.kind.value,
        "verdict": fleet_text.sentence(job),
        "ranks": job.ranks,
        "ranks_seen": job.seen,
        "nodes": list(job.nodes),
        "since_seconds": job.since_seconds,
        "step_mean_seconds": job.step_seconds,
        "step_before_seconds": job.before_seconds,
        "cause": job.cause,
        "culprit": job.culprit,
        "late": [_late(one) for one in job.late[:_LATE_MAX]],
        "candidates": [_late(one) for one in job.candidates[:_LATE_MAX]],
        "unseen_ranks": list(job.unseen),
        "ambiguity": job.ambiguity,
        "collectives": job.collectives,
        "waiting_ranks": job.waiting_ranks,
        "lost_gpu_seconds": job.lost_gpu_seconds,
        "lost_usd": found.usd(job.lost_gpu_seconds),
        "conflicts": [_claim(one) for one in job.conflicts[:_CLAIMS_MAX]],
    }


def _late(one: LateRank) -> dict[str, Any]:
    return {
        "node": one.node,
        "rank": one.rank,
        "pod": one.pod,
        "pid": one.tgid,
        "cause": one.cause,
        "culprit": one.culprit,
        "line": one.line,
        "chain_id": one.chain_id,
        "late_seconds": one.late_seconds,
        "is_gone": one.is_gone,
    }


def _claim(claim: Claim) -> dict[str, Any]:
    members = [{"node": one.node, "pid": one.report.tgid} for one in claim.members[:_CLAIMS_MAX]]
    return {"communicator": f"{claim.communicator:016x}", "rank": claim.rank, "processes": members}


def _node(name: str, report: NodeReport, clock: ClockOffset | None) -> dict[str, Any]:
    return {
        "node": name,
        "summary": fleet_text.node_line(report),
        "is_recording": report.is_recording,
        "detects_chains": report.detects_chains,
        "written_seconds_ago": report.written_seconds_ago,
        "open_chains": sum(chain.state == "open" for one in report.ranks for chain in one.chains),
        "ranks_left_out": report.truncated,
        "clock": None if clock is None else _clock(clock),
    }


def _clock(offset: ClockOffset) -> dict[str, Any]:
    kernel_bound_ns = offset.kernel_bound_ns
    return {
        "ahead_seconds": seconds(offset.ahead_ns),
        "bound_seconds": seconds(offset.bound_ns),
        "kernel_bound_seconds": None if kernel_bound_ns is None else seconds(kernel_bound_ns),
    }
