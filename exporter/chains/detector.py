"""Detects slow steps of one process, and follows its open chains: one for each cause.

In: the state of the process at every tick. Out: Transitions of its chains.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from exporter.causes import Cause
from exporter.chains import findings, summary, verdict
from exporter.chains.balance import Balance
from exporter.chains.baseline import LastingChange
from exporter.chains.chain import Chain, Change, End, Transition
from exporter.chains.cusum import Cusum
from exporter.chains.episode import Episode, Waited
from exporter.chains.findings import Findings
from exporter.chains.gpu import DeviceSide
from exporter.chains.hitches import Hitches
from exporter.chains.idle import IdleTime
from exporter.chains.span import ProcessState, Span
from exporter.chains.span_buffer import SpanBuffer
from exporter.chains.spending import Grown, Spending, Spent, SpentBefore
from exporter.chains.thresholds import (
    ALLOWANCE,
    CHRONIC_NS,
    CHRONIC_SHARE,
    FADED_SHARE,
    LASTING_CHANGE_NS,
    LASTING_NS,
    WINDOW_NS,
)
from exporter.chains.verdict import Verdict
from exporter.chains.window import Level


class Readings(NamedTuple):
    """Readings of a process that are made only when a verdict needs them.

    spending: so far. device_side: state of its GPUs between two moments of CLOCK_MONOTONIC. slow_peer: a rank of its
    communicators that has an open chain, "" without one.
    """

    spending: Callable[[], Spending]
    device_side: Callable[[int, int], DeviceSide]
    slow_peer: Callable[[], str]


class Detector:
    """Detector of one process. new_id: makes ids of chains. balance: gets every tick. episodes: its open chains, oldest first."""

    def __init__(self, process: int, new_id: Callable[[], str], balance: Balance | None = None) -> None:
        self._process = process
        self._new_id = new_id
        self._past = SpanBuffer(balance)
        self._cusum = Cusum()
        self._hitches = Hitches()
        self._idle = IdleTime()
        self._spent = SpentBefore()
        self.episodes: list[Episode] = []
        self._expected: Level | None = None  # what the job is like without anything new; None until that is known
        self.is_undecided = False
        self.is_stuck = False

    @property
    def chains(self) -> list[Chain]:
        """The open ones."""
        return [episode.chain for episode in self.episodes]

    @property
    def has_rhythm(self) -> bool:
        """Whether the baseline of its steps is known."""
        return self._past.has_rhythm

    @property
    def last(self) -> ProcessState:
        return self._past.last

    @property
    def pace_ns(self) -> int:
        """Baseline of a step; 0 without a rhythm."""
        return self._past.pace_ns

    @property
    def ranks(self) -> Mapping[int, int]:
        """Its rank in each communicator, by hash."""
        return self._past.ranks

    def span(self, like: Span) -> Span:
        """The same span, as far as this process is known."""
        return Span(self._past.since(like.then.now_ns), self._past.since(like.now.now_ns))

    def since(self, began_ns: int) -> Span:
        return Span(self._past.since(began_ns), self._past.last)

    def add(self, seen: ProcessState) -> None:
        """Update at a tick."""
        past = self._past
        seen, is_new = self._idle.add(seen, may_begin=past.is_varied and not self.episodes)
        if is_new:
            past.forget()
            self._cusum, self._spent = Cusum(), SpentBefore()
        tick = past.add(seen)
        self._expected = self._level_until_now() if self.episodes else past.usual.level
        if tick is not None and self._expected is not None:
            excess_ns = tick.late_ns - self._expected.late * tick.wall_ns
            self._cusum.add(excess_ns, tick.wall_ns, seen.now_ns, spread=self._spread)
        is_quiet = not self.episodes and self._cusum.is_calm
        past.learn(is_quiet=is_quiet, is_suspect=self._cusum.is_suspect)

    def update(
        self, waited: Waited, readings: Readings, *, is_in_doubt: bool = False, awaited_since_ns: int = 0
    ) -> list[Transition]:
        """Transitions of this tick. is_in_doubt: it stands still, or may do so. awaited_since_ns: since when other ranks' open
        chains name it as the rank they wait for; 0 without one.
        """
        seen = self._past.last
        self.is_undecided = seen.progress.undecided_ns > ALLOWANCE * WINDOW_NS
        self.is_stuck = (self._cusum.is_alarm or bool(self.episodes)) and self._past.is_stuck
        transitions = self._follow(waited)
        if is_in_doubt:
            return transitions
        if awaited_since_ns and not self.episodes:
            self._cusum.start_at(awaited_since_ns)
        if self._cusum.is_alarm:
            self._spent.alarm(seen, readings.spending)
            return transitions + self._check_alarm(waited, readings)
        if self.has_rhythm and not self.episodes:
            (self._spent.quiet if self._cusum.is_calm else self._spent.alarm)(seen, readings.spending)
        return transitions + (self._check_hitches(waited, readings) or self._check_chronic(waited))

    def lasting_change(self) -> LastingChange | None:
        """At the one tick at which another regime has lasted for a minute."""
        return None if self.episodes else self._past.baseline.lasting_change(self._past.last.now_ns)

    def end(self, now_ns: int) -> list[Transition]:
        """Resolve the open chains: the process has ended."""
        return [episode.resolve(now_ns, End.JOB_ENDED) for episode in self.episodes]

    # ---- slow steps

    def _level_until_now(self) -> Level | None:
        """What the job is like with the open chains, without what may have come on top; None while that is unknown."""
        baseline, now_ns = self._past.baseline, self._past.last.now_ns
        before = baseline.level_before(self._cusum.began_ns) if self._cusum.is_suspect else None
        return before or baseline.level_before(now_ns)

    @property
    def _spread(self) -> float:
        expected = self._expected.spread if self._expected else 0.0
        return max(self._past.usual.spread, expected)

    def _check_alarm(self, waited: Waited, readings: Readings) -> list[Transition]:
        """After an alarm: whether it lasts, and why."""
        past, late_before = self._past, self._expected.late if self._expected else 0.0
        recent, span = past.recent(), Span(past.since(self._cusum.began_ns), past.last)
        if recent.late_share - late_before < past.allowed(self._spread):
            if recent.late_share - late_before < FADED_SHARE * (span.late_share - late_before):
                self._hitches.add(span.then, past.last.now_ns)
                self._cusum.reset()
            return []
        whole, span = span, Span(past.onset(span.then, past.last.now_ns, late_before), past.last)
        # In a job that is a little slower, this takes longer than a verdict looks back.
        lost_ns = self._cusum.lost_ns if span.wall_ns > whole.wall_ns / 2 else 0.0
        if max(span.late_ns - late_before * span.wall_ns, lost_ns) < LASTING_NS:
            return []
        before = past.baseline.level_before(span.then.now_ns) or (None if not self.episodes else self._expected)
        found = findings.find(span, past.usual, waited(span), before)
        if findings.is_another_phase(found) and self._grown(readings).is_same_step(found.steps):
            found = found._replace(calls=1.0, is_resized=False)
        reason = verdict.judge(found)
        if reason is not None and reason.cause is verdict.UNDETERMINED:
            is_measured = self._spent.is_measured(past.last)
            if not is_measured or not past.recent().steps or not past.is_steady(span, late_before):
                return self._check_regime(span, found)
            reason = self._judge_job(span, found, reason, readings)
            is_for_gpu = reason is not None and reason.cause is verdict.UNDETERMINED
            if is_for_gpu and self._grown(readings).explains(found.total):
                return self._check_regime(span, found._replace(is_resized=True))
        elif reason is not None and reason.cause is Cause.OWN_WAIT and not past.goes_on(span, late_before):
            return []
        elif reason is None and findings.is_another_phase(found):
            reason = verdict.of_added_work(found, self._grown(readings))
            if reason is not None and not findings.is_evident(found):
                return []  # other calls than before, and those take longer: not another phase
        if reason is None:
            return self._check_regime(span, found)
        if any(episode.chain.cause is reason.cause for episode in self.episodes):
            self._cusum.reset()  # the open chain of this cause has become worse, and is escalated
            past.baseline.restart(span.then.now_ns)
            return []
        return [self._open(span, found, reason, before)]

    def _judge_job(self, span: Span, found: Findings, reason: Verdict, readings: Readings) -> Verdict | None:
        """The host is ruled out. None where the job was like this before, or where it is too early."""
        if not self.episodes and self._past.baseline.switch(*_pace_of(span)):
            self._restart()
            return None
        side = readings.device_side(span.then.now_ns, span.now.now_ns)
        of_job = verdict.of_the_job(reason, found, self._grown(readings), side)
        if of_job is None or of_job.cause is not verdict.UNDETERMINED:
            return of_job
        peer = readings.slow_peer()
        if peer:
            return verdict.of_peer(of_job, peer)
        return None if self.episodes else of_job  # beside another fault, what is left unexplained is not evidence

    def _check_regime(self, span: Span, found: Findings) -> list[Transition]:
        """No fault explains the steps up to now: they may be what is normal from now on. Never a transition."""
        past = self._past
        if self.episodes or not past.tick.steps:
            return []  # while none ends it is unknown what the open step is made of, and its lost time may not be accounted yet
        if findings.is_other_work(found):
            if past.baseline.leave(*_pace_of(span), is_certain=findings.is_certain_phase(found)):
                self._restart()
        elif past.last.now_ns - self._cusum.began_ns >= LASTING_CHANGE_NS and past.baseline.adopt():
            self._restart()
        return []

    def _grown(self, readings: Readings) -> Grown:
        return self._spent.grown(Spent(self._past.last, readings.spending()))

    def _check_hitches(self, waited: Waited, readings: Readings) -> list[Transition]:
        """Pauses that come again and again, each over before a verdict."""
        past, first = self._past, self._hitches.since(self._past.last.now_ns)
        if first is None or self.episodes or not self.has_rhythm:
            return []
        span = Span(first, past.last)
        found = findings.find(span, past.usual, waited(span))
        if found.slower is None or found.slower < found.least_of_job:
            return []
        reason = verdict.judge(found)
        if reason is not None and reason.cause is verdict.UNDETERMINED:
            side = readings.device_side(span.then.now_ns, span.now.now_ns)
            reason = verdict.of_the_job(reason, found, self._grown(readings), side)
        return [self._open(span, found, reason, None, rest_ns=2 * self._hitches.rest_ns)] if reason else []

    def _check_chronic(self, waited: Waited) -> list[Transition]:
        """It was never better, because of the host. A job without calls or steps may have nothing to do."""
        span = self._past.long
        if self.episodes or span.now.now_ns - span.then.now_ns < CHRONIC_NS or not (span.calls or span.steps):
            return []
        if span.lost_of_all_ns() < CHRONIC_SHARE * span.wall_ns:
            return []
        found = findings.find(span, self._past.usual, waited(span), is_chronic=True)
        reason = verdict.judge(found)
        if reason is None or found.lost.get(reason.cause, 0.0) < CHRONIC_SHARE:
            return []
        if not span.steps and reason.cause in verdict.OF_OTHERS:
            return []  # a server that waits for requests looks like this
        return [self._open(span, found, reason, None, is_chronic=True)]

    # ---- chains

    def _open(
        self,
        span: Span,
        found: Findings,
        reason: Verdict,
        before: Level | None,
        *,
        is_chronic: bool = False,
        rest_ns: int = 0,
    ) -> Transition:
        usual_step_ns = self._past.usual.step_ns
        chain = summary.opened(
            self._new_id(), self._process, span, found, reason, usual_step_ns=usual_step_ns, is_chronic=is_chronic
        )
        is_on_top = bool(self.episodes)
        self.episodes.append(Episode(self._past, chain, span.then, before, is_on_top=is_on_top, rest_ns=rest_ns))
        self._cusum.reset()
        self._hitches.clear()
        self._past.baseline.restart(span.then.now_ns)
        return Transition(Change.OPENED, chain)

    def _follow(self, waited: Waited) -> list[Transition]:
        """Transitions of the open chains."""
        transitions: list[Transition] = []
        for episode in list(self.episodes):
            followed = episode.follow(waited, is_alone=len(self.episodes) == 1)
            if followed is None:
                continue
            if followed.change is Change.RESOLVED:
                self._close(episode, followed.chain.end)
            transitions.append(followed)
        return transitions

    def _close(self, episode: Episode, end: End | None) -> None:
        self.episodes.remove(episode)
        if end is End.CHANGED:
            self._past.baseline.adopt(is_fault=True)
        self._restart()

    def _restart(self) -> None:
        """What comes is not judged against what was before."""
        self._cusum.reset()
        self._spent.restart()
        self._past.restart()


def _pace_of(span: Span) -> tuple[float, float]:
    """Length of a step in nanoseconds, calls in a step."""
    return span.steps_ns / max(span.steps, 1), span.calls_per_step
