"""An open chain, tick by tick: its severity, whether its cause still holds, whether it is over.

In: the state of its process. Out: Transitions of the chain.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from exporter.causes import HOST_CAUSES
from exporter.chains import change_point, findings, summary, verdict
from exporter.chains.chain import Chain, Change, End, Present, Severity, Transition
from exporter.chains.findings import Findings
from exporter.chains.span import ProcessState, Span
from exporter.chains.span_buffer import SpanBuffer
from exporter.chains.thresholds import (
    CALM_NS,
    CHRONIC_SHARE,
    FADED_SHARE,
    LASTING_CHANGE_NS,
    LASTING_CHANGE_STEPS,
    LASTING_NS,
    OVER_SHARE,
    WINDOW_NS,
    WORSE_NS,
)
from exporter.chains.verdict import OF_THE_JOB, Verdict
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
        self._worst = Span(began, past.last)  # from its onset or its last escalation, while it stays as severe
        self._calm_since_ns = 0

    @property
    def explains_standstill(self) -> bool:
        """Whether its cause may keep the job from ending any step: the host or another rank may, while causes of the job and its
        GPU were found in steps that ended.
        """
        return self.chain.cause not in OF_THE_JOB

    @property
    def step_ns(self) -> int:
        """Mean length of the steps that have ended since its onset; 0 without any."""
        span = Span(self._began, self._past.last)
        return span.steps_ns // max(span.steps, 1)

    def follow(self, waited: Waited, *, is_alone: bool) -> Transition | None:
        """Update at a tick. is_alone: no other chain of the process is open."""
        past, chain, now_ns = self._past, self.chain, self._past.last.now_ns
        whole = Span(self._began, past.last)
        recent = self._recent(whole)
        if self._is_calm(recent, waited, is_alone=is_alone):
            self._calm_since_ns = self._calm_since_ns or max(recent.then.now_ns, self._worst.now.now_ns)
            if now_ns - self._calm_since_ns >= max(CALM_NS, 2 * past.pace_ns, self._rest_ns):
                return self.resolve(self._calm_since_ns, End.RECOVERED)
            over = self._over(self._recent(whole, WORSE_NS), waited)
            self.chain = replace(chain, now=_present(over, chain.lost_share), peer=over.peer)
            return None
        self._calm_since_ns = 0
        lasting_ns = max(LASTING_CHANGE_NS, LASTING_CHANGE_STEPS * past.pace_ns)
        if chain.cause in OF_THE_JOB and now_ns - chain.opened_ns >= lasting_ns and is_alone and recent.steps:
            return self.resolve(now_ns, End.CHANGED)
        return self._update_figures(self._extend(whole) if is_alone else whole, waited, is_alone=is_alone)

    def resolve(self, resolved_ns: int, end: End) -> Transition:
        return self.chain.resolved(resolved_ns, end)

    def _find(self, span: Span, waited: Waited) -> Findings:
        return findings.find(span, self._past.usual, waited(span), self._before, is_chronic=self.chain.is_chronic)

    def _is_calm(self, recent: Span, waited: Waited, *, is_alone: bool) -> bool:
        """Whether it is over, or has another cause by now."""
        if self.chain.is_chronic:
            return recent.lost_of_all_ns() < CHRONIC_SHARE / 2 * recent.wall_ns
        past = self._past
        if recent.late_share < past.allowed(past.usual.spread):
            return True
        found, worst = self._find(recent, waited), self._find(self._worst, waited)
        if self.chain.cause in HOST_CAUSES and (self._is_on_top or not is_alone):
            # By its own cause alone: other chains may have opened or ended since, and have changed the pace.
            slower = min(found.pace / worst.pace, 1.0) if worst.pace > 0 else 1.0
            least = FADED_SHARE * slower * findings.part_of(self.chain.cause, worst)
            return findings.part_of(self.chain.cause, found) < least
        if recent.late_beyond(self._late_before) < FADED_SHARE * self._worst.late_beyond(self._late_before):
            return True
        return is_alone and findings.part_of(self.chain.cause, found) < OVER_SHARE * found.total

    def _extend(self, whole: Span) -> Span:
        """The episode up to now. While earlier samples are kept, its onset may be found more exactly than when it was opened."""
        late_before = self._late_before
        is_young = self._past.first.now_ns <= whole.then.now_ns and whole.late_ns >= LASTING_NS
        if is_young and not self.chain.is_chronic:
            is_first = self._worst.then is self._began
            self._began = self._past.onset(self._began, self.chain.opened_ns, late_before)
            whole = Span(self._began, whole.now)
            self._worst = Span(self._began, self._worst.now) if is_first else self._worst
        longer = Span(self._worst.then, whole.now)
        if self.chain.is_chronic or change_point.likelihood(longer, late_before) >= change_point.likelihood(
            self._worst, late_before
        ):
            self._worst = longer
        return whole

    def _update_figures(self, whole: Span, waited: Waited, *, is_alone: bool) -> Transition | None:
        """The chain with its current figures."""
        before = self.chain
        found = self._find(whole, waited)
        reason = verdict.judge(found)
        if is_alone and before.cause in OF_THE_JOB and reason is not None and reason.cause in HOST_CAUSES:
            return self._replace_cause(whole, found, reason)
        latest = self._recent(whole, WORSE_NS)
        chain = worst = self._over(latest, waited)
        is_young = latest is whole  # its figures become more exact with every tick
        if chain.severity > before.severity:
            self._worst = latest
        elif chain.severity < before.severity or (chain.lost_share < before.lost_share and not is_young):
            worst = before
        self.chain = replace(
            worst,
            began_ns=whole.then.now_ns,
            updated_ns=whole.now.now_ns,
            lost_ns=summary.lost_ns(whole, worst.cause, summary.lost_share(found, worst.cause, worst.contribution)),
            now=_present(chain, worst.lost_share),
            peer=chain.peer,
        )
        return Transition(Change.ESCALATED, self.chain) if worst.severity > before.severity else None

    def _recent(self, whole: Span, least_ns: int = WINDOW_NS) -> Span:
        return min(self._past.recent(least_ns), whole, key=lambda span: span.wall_ns)

    def _over(self, span: Span, waited: Waited) -> Chain:
        """The chain with the figures of a span: its severity and its shares belong together."""
        chain, found = self.chain, self._find(span, waited)
        reason = verdict.judge(found)
        if reason is not None and chain.cause in OF_THE_JOB and reason.cause is not chain.cause:
            reason = None  # its shares are those of its opening: what the job does is not read at every tick
        contribution = verdict.contribution_of(chain.cause, reason) if reason else chain.contribution
        lost_share = summary.lost_share(found, chain.cause, contribution)
        if chain.cause in OF_THE_JOB:
            of_host = sum(found.lost.values())  # by now it may be more than there was at the opening
            lost_share = min(lost_share, max(found.total - of_host, 0.0))
        severity = verdict.severity_of(chain.cause, lost_share)
        return replace(
            chain,
            severity=min(severity, Severity.MEDIUM) if chain.is_chronic else severity,
            slowdown=summary.slowdown(found),
            lost_share=lost_share,
            contribution=contribution,
            shares=summary.parts_of_whole(chain.cause, reason.shares) if reason else chain.shares,
            culprits=chain.culprits if chain.cause in OF_THE_JOB else summary.culprits(span, chain.cause),
            peer=reason.peer if reason and reason.cause is chain.cause else chain.peer,
        )

    def _replace_cause(self, whole: Span, found: Findings, reason: Verdict) -> Transition:
        """The host was ruled out too soon: its lost time explains the episode by now. It stays the same chain."""
        lost_share = summary.lost_share(found, reason.cause, reason.contribution)
        self._worst = whole
        self.chain = replace(
            self.chain,
            cause=reason.cause,
            effect=reason.effect,
            severity=verdict.severity_of(reason.cause, lost_share),
            updated_ns=whole.now.now_ns,
            slowdown=summary.slowdown(found),
            lost_share=lost_share,
            contribution=reason.contribution,
            shares=summary.parts_of_whole(reason.cause, reason.shares),
            culprits=summary.culprits(whole, reason.cause),
            lost_ns=summary.lost_ns(whole, reason.cause, lost_share),
            detail="",
            now=None,
        )
        return Transition(Change.ESCALATED, self.chain)


def _present(chain: Chain, worst_share: float) -> Present:
    """chain: with the figures of now."""
    return Present(min(chain.lost_share, worst_share), chain.slowdown, chain.culprits)
