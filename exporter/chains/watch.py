"""Is there something wrong with this process, since when, and is it over? One episode at a time.

In: what was seen of it at every tick. Out: Transitions of its chain.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Set
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

from exporter.accounting.naming import NOBODY
from exporter.chains import extent, verdict
from exporter.chains.chain import Cause, Chain, Change, Effect, End, Severity, Transition
from exporter.chains.change import ChangeTest
from exporter.chains.ranks import Missing
from exporter.chains.span import Seen, Span
from exporter.chains.thresholds import (
    ALLOWANCE,
    CALM_NS,
    CHRONIC_NS,
    CHRONIC_SHARE,
    FADED_SHARE,
    HANG_NS,
    HANG_STEPS,
    JUDGED_MAX_NS,
    JUDGED_MOMENTS,
    JUDGED_NS,
    LASTING_NS,
    MAIN_SHARE,
    NEW_NORMAL_NS,
    NOT_HOST_STEPS,
    OVER_SHARE,
    OVERTAKING,
    RECENT_NS,
    SPREADS_ALLOWED,
    STUCK_NS,
    UNKNOWN_HANG_NS,
    UNSTEADY_ABOVE,
    UNSTEADY_BELOW,
    WINDOW_NS,
)
from exporter.chains.usual import Usual
from exporter.chains.verdict import OF_THE_HOST, Findings, Verdict

_KEPT_CULPRITS = 5

CallTimes = Callable[[], Mapping[Effect, int]]
"""Nanoseconds that a process has spent in calls of each kind so far. Asked for when it matters: it is a reading of its own."""

Waited = Callable[[Span], Mapping[str, int]]
"""By rank, nanoseconds that a process waited for it in a span."""


class _Spent(NamedTuple):
    """In calls of each kind, up to a moment."""

    at: Seen
    times_ns: Mapping[Effect, int]


class Watch:
    """Of one process. new_id: makes the id of a chain."""

    def __init__(self, process: int, new_id: Callable[[], str]) -> None:
        self._process = process
        self._new_id = new_id
        self._usual = Usual()
        self._change = ChangeTest()
        self._seen: deque[Seen] = deque()  # what a verdict looks back on
        self._marks: deque[Seen] = deque()  # one a second, the last CHRONIC_NS
        self._learning: Seen | None = None  # where the window begins of which the usual is made
        self._began: Seen | None = None  # where the open chain begins
        self._core: Span | None = None  # of the open chain, while it is as bad as it is on the whole
        self._calm_since_ns = 0
        self._spent: _Spent | None = None  # in calls, when the alarm came
        self.chain: Chain | None = None
        self.is_undecided = False
        self.is_stuck = False

    @property
    def has_rhythm(self) -> bool:
        """Whether it is known how long its steps usually take."""
        return self._usual.is_known and self._usual.step_ns > 0

    @property
    def communicators(self) -> Set[int]:
        """The hashes of those that it is in."""
        return self._seen[-1].collectives.keys() if self._seen else frozenset()

    def see(self, seen: Seen) -> None:
        """What is known at a tick."""
        if self._seen:
            seen = seen._replace(late_ns=self._seen[-1].late_ns)
            if self._usual.is_known:
                seen = seen._replace(late_ns=seen.late_ns + self._excess_ns(Span(self._seen[-1], seen)))
            if self.chain is None and self._usual.is_known:
                self._try(Span(self._seen[-1], seen))
        self._keep(seen)
        self._learn(seen)
        if not self._marks or seen.now_ns - self._marks[-1].now_ns >= WINDOW_NS:
            self._marks.append(seen)
        while len(self._marks) > 2 and seen.now_ns - self._marks[1].now_ns >= CHRONIC_NS:
            self._marks.popleft()

    def update(self, waited: Waited, missing: Missing | None, call_times: CallTimes) -> Transition | None:
        """What follows from it. missing: this process is, in a collective."""
        seen = self._seen[-1]
        self.is_undecided = seen.standing.undecided_ns > ALLOWANCE * WINDOW_NS
        self.is_stuck = self._is_stuck(seen)
        if missing is not None and self._is_hang(missing, seen.now_ns):
            return self._hang(missing, seen)
        if missing is not None and self.chain is None and self._has_stood_still(missing.since_ns, seen):
            return None  # it may be on its way, or never come: the next seconds tell
        if self.chain is not None:
            return self._follow(self.chain, seen, waited)
        if not self._change.is_alarm:
            self._spent = None
            return self._complain(seen, waited)
        self._spent = self._spent or _Spent(seen, call_times())
        return self._suspect(seen, waited, call_times)

    def span(self, like: Span) -> Span:
        """Between the same two moments, as far as this process is known."""
        return Span(self._since(like.then.now_ns), self._since(like.now.now_ns))

    def end(self, now_ns: int) -> Transition | None:
        """The process has ended."""
        return None if self.chain is None else self._resolve(self.chain, now_ns, End.JOB_ENDED)

    def _keep(self, seen: Seen) -> None:
        """As much as a verdict needs, and of that only so many moments: steps may take minutes."""
        judged_ns = max(JUDGED_NS, min(4 * NOT_HOST_STEPS * self._pace_ns(), JUDGED_MAX_NS))
        if len(self._seen) > 1:
            last, before = self._seen[-1], self._seen[-2]
            # Of a rest its begin and its end are enough.
            is_rest = before[1:3] == last[1:3] == seen[1:3]
            if is_rest or seen.now_ns - before.now_ns < judged_ns / JUDGED_MOMENTS:
                self._seen.pop()
        self._seen.append(seen)
        while len(self._seen) > 2 and seen.now_ns - self._seen[1].now_ns >= judged_ns:
            self._seen.popleft()

    def _learn(self, seen: Seen) -> None:
        """What is usual, while nothing is wrong: of a second at the least, and a step where there are steps."""
        if self.chain is not None or not self._change.is_calm:
            self._learning = None
            return
        self._learning = self._learning or seen
        window = Span(self._learning, seen)
        if window.wall_ns >= WINDOW_NS and (window.steps or not seen.standing.step_began_ns):
            self._usual.see(window)
            self._learning = seen

    def _pace_ns(self) -> int:
        """A usual step; 0 without a rhythm."""
        return round(self._usual.step_ns) if self.has_rhythm else 0

    def _recent(self, seen: Seen, least_ns: int = WINDOW_NS) -> Span:
        """So long, and two steps at the least."""
        return Span(self._since(seen.now_ns - max(least_ns, 2 * self._pace_ns())), seen)

    def _is_stuck(self, seen: Seen) -> bool:
        """Whether no step has ended for two ticks, in a job that makes many: what threads do is booked when they go on."""
        if not self.has_rhythm or not (self._change.is_alarm or self.chain is not None):
            return False
        before = self._since(seen.now_ns - STUCK_NS)
        return before.standing.steps == seen.standing.steps and self._usual.step_ns * 2 < STUCK_NS

    def _has_stood_still(self, since_ns: int, seen: Seen) -> bool:
        """For two usual steps or more."""
        is_long = self.has_rhythm and seen.now_ns - since_ns > 2 * self._pace_ns()
        return is_long and self._since(since_ns).standing.steps == seen.standing.steps

    def _is_hang(self, missing: Missing, now_ns: int) -> bool:
        for_ns = now_ns - missing.since_ns
        if not self.has_rhythm:
            return for_ns >= UNKNOWN_HANG_NS
        return for_ns >= max(HANG_NS, HANG_STEPS * self._usual.step_ns)

    def _hang(self, missing: Missing, seen: Seen) -> Transition | None:
        """The others wait for this process, and it does not come."""
        open_chain = self.chain
        if open_chain is not None and open_chain.cause is Cause.NCCL_HANG:
            self.chain = replace(open_chain, updated_ns=seen.now_ns)
            return None
        self._began = self._began or self._since(missing.since_ns)
        self._calm_since_ns = 0
        self.chain = Chain(
            id=open_chain.id if open_chain else self._new_id(),
            process=self._process,
            cause=Cause.NCCL_HANG,
            effect=Effect.COLLECTIVE,
            severity=Severity.CRITICAL,
            began_ns=missing.since_ns,
            opened_ns=open_chain.opened_ns if open_chain else seen.now_ns,
            updated_ns=seen.now_ns,
            slowdown=None,
            usual_step_ns=round(self._usual.step_ns),
            lost_share=1.0,
            contribution=1.0,
            peer=str(missing.rank),
        )
        return Transition(Change.ESCALATED if open_chain else Change.OPENED, self.chain)

    def _excess_ns(self, span: Span) -> float:
        """Lost against the usual."""
        slower = span.slower(self._usual.step_ns) if self._usual.step_ns else None
        if slower is not None:
            return slower * span.wall_ns
        return span.lost_of_all_ns() - self._usual.lost_of_all * span.wall_ns

    def _since(self, began_ns: int) -> Seen:
        """The latest moment not after this one, or the first that is known; within a rest this one itself."""
        later = self._seen[-1]
        for seen in reversed(self._seen):
            if seen.now_ns <= began_ns:
                return _at(began_ns, seen, later) if seen.standing == later.standing else seen
            later = seen
        return later

    def _is_steady(self, span: Span, tick: Span) -> bool:
        """Whether it is as slow now, and was so in the later half of it, as it was on the whole."""
        middle = self._since(span.then.now_ns + span.wall_ns // 2)
        return all(
            UNSTEADY_BELOW <= one.late_share / span.late_share <= UNSTEADY_ABOVE
            for one in (tick, Span(middle, span.now))
        )

    def _allowed(self) -> float:
        return max(ALLOWANCE, SPREADS_ALLOWED * self._usual.spread)

    def _suspect(self, seen: Seen, waited: Waited, call_times: CallTimes) -> Transition | None:
        """It is slower: is that going on, and why?"""
        recent = self._recent(seen)
        if recent.late_share < self._allowed():
            self._change.reset()
            return None
        began = self._since(self._change.began_ns)
        if Span(began, seen).late_ns < LASTING_NS:
            return None
        began = self._begin(began, seen, seen.now_ns)
        span = Span(began, seen)
        found = verdict.find(span, self._usual, waited(span))
        reason = verdict.judge(found)
        if reason is not None and reason.cause is Cause.NOT_HOST:
            tick = Span(self._seen[-2], seen)
            if not recent.steps or not self._is_steady(span, tick):
                return None  # a pause that goes on, or is over, or a fault that begins: slow steps are as slow in every tick
            reason = verdict.by_calls(reason, found, self._grown(seen, call_times()))
        if reason is None:
            if verdict.is_another_phase(found) and not found.lost:
                self._usual.forget()
                self._change.reset()
            return None
        return self._open(began, seen, found, reason)

    def _begin(self, earliest: Seen, seen: Seen, latest_ns: int) -> Seen:
        """The likeliest begin of what is lost up to now, which is enough to be told."""
        latest_ns = min(latest_ns, seen.now_ns - max(2 * self._pace_ns(), 1))  # half a step loses nothing, or all of it
        later = [one for one in self._seen if earliest.now_ns < one.now_ns <= latest_ns]
        return extent.begin([earliest, *later], seen, LASTING_NS)

    def _grown(self, seen: Seen, times_ns: Mapping[Effect, int]) -> dict[Effect, float]:
        """Time in calls since the alarm, beyond what as many steps usually spend there; as parts of the wall time."""
        assert self._spent is not None  # noqa: S101 - there was an alarm
        then, spent_ns = self._spent
        span = Span(then, seen)
        usual_steps = max(then.standing.steps, 1)
        return {
            effect: (ns - spent_ns.get(effect, 0) - spent_ns.get(effect, 0) * span.steps / usual_steps) / span.wall_ns
            for effect, ns in times_ns.items()
        }

    def _complain(self, seen: Seen, waited: Waited) -> Transition | None:
        """It was never better, and that is the host's doing."""
        began = self._marks[0]
        if seen.now_ns - began.now_ns < CHRONIC_NS:
            return None
        span = Span(began, seen)
        if span.lost_of_all_ns() < CHRONIC_SHARE * span.wall_ns:
            return None
        found = verdict.find(span, self._usual, waited(span), is_chronic=True)
        reason = verdict.judge(found)
        if reason is None or found.lost.get(reason.cause, 0.0) < CHRONIC_SHARE:
            return None
        return self._open(began, seen, found, reason, is_chronic=True)

    def _open(
        self, began: Seen, seen: Seen, found: Findings, reason: Verdict, *, is_chronic: bool = False
    ) -> Transition:
        self._began, self._calm_since_ns = began, 0
        self._core = Span(began, seen)
        lost_share = _lost_share(found, reason.cause)
        severity = verdict.severity_of(reason.cause, lost_share, reason.contribution)
        self.chain = Chain(
            id=self._new_id(),
            process=self._process,
            cause=reason.cause,
            effect=reason.effect,
            severity=min(severity, Severity.MEDIUM) if is_chronic else severity,
            began_ns=began.now_ns,
            opened_ns=seen.now_ns,
            updated_ns=seen.now_ns,
            slowdown=_slowdown(found),
            usual_step_ns=round(self._usual.step_ns),
            lost_share=lost_share,
            contribution=reason.contribution,
            shares=reason.shares,
            culprits=_culprits(Span(began, seen), reason.cause),
            peer=reason.peer,
            is_chronic=is_chronic,
            lost_ns=_lost_ns(Span(began, seen), reason.cause),
        )
        return Transition(Change.OPENED, self.chain)

    def _follow(self, chain: Chain, seen: Seen, waited: Waited) -> Transition | None:
        """How bad is it now, and is it over?"""
        assert self._began is not None  # noqa: S101 - a chain is open
        whole = Span(self._began, seen)
        recent = min(self._recent(seen), whole, key=lambda span: span.wall_ns)
        if not chain.is_chronic and (worse := self._worse(chain, whole, waited)):
            return self._give_way(chain, worse)
        if self._is_calm(chain, recent, waited):
            core_end_ns = self._core.now.now_ns if self._core else 0
            self._calm_since_ns = self._calm_since_ns or max(recent.then.now_ns, core_end_ns)
            if seen.now_ns - self._calm_since_ns >= max(CALM_NS, 2 * self._pace_ns()):
                return self._resolve(chain, self._calm_since_ns, End.RECOVERED)
            return None
        self._calm_since_ns = 0
        if chain.cause is Cause.NOT_HOST and seen.now_ns - chain.began_ns >= NEW_NORMAL_NS:
            return self._resolve(chain, seen.now_ns, End.NEW_NORMAL)
        if self._is_young(chain, whole):
            whole = Span(self._begin(self._began, seen, chain.opened_ns), seen)
            self._began, self._core = whole.then, self._core and Span(whole.then, self._core.now)
        if self._core is None or chain.is_chronic or extent.likelihood(whole) >= extent.likelihood(self._core):
            self._core = whole
        latest = self._recent(seen, RECENT_NS)
        found = verdict.find(whole, self._usual, waited(whole), is_chronic=chain.is_chronic)
        now = verdict.find(latest, self._usual, waited(latest), is_chronic=chain.is_chronic)
        reason = verdict.judge(found)
        for known in (found, now) if chain.cause is Cause.NOT_HOST else ():
            guilty = verdict.judge(known)
            if guilty is not None and guilty.cause in OF_THE_HOST:
                return self._convict(chain, seen, known, guilty)
        contribution = verdict.contribution_of(chain.cause, reason) if reason else chain.contribution
        severity = verdict.severity_of(chain.cause, _lost_share(now, chain.cause), max(contribution, MAIN_SHARE))
        if chain.is_chronic:
            severity = min(severity, Severity.MEDIUM)
        core = verdict.find(self._core, self._usual, waited(self._core), is_chronic=chain.is_chronic)
        self.chain = replace(
            chain,
            severity=max(severity, chain.severity),
            began_ns=whole.then.now_ns,
            updated_ns=seen.now_ns,
            slowdown=_slowdown(core),
            lost_share=_lost_share(core, chain.cause),
            contribution=contribution,
            shares=reason.shares if reason else chain.shares,
            culprits=_culprits(whole, chain.cause),
            lost_ns=_lost_ns(whole, chain.cause),
            peer=reason.peer if reason and reason.peer else chain.peer,
        )
        return Transition(Change.ESCALATED, self.chain) if severity > chain.severity else None

    def _is_young(self, chain: Chain, whole: Span) -> bool:
        """Whether what came before it is still known, so that its begin may be seen more clearly now than when it was opened."""
        is_known = self._seen[0].now_ns <= whole.then.now_ns
        return is_known and not chain.is_chronic and whole.late_ns >= LASTING_NS

    def _worse(self, chain: Chain, whole: Span, waited: Waited) -> Span | None:
        """The last moments, where the job is much slower than it was before and something else of the host is the reason."""
        latest = self._recent(whole.now, RECENT_NS)
        before = Span(whole.then, latest.then)
        if before.now.now_ns <= before.then.now_ns:
            return None
        if latest.late_share < OVERTAKING * before.late_share:
            return None
        reason = verdict.judge(verdict.find(latest, self._usual, waited(latest)))
        return latest if reason is not None and reason.cause in OF_THE_HOST.keys() - {chain.cause} else None

    def _give_way(self, chain: Chain, worse: Span) -> Transition:
        """Another episode has begun, which is counted from its own begin."""
        moments = [one for one in self._seen if worse.then.now_ns <= one.now_ns < worse.now.now_ns]
        began = extent.begin(moments, worse.now, 0)
        transition = self._resolve(chain, began.now_ns, End.RECOVERED)
        for then, now in pairwise(one for one in self._seen if one.now_ns >= began.now_ns):
            self._try(Span(then, now))
        return transition

    def _try(self, tick: Span) -> None:
        """Whether this tick makes a change more likely."""
        self._change.see(tick.late_ns, tick.wall_ns, tick.now.now_ns, spread=self._usual.spread)

    def _convict(self, chain: Chain, seen: Seen, found: Findings, reason: Verdict) -> Transition:
        """The host was acquitted too soon: what is known by now explains it, or what goes on. It is the same episode."""
        assert self._began is not None  # noqa: S101 - a chain is open
        lost_share = _lost_share(found, reason.cause)
        severity = verdict.severity_of(reason.cause, lost_share, reason.contribution)
        whole = Span(self._began, seen)
        self.chain = replace(
            chain,
            cause=reason.cause,
            effect=reason.effect,
            severity=max(severity, chain.severity),
            updated_ns=seen.now_ns,
            slowdown=_slowdown(found),
            lost_share=lost_share,
            contribution=reason.contribution,
            shares=reason.shares,
            culprits=_culprits(whole, reason.cause),
            lost_ns=_lost_ns(whole, reason.cause),
        )
        return Transition(Change.ESCALATED, self.chain)

    def _is_calm(self, chain: Chain, recent: Span, waited: Waited) -> bool:
        """Whether it is over, or something else is the reason by now."""
        if chain.is_chronic:
            return recent.lost_of_all_ns() < CHRONIC_SHARE / 2 * recent.wall_ns
        if recent.late_share < max(self._allowed(), FADED_SHARE * (self._core.late_share if self._core else 0.0)):
            return True
        found = verdict.find(recent, self._usual, waited(recent))
        return verdict.part_of(chain.cause, found) < OVER_SHARE * found.total

    def _resolve(self, chain: Chain, resolved_ns: int, end: End) -> Transition:
        self.chain = self._began = self._core = None
        self._change.reset()
        self._marks.clear()
        self._marks.append(self._seen[-1])
        if end is End.NEW_NORMAL:
            self._usual.forget()
        return chain.resolved(resolved_ns, end)


