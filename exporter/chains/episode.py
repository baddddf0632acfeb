"""An open chain, tick by tick: its severity, whether its cause still holds, whether it is over.

In: the state of its process. Out: Transitions of the chain.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from exporter.causes import HOST_CAUSES, Cause
from exporter.chains import change_point, summary, verdict
from exporter.chains.chain import Chain, Change, Effect, End, Severity, Transition
from exporter.chains.ranks import Missing
from exporter.chains.span import ProcessState, Span
from exporter.chains.span_buffer import SpanBuffer
from exporter.chains.thresholds import (
    CALM_NS,
    CHRONIC_SHARE,
    FADED_SHARE,
    LASTING_NS,
    MAIN_SHARE,
    NEW_NORMAL_NS,
    OVER_SHARE,
    OVERTAKING,
    RECENT_NS,
)
from exporter.chains.verdict import OF_THE_GPU, Findings, Verdict

Waited = Callable[[Span], Mapping[str, int]]
"""(span, ...) -> rank -> nanoseconds that the process waited for it."""


class Episode:
    """The open chain of one process. chain: its current state."""

    def __init__(self, past: SpanBuffer, chain: Chain, began: ProcessState) -> None:
        self.chain = chain
        self._past = past
        self._began = began
        self._core = Span(began, past.last)  # while it is as severe as over the whole episode
        self._calm_since_ns = 0

    def hang(self, missing: Missing) -> Transition | None:
        """Other ranks wait for this process in a collective that it does not enter: the chain becomes that hang."""
        now_ns = self._past.last.now_ns
        self._calm_since_ns = 0
        if self.chain.cause is Cause.NCCL_HANG:
            self.chain = replace(self.chain, updated_ns=now_ns)
            return None
        self.chain = hang_of(self.chain.id, self._past, missing, opened_ns=self.chain.opened_ns)
        return Transition(Change.ESCALATED, self.chain)

    def overtaken_at(self, waited: Waited) -> int | None:
        """Onset of another episode, where the job is much slower than before and for another reason."""
        latest = self._past.recent(RECENT_NS)
        before = Span(self._began, latest.then)
        if self.chain.is_chronic or before.now.now_ns <= before.then.now_ns:
            return None
        if latest.late_share < OVERTAKING * before.late_share:
            return None
        reason = verdict.judge(self._find(latest, waited))
        if reason is None or reason.cause not in set(HOST_CAUSES) - {self.chain.cause}:
            return None
        moments = [latest.then, *(tick.then for tick in self._past.ticks(latest.then.now_ns))]
        return change_point.begin(moments, latest.now, 0).now_ns

    def follow(self, waited: Waited) -> Transition | None:
        """Update at a tick."""
        past, chain, now_ns = self._past, self.chain, self._past.last.now_ns
        whole = Span(self._began, past.last)
        recent = min(past.recent(), whole, key=lambda span: span.wall_ns)
        if self._is_calm(recent, waited):
            self._calm_since_ns = self._calm_since_ns or max(recent.then.now_ns, self._core.now.now_ns)
            if now_ns - self._calm_since_ns >= max(CALM_NS, 2 * past.pace_ns):
                return self.resolve(self._calm_since_ns, End.RECOVERED)
            return None
        self._calm_since_ns = 0
        if chain.cause is Cause.NOT_HOST and now_ns - chain.began_ns >= NEW_NORMAL_NS:
            return self.resolve(now_ns, End.NEW_NORMAL)
        whole = self._extend(whole)
        return self._update_figures(whole, waited)

    def resolve(self, resolved_ns: int, end: End) -> Transition:
        return self.chain.resolved(resolved_ns, end)

    def _find(self, span: Span, waited: Waited) -> Findings:
        return verdict.find(span, self._past.usual, waited(span), is_chronic=self.chain.is_chronic)

    def _is_calm(self, recent: Span, waited: Waited) -> bool:
        """Whether it is over, or has another cause by now."""
        if self.chain.is_chronic:
            return recent.lost_of_all_ns() < CHRONIC_SHARE / 2 * recent.wall_ns
        if recent.late_share < max(self._past.allowed, FADED_SHARE * self._core.late_share):
            return True
        found = self._find(recent, waited)
        return verdict.part_of(self.chain.cause, found) < OVER_SHARE * found.total

    def _extend(self, whole: Span) -> Span:
        """The episode up to now. While earlier samples are kept, its onset may be found more exactly than when it was opened."""
        is_young = self._past.first.now_ns <= whole.then.now_ns and whole.late_ns >= LASTING_NS
        if is_young and not self.chain.is_chronic:
            self._began = self._past.begin(self._began, self.chain.opened_ns)
            whole, self._core = Span(self._began, whole.now), Span(self._began, self._core.now)
        if self.chain.is_chronic or change_point.likelihood(whole) >= change_point.likelihood(self._core):
            self._core = whole
        return whole

    def _update_figures(self, whole: Span, waited: Waited) -> Transition | None:
        """The chain with its current figures."""
        chain = self.chain
        found, now = self._find(whole, waited), self._find(self._past.recent(RECENT_NS), waited)
        reason = verdict.judge(found)
        if chain.cause in OF_THE_GPU and reason is not None and reason.cause in HOST_CAUSES:
            return self._replace_cause(whole, found, reason)
        is_explained = reason is not None and (chain.cause not in OF_THE_GPU or reason.cause is chain.cause)
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
            culprits=chain.culprits if chain.cause in OF_THE_GPU else summary.culprits(whole, chain.cause),
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


def hang_of(chain_id: str, past: SpanBuffer, missing: Missing, *, opened_ns: int) -> Chain:
    """The hang of a collective that other ranks have entered since missing.since_ns."""
    return Chain(
        id=chain_id,
        process=missing.process,
        cause=Cause.NCCL_HANG,
        effect=Effect.COLLECTIVE,
        severity=Severity.CRITICAL,
        began_ns=missing.since_ns,
        opened_ns=opened_ns,
        updated_ns=past.last.now_ns,
        slowdown=None,
        usual_step_ns=round(past.usual.step_ns),
        lost_share=1.0,
        contribution=1.0,
        peer=str(missing.rank),
    )
