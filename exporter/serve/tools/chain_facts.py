"""A chain for an answer: what an operator needs of it, in the words of `explain`, with units in the names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from exporter.explain.chain_summary import ChainSummary
from exporter.explain.explanation import Explanation
from exporter.explain.headline import verdict
from exporter.history.process_names import process_name
from exporter.history.recorded_chains import KnownState
from exporter.python.call_site import LINES, CallSite
from exporter.units import seconds

_CULPRITS_MAX: Final = 3
_LINES_MAX: Final = 3
_EVIDENCE_MAX: Final = 6
_WAITING_MAX: Final = 16


def brief(chain: ChainSummary, of: Explanation) -> dict[str, Any]:
    """Enough to act on it."""
    event = chain.event
    process = of.process_of(chain)
    return {
        "chain_id": event.chain_id[:8],
        "verdict": verdict(chain, process, of.now_unix_ns, None),
        "state": chain.state.value,
        "severity": event.severity.name.lower(),
        "cause": event.cause.value,
        "who": process_name(event.identity, event.tgid, process.labels.comm if process else ""),
        "lost_ratio": round(event.lost_share, 4),
        "lost_ratio_now": round(event.present.lost_share, 4) if chain.state is KnownState.OPEN else None,
        "lost_seconds": round(seconds(event.lost_ns), 3),
        "culprits": _culprits(event.present.culprits),
        "lines_with_most_time": _most_time(chain.evidence),
        "lines": [line_of(one) for one in chain.call_sites[:_LINES_MAX]],
        "remedy": event.remedy,
        "commands": list(chain.commands),
        "ranks_that_wait": [one.rank for one in chain.waiting[:_WAITING_MAX]],
    }


def whole(chain: ChainSummary, of: Explanation) -> dict[str, Any]:
    """All that is known of it but its course."""
    event = chain.event
    identity = event.identity
    return {
        **brief(chain, of),
        "chain_id": event.chain_id,
        "effect": event.effect.value,
        "node": identity.node if identity else "",
        "rank": identity.rank if identity else "",
        "container": identity.container if identity else "",
        "namespace": identity.namespace if identity else "",
        "pod": identity.pod if identity else "",
        "pid": event.tgid,
        "began_unix_seconds": seconds(event.began_unix_ns),
        "known_until_unix_seconds": seconds(chain.known_until_unix_ns),
        "end": event.end.value if event.end else "",
        "slowdown_ratio": event.present.slowdown,
        "usual_step_seconds": seconds(event.usual_step_ns) if event.usual_step_ns else None,
        "causes": [{"cause": cause, "share_ratio": round(share, 4)} for cause, share in event.shares],
        "culprit_pids": list(event.culprit_tgids),
        "peer_rank": event.peer,
        "detail": event.detail,
        "evidence": [*chain.evidence[:_EVIDENCE_MAX], *chain.ras[:_EVIDENCE_MAX]],
        "confirmation": chain.confirmation.change.value if chain.confirmation else "",
    }


def _culprits(culprits: Iterable[tuple[str, float]]) -> list[dict[str, Any]]:
    return [{"name": name, "share_ratio": round(share, 4)} for name, share in list(culprits)[:_CULPRITS_MAX]]


def _most_time(evidence: Sequence[str]) -> list[str]:
    """Where the threads that feed the GPU were found, if the evidence is about that."""
    return [one.strip() for one in evidence[1 : 1 + _LINES_MAX]] if evidence[:1] == (LINES,) else []


def line_of(site: CallSite) -> dict[str, Any]:
    """Slow calls from one line of the job."""
    return {
        "operation": site.operation,
        "place": site.stack.place,
        "slow_calls": site.calls,
        "slow_seconds": round(seconds(site.total_ns), 6),
    }
