"""An Explanation as a document for machines, told in docs/history.md.

What a field means does not change within a version; fields may be added.
"""

from __future__ import annotations

from typing import Any

from exporter.chains.event import ChainEvent
from exporter.explain.episodes import EpisodeSummary
from exporter.explain.explanation import Explanation
from exporter.explain.sums import ProcessSum, quantile_ns
from exporter.explain.table import top
from exporter.explain.text import lines
from exporter.history.window import OperationTime
from exporter.units import seconds

VERSION = 1


def document(explanation: Explanation) -> dict[str, Any]:
    """What JSON can hold; times are seconds since 1970."""
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
            "looks_for_episodes": run.has_chains if run else None,
        },
        "episodes": [_episode(episode) for episode in explanation.episodes],
        "processes": [_process(process) for process in explanation.processes],
        "gaps": [
            {
                "began_unix_seconds": seconds(gap.began_unix_ns),
                "ended_unix_seconds": seconds(gap.ended_unix_ns),
                "is_exporter_running": gap.is_running,
                "is_before_the_history": gap.is_begin,
            }
            for gap in explanation.gaps
        ],
    }


def _proof(proof: ChainEvent | None) -> dict[str, Any] | None:
    if proof is None:
        return None
    return {"result": proof.change.value, "at_unix_seconds": seconds(proof.at_unix_ns), "told": list(proof.evidence)}


def _episode(episode: EpisodeSummary) -> dict[str, Any]:
    report = episode.report
    return {
        "chain_id": report.chain_id,
        "state": episode.state.value,
        "cause": report.cause.value,
        "effect": report.effect.value,
        "severity": report.severity.name.lower(),
        **_labels(report.identity.values() if report.identity else ("",) * 5),
        "pid": report.tgid,
        "cgroup": report.cgroup,
        "began_unix_seconds": seconds(report.began_unix_ns),
        "known_until_unix_seconds": seconds(episode.known_until_unix_ns),
        "duration_seconds": seconds(episode.duration_ns),
        "end": report.end.value if report.end else "",
        "lost_ratio": report.lost_share,
        "contribution_ratio": report.contribution,
        "slowdown_ratio": report.slowdown,
        "usual_step_seconds": seconds(report.usual_step_ns) if report.usual_step_ns else None,
        "is_chronic": report.is_chronic,
        "causes": [{"cause": cause, "share_ratio": share} for cause, share in report.shares],
        "culprits": [{"name": name, "share_ratio": share} for name, share in report.culprits],
        "culprit_pids": list(report.culprit_tgids),
        "peer_rank": report.peer,
        "remedy": report.remedy,
        "commands": list(episode.commands),
        "evidence": list(episode.evidence),
        "proof": _proof(episode.proof),
        "waiting": [_episode(one) for one in episode.waiting],
    }


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
            for (cause, name), ns in process.culprits_ns.most_common()
        ],
        "thread_time_seconds": {state: seconds(ns) for state, ns in process.states_ns.most_common()},
        "off_cpu_seconds": seconds(process.off_cpu_ns),
        "cpu_stolen_seconds": seconds(process.stolen_ns),
        "voluntary_switches": process.voluntary,
        "involuntary_switches": process.involuntary,
        "operations": [_operation(one) for one in top(process)],
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
        "p99_seconds": _quantile_seconds(one.timed.counts, 0.99),
    }


def _quantile_seconds(counts: Any, share: float) -> float | None:
    found = quantile_ns(counts, share)
    return None if found is None else seconds(round(found))


def _labels(values: tuple[str, ...]) -> dict[str, str]:
    return dict(zip(("node", "rank", "container", "namespace", "pod"), values, strict=True))
