"""An Explanation as a JSON document, described in docs/history.md.

Within a version fields may be added, but no field changes its meaning. Process ids are called `pid`, as users know them.
"""

from __future__ import annotations

import math
from typing import Any

from exporter.causes import largest_first
from exporter.chains.event import ChainEvent, Parts
from exporter.explain.chain_summary import ChainSummary
from exporter.explain.explanation import Explanation
from exporter.explain.new_normal import NewNormal
from exporter.explain.sums import ProcessSum
from exporter.explain.table import top
from exporter.explain.text import lines
from exporter.history.recorded_chains import KnownState
from exporter.history.window import OperationTime
from exporter.python.call_site import CallSite
from exporter.totals import Counts
from exporter.units import seconds

VERSION = 1


def document(explanation: Explanation) -> dict[str, Any]:
    """Times are seconds since 1970."""
    run = explanation.run
    return {
        "version": VERSION,
        "status": explanation.status.value,
        "verdict": lines(explanation)[0 if explanation.is_live else 1],
        "since_unix_seconds": seconds(explanation.since_unix_ns),
        "now_unix_seconds": seconds(explanation.now_unix_ns),
        "exporter": {
            "is_running": explanation.is_live,
            "version": run.version if run else "",
            "began_unix_seconds": seconds(run.began_unix_ns) if run else None,
            "seen_unix_seconds": seconds(run.seen_unix_ns) if run else None,
            "detects_chains": run.has_chains if run else None,
        },
        "chains": [_chain(chain) for chain in explanation.chains],
        "processes": [_process(process) for process in explanation.processes],
        "gaps": gap_documents(explanation),
        "new_normals": [_new_normal(one) for one in explanation.new_normals],
        "left_out_until_unix_seconds": seconds(explanation.ahead_unix_ns) if explanation.ahead_unix_ns else None,
    }


def gap_documents(explanation: Explanation) -> list[dict[str, Any]]:
    return [
        {
            "began_unix_seconds": seconds(gap.began_unix_ns),
            "ended_unix_seconds": seconds(gap.ended_unix_ns),
            "is_exporter_running": gap.is_running,
            "is_before_the_history": gap.is_begin,
        }
        for gap in explanation.gaps
    ]


def _new_normal(one: NewNormal) -> dict[str, Any]:
    labels = one.process.labels
    return {
        "pid": labels.tgid,
        **_labels(labels.identity.values()),
        "chain_id": one.event.chain_id,
        "began_unix_seconds": seconds(one.event.began_unix_ns),
        "baseline_step_seconds": seconds(one.event.usual_step_ns),
        "step_mean_seconds": seconds(round(one.step_ns)),
    }


def _confirmation(event: ChainEvent | None) -> dict[str, Any] | None:
    if event is None:
        return None
    return {
        "result": event.change.value,
        "at_unix_seconds": seconds(event.at_unix_ns),
        "measured": list(event.evidence),
    }


def _chain(chain: ChainSummary) -> dict[str, Any]:
    event = chain.event
    return {
        "chain_id": event.chain_id,
        "state": chain.state.value,
        "cause": event.cause.value,
        "effect": event.effect.value,
        "severity": event.severity.name.lower(),
        **_labels(event.identity.values() if event.identity else ("",) * 5),
        "pid": event.tgid,
        "cgroup": event.cgroup,
        "began_unix_seconds": seconds(event.began_unix_ns),
        "known_until_unix_seconds": seconds(chain.known_until_unix_ns),
        "duration_seconds": seconds(chain.duration_ns),
        "end": event.end.value if event.end else "",
        "lost_ratio": event.lost_share,
        "lost_seconds": seconds(event.lost_ns),
        "contribution_ratio": event.contribution,
        "slowdown_ratio": event.slowdown,
        "now": _present(event) if chain.state is KnownState.OPEN else None,
        "baseline_step_seconds": seconds(event.usual_step_ns) if event.usual_step_ns else None,
        "is_chronic": event.is_chronic,
        "causes": [{"cause": cause, "share_ratio": share} for cause, share in event.shares],
        "culprits": _culprits(event.culprits),
        "culprit_pids": list(event.culprit_tgids),
        "culprit_start_ticks": list(event.culprit_start_ticks),
        "peer_rank": event.peer,
        "detail": event.detail,
        "remedy": event.remedy,
        "commands": list(chain.commands),
        "evidence": [*chain.evidence, *chain.ras],
        "call_sites": [_call_site(one) for one in chain.call_sites],
        "confirmation": _confirmation(chain.confirmation),
        "waiting": [_chain(one) for one in chain.waiting],
    }


