"""Figures of a chain over a span, once it has a cause."""

from __future__ import annotations

from collections.abc import Sequence

from exporter.accounting.culprits import NO_CULPRIT
from exporter.causes import HOST_CAUSES, LOST_TIME_CAUSES, Cause, largest_first
from exporter.chains.chain import Chain, Severity
from exporter.chains.findings import Findings
from exporter.chains.span import Span
from exporter.chains.verdict import Verdict, severity_of

_KEPT_CULPRITS = 5
_LEAST_SHARE = 0.2  # share of a cause's time that programs must have to be named as culprits


def opened(
    chain_id: str, process: int, span: Span, found: Findings, reason: Verdict, *, usual_step_ns: float, is_chronic: bool
) -> Chain:
    """The chain of a span with this reason."""
    share = lost_share(found, reason.cause, reason.contribution)
    severity = severity_of(reason.cause, share)
    return Chain(
        id=chain_id,
        process=process,
        cause=reason.cause,
        effect=reason.effect,
        severity=min(severity, Severity.MEDIUM) if is_chronic else severity,
        began_ns=span.then.now_ns,
        opened_ns=span.now.now_ns,
        updated_ns=span.now.now_ns,
        slowdown=slowdown(found),
        usual_step_ns=round(usual_step_ns),
        lost_share=share,
        contribution=reason.contribution,
        shares=parts_of_whole(reason.cause, reason.shares),
        culprits=reason.culprits or culprits(span, reason.cause),
        peer=reason.peer,
        detail=reason.detail,
        is_chronic=is_chronic,
        lost_ns=lost_ns(span, reason.cause, share),
    )


def lost_share(found: Findings, cause: Cause, contribution: float) -> float:
    """Share of wall time lost to the cause.

    contribution: its share of what steps took longer, as of a Verdict, or of what the host lost where that is more.
    """
    whole = max(found.total, found.lost_of_all if cause in HOST_CAUSES else 0.0)
    return min(max(whole, 0.0), 1.0) * min(contribution, 1.0)


def parts_of_whole(cause: Cause, shares: Sequence[tuple[str, float]]) -> tuple[tuple[str, float], ...]:
    """Shares that add up to 1 at most, that of the chain's cause first: a rank also sleeps while it waits for another one."""
    left = 1.0
    parts: list[tuple[str, float]] = []
    for name, share in sorted(shares, key=lambda one: (one[0] != cause.value, -one[1])):
        part = min(share, left)
        left -= part
        if part > 0:
            parts.append((name, part))
    return tuple(sorted(parts, key=lambda one: -one[1]))


def slowdown(found: Findings) -> float | None:
    """Slowdown of a step: 1.0 for twice its baseline."""
    if found.slower is None or found.slower >= 1.0:
        return None
    return max(1.0 / (1.0 - found.slower) - 1.0, 0.0)


def lost_ns(span: Span, cause: Cause, share: float) -> int:
    """Lost to this cause: as it was charged, the baseline included; where nothing is charged to it, this share of the time."""
    if cause not in LOST_TIME_CAUSES:
        return round(share * span.wall_ns)
    return sum(ns for (lost_to, _), ns in span.lost_ns().items() if lost_to is cause)


def culprits(span: Span, cause: Cause) -> tuple[tuple[str, float], ...]:
    """Programs with their shares of this cause's time in a span, largest first; none where nearly all of it has no culprit."""
    charged: dict[str, int] = {}
    for (lost_to, culprit), ns in span.lost_ns().items():
        if lost_to is cause:
            charged[culprit] = charged.get(culprit, 0) + ns
    whole = sum(charged.values())
    if charged.pop(NO_CULPRIT, 0) > whole * (1 - _LEAST_SHARE):
        return ()
    return tuple((culprit, ns / whole) for culprit, ns in largest_first(charged)[:_KEPT_CULPRITS])
