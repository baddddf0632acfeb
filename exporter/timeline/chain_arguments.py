"""The arguments of a chain's slice: names and units are those of `explain --format=json`."""

from __future__ import annotations

from exporter.history.recorded_chains import RecordedChain
from exporter.text import figures
from exporter.timeline.item import Argument, Arguments
from exporter.units import seconds


def chain_arguments(chain: RecordedChain) -> Arguments:
    """Without those that are empty or not known."""
    event = chain.last
    advice = next((one for one in reversed(chain.events) if one.culprit_tgids), event)
    known: dict[str, Argument | None] = {
        "chain_id": event.chain_id,
        "state": chain.state.value,
        "cause": event.cause.value,
        "effect": event.effect.value,
        "severity": event.severity.name.lower(),
        "began_unix_seconds": seconds(event.began_unix_ns),
        "lost_ratio": event.lost_share,
        "lost_seconds": seconds(event.lost_ns) if event.lost_ns else None,
        "contribution_ratio": event.contribution,
        "slowdown_ratio": event.slowdown,
        "baseline_step_seconds": seconds(event.usual_step_ns) if event.usual_step_ns else None,
        "causes": _shares(event.shares),
        "culprits": _shares(event.culprits),
        "culprit_pids": tuple(map(str, advice.culprit_tgids)),
        "peer_rank": event.peer,
        "cgroup": event.cgroup,
        "end": event.end.value if event.end else "",
        "detail": event.detail,
        "remedy": event.remedy,
        "commands": advice.commands,
    }
    return {name: value for name, value in known.items() if value not in (None, "", ())}


def _shares(parts: tuple[tuple[str, float], ...]) -> tuple[str, ...]:
    return tuple(f"{name} {figures.percent(share)}" for name, share in parts)