def _present(event: ChainEvent) -> dict[str, Any]:
    present = event.present
    return {
        "lost_ratio": present.lost_share,
        "slowdown_ratio": present.slowdown,
        "culprits": _culprits(present.culprits),
    }


def _culprits(culprits: Parts) -> list[dict[str, Any]]:
    return [{"name": name, "share_ratio": share} for name, share in culprits]


def _process(process: ProcessSum) -> dict[str, Any]:
    labels, step_ns = process.labels, process.step_ns
    return {
        "pid": labels.tgid,
        "comm": labels.comm,
        **_labels(labels.identity.values()),
        "began_unix_seconds": seconds(process.began_unix_ns),
        "ended_unix_seconds": seconds(process.ended_unix_ns),
        "recorded_seconds": seconds(process.covered_ns),
        "steps": process.steps.counts.total,
        "step_mean_seconds": seconds(round(step_ns)) if step_ns is not None else None,
        "step_p50_seconds": _quantile_seconds(process.steps.counts, 0.5),
        "step_p99_seconds": _quantile_seconds(process.steps.counts, 0.99),
        "lost_ratio": process.lost_share,
        "lost_seconds": {cause: seconds(ns) for cause, ns in process.lost_ns.most_common()},
        "culprits": [
            {"cause": cause, "name": name, "lost_seconds": seconds(ns)}
            for (cause, name), ns in largest_first(process.culprits_ns)
        ],
        "thread_time_seconds": {state: seconds(ns) for state, ns in process.states_ns.most_common()},
        "off_cpu_seconds": seconds(process.off_cpu_ns),
        "cpu_stolen_seconds": seconds(process.stolen_ns),
        "voluntary_switches": process.voluntary,
        "involuntary_switches": process.involuntary,
        "operations": [_operation(one) for one in top(process)],
        "call_sites": [_call_site(one) for one in process.call_sites.largest_first()],
    }


def _call_site(one: CallSite) -> dict[str, Any]:
    return {
        "api": one.api,
        "operation": one.operation,
        "slow_calls": one.calls,
        "slow_seconds": seconds(one.total_ns),
        "slow_from_seconds": seconds(one.slow_from_ns),
        "working_directory": one.stack.directory,
        "frames": [frame._asdict() for frame in one.stack.frames],
    }


def _operation(one: OperationTime) -> dict[str, Any]:
    return {
        "api": one.api,
        "operation": one.name,
        "calls": one.calls,
        "errors": one.errors,
        "timed_calls": one.timed.counts.total,
        "timed_seconds": seconds(one.timed.sum_ns),
        "p50_seconds": _quantile_seconds(one.timed.counts, 0.5),
        "p95_seconds": _quantile_seconds(one.timed.counts, 0.95),
        "p99_seconds": _quantile_seconds(one.timed.counts, 0.99),
    }


def _quantile_seconds(counts: Counts, share: float) -> float | None:
    """None also beyond the last edge, since JSON has no infinity."""
    quantile = counts.quantile_ns(share)
    return None if quantile is None or math.isinf(quantile) else seconds(round(quantile))


def _labels(values: tuple[str, ...]) -> dict[str, str]:
    return dict(zip(("node", "rank", "container", "namespace", "pod"), values, strict=True))
