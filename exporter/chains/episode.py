"""An open chain, tick by tick: its severity, whether its cause still holds, whether it is over.

In: the state of its process. Out: Transitions of the chain.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from exporter.causes import HOST_CAUSES
from exporter.chains import change_point, summary, verdict
from exporter.chains.chain import Chain, Change, End, Severity, Transition
from exporter.chains.span import ProcessState, Span
from exporter.chains.span_buffer import SpanBuffer
from exporter.chains.thresholds import (
    CALM_NS,
    CHRONIC_SHARE,
    FADED_SHARE,
    LASTING_CHANGE_NS,
    LASTING_CHANGE_STEPS,
    LASTING_NS,
    MAIN_SHARE,
    OVER_SHARE,
    RECENT_NS,
)
from exporter.chains.verdict import OF_THE_JOB, Findings, Verdict
from exporter.chains.window import Level

Waited = Callable[[Span], Mapping[str, int]]
"""(span, ...) -> rank -> nanoseconds that the process waited for it."""


class Episode:
    """An open chain of one process. chain: its current state. before: what the job was like before its onset; None for as usual.

    is_on_top: another chain was open at its onset. rest_ns: how long its losses may pause without being over.
    """

    def __init__(
        self,
        past: SpanBuffer,
        chain: Chain,
        began: ProcessState,
        before: Level | None = None,
        *,
        is_on_top: bool = False,
        rest_ns: int = 0,
    ) -> None:
        self.chain = chain
        self._past = past
        self._began = began
        self._before = before
        self._late_before = before.late if before else 0.0
        self._is_on_top = is_on_top
        self._rest_ns = rest_ns
        self._core = Span(began, past.last)  # while it is as severe as over the whole episode
        self._calm_since_ns = 0

    def follow(self, waited: Waited, *, is_alone: bool) -> Transition | None:
        """Update at a tick. is_alone: no other chain of the process is open."""
        past, chain, now_ns = self._past, self.chain, self._past.last.now_ns
        whole = Span(self._began, past.last)
        recent = min(past.recent(), whole, key=lambda span: span.wall_ns)
        if self._is_calm(recent, waited, is_alone=is_alone):
            self._calm_since_ns = self._calm_since_ns or max(recent.then.now_ns, self._core.now.now_ns)
            if now_ns - self._calm_since_ns >= max(CALM_NS, 2 * past.pace_ns, self._rest_ns):
                return self.resolve(self._calm_since_ns, End.RECOVERED)
            return None
        self._calm_since_ns = 0
        lasting_ns = max(LASTING_CHANGE_NS, LASTING_CHANGE_STEPS * past.pace_ns)
        if chain.cause in OF_THE_JOB and now_ns - chain.opened_ns >= lasting_ns and is_alone and recent.steps:
            return self.resolve(now_ns, End.CHANGED)
        return self._update_figures(self._extend(whole) if is_alone else whole, waited, is_alone=is_alone)

    def resolve(self, resolved_ns: int, end: End) -> Transition:
        return self.chain.resolved(resolved_ns, end)

    def _find(self, span: Span, waited: Waited) -> Findings:
        return verdict.find(span, self._past.usual, waited(span), self._before, is_chronic=self.chain.is_chronic)

    def _is_calm(self, recent: Span, waited: Waited, *, is_alone: bool) -> bool:
        """Whether it is over, or has another cause by now."""
        if self.chain.is_chronic:
            return recent.lost_of_all_ns() < CHRONIC_SHARE / 2 * recent.wall_ns
        past = self._past
        if recent.late_share < past.allowed(past.usual.spread):
            return True
        found, core = self._find(recent, waited), self._find(self._core, waited)
        if self.chain.cause in HOST_CAUSES and (self._is_on_top or not is_alone):
            # By its own cause alone: other chains may have opened or ended since, and have changed the pace.
            slower = min(found.pace / core.pace, 1.0) if core.pace > 0 else 1.0
            least = FADED_SHARE * slower * verdict.part_of(self.chain.cause, core)
            return verdict.part_of(self.chain.cause, found) < least
        if recent.late_beyond(self._late_before) < FADED_SHARE * self._core.late_beyond(self._late_before):
            return True
        return is_alone and verdict.part_of(self.chain.cause, found) < OVER_SHARE * found.total

    def _extend(self, whole: Span) -> Span:
        """The episode up to now. While earlier samples are kept, its onset may be found more exactly than when it was opened."""
        late_before = self._late_before
        is_young = self._past.first.now_ns <= whole.then.now_ns and whole.late_ns >= LASTING_NS
        if is_young and not self.chain.is_chronic:
            self._began = self._past.onset(self._began, self.chain.opened_ns, late_before)
            whole, self._core = Span(self._began, whole.now), Span(self._began, self._core.now)
        if self.chain.is_chronic or change_point.likelihood(whole, late_before) >= change_point.likelihood(
            self._core, late_before
        ):
            self._core = whole
        return whole

    def _update_figures(self, whole: Span, waited: Waited, *, is_alone: bool) -> Transition | None:
        """The chain with its current figures."""
        chain = self.chain
        found, now = self._find(whole, waited), self._find(self._past.recent(RECENT_NS), waited)
        reason = verdict.judge(found)
        if is_alone and chain.cause in OF_THE_JOB and reason is not None and reason.cause in HOST_CAUSES:
            return self._replace_cause(whole, found, reason)
        is_explained = reason is not None and (chain.cause not in OF_THE_JOB or reason.cause is chain.cause)
        contribution = verdict.contribution_of(chain.cause, reason) if reason and is_explained else chain.contribution
        lost_share = summary.lost_share(now, chain.cause)
        severity = verdict.severity_of(chain.cause, lost_share, max(contribution, MAIN_SHARE))
        if chain.is_chronic:
            severity = min(severity, Severity.MEDIUM)
        core = self._find(self._core, waited)
        self.chain = replace(
            chain,
            severity=max(severity, chain.severity),
            began_ns=whole.then.now_ns,
            updated_ns=whole.now.now_ns,
            slowdown=summary.slowdown(core),
            lost_share=summary.lost_share(core, chain.cause),
            contribution=contribution,
            shares=reason.shares if reason and is_explained else chain.shares,
            culprits=chain.culprits if chain.cause in OF_THE_JOB else summary.culprits(whole, chain.cause),
            lost_ns=summary.lost_ns(whole, chain.cause),
            peer=reason.peer if reason and reason.peer else chain.peer,
        )
        return Transition(Change.ESCALATED, self.chain) if severity > chain.severity else None

    def _replace_cause(self, whole: Span, found: Findings, reason: Verdict) -> Transition:
        """The host was ruled out too soon: its lost time explains the episode by now. It stays the same chain."""
        lost_share = summary.lost_share(found, reason.cause)
        severity = verdict.severity_of(reason.cause, lost_share, reason.contribution)
        self.chain = replace(
            self.chain,
            cause=reason.cause,
            effect=reason.effect,
            severity=max(severity, self.chain.severity),
            updated_ns=whole.now.now_ns,
            slowdown=summary.slowdown(found),
            lost_share=lost_share,
            contribution=reason.contribution,
            shares=reason.shares,
            culprits=summary.culprits(whole, reason.cause),
            lost_ns=summary.lost_ns(whole, reason.cause),
            detail="",
        )
        return Transition(Change.ESCALATED, self.chain)