def _at(now_ns: int, before: Seen, after: Seen) -> Seen:
    """Within a rest, between two moments."""
    part = (now_ns - before.now_ns) / max(after.now_ns - before.now_ns, 1)
    return before._replace(now_ns=now_ns, late_ns=before.late_ns + part * (after.late_ns - before.late_ns))


def _lost_share(found: Findings, cause: Cause) -> float:
    """Of the feeding timeline: what the host lost, or, where that is not the reason, what steps took longer."""
    of_the_host = cause in OF_THE_HOST
    return min(max(found.lost_of_all if of_the_host else found.total, 0.0), 1.0)


def _lost_ns(span: Span, cause: Cause) -> int:
    """To this cause, the usual included."""
    of = OF_THE_HOST.get(cause)
    return sum(ns for (lost_to, _), ns in span.lost_ns().items() if lost_to is of)


def _slowdown(found: Findings) -> float | None:
    """1.0 for twice as long."""
    if found.slower is None or found.slower >= 1.0:
        return None
    return max(1.0 / (1.0 - found.slower) - 1.0, 0.0)


def _culprits(span: Span, cause: Cause) -> tuple[tuple[str, float], ...]:
    """Of the time of this cause in a span, largest first."""
    of = OF_THE_HOST.get(cause)
    charged: dict[str, int] = {}
    for (lost_to, culprit), ns in span.lost_ns().items():
        if lost_to is of and culprit != NOBODY:
            charged[culprit] = charged.get(culprit, 0) + ns
    whole = sum(charged.values())
    largest = sorted(charged.items(), key=lambda item: -item[1])[:_KEPT_CULPRITS]
    return tuple((culprit, ns / whole) for culprit, ns in largest)
