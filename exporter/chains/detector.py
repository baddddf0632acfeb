"""Detects slow, stuck and hanging steps of one process, one episode at a time.

In: the state of the process at every tick. Out: Transitions of its chain.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from exporter.causes import Cause
from exporter.chains import summary, verdict
from exporter.chains.chain import Chain, Change, End, Severity, Transition
from exporter.chains.cusum import Cusum
from exporter.chains.episode import Episode, Waited, hang_of
from exporter.chains.gpu import DeviceSide
from exporter.chains.ranks import Missing
from exporter.chains.span import ProcessState, Span
from exporter.chains.span_buffer import SpanBuffer
from exporter.chains.spending import Grown, Spending, Spent, grown
from exporter.chains.thresholds import (
    ALLOWANCE,
    CHRONIC_NS,
    CHRONIC_SHARE,
    FADED_SHARE,
    HANG_NS,
    HANG_STEPS,
    LASTING_NS,
    STUCK_NS,
    UNKNOWN_HANG_NS,
    UNSTEADY_ABOVE,
    UNSTEADY_BELOW,
    WINDOW_NS,
)
from exporter.chains.verdict import Findings, Verdict


class Readings(NamedTuple):
    """Readings of a process that are made only when a verdict needs them.

    spending: so far. device_side: state of its GPUs between two moments of CLOCK_MONOTONIC.
    """

    spending: Callable[[], Spending]
    device_side: Callable[[int, int], DeviceSide]


class Detector:
    """Detector of one process. new_id: makes ids of chains."""

    def __init__(self, process: int, new_id: Callable[[], str]) -> None:
        self._process = process
        self._new_id = new_id
        self._past = SpanBuffer()
        self._cusum = Cusum()
        self._episode: Episode | None = None
        self._baseline_spent: Spent | None = None  # since when spending counts as baseline
        self._spent: Spent | None = None  # when the alarm was raised
        self.is_undecided = False
        self.is_stuck = False

    @property
    def chain(self) -> Chain | None:
        return self._episode.chain if self._episode else None

    @property
    def has_rhythm(self) -> bool:
        """Whether the baseline of its steps is known."""
        return self._past.has_rhythm

    @property
    def ranks(self) -> Mapping[int, int]:
        """Its rank in each communicator, by hash."""
        return self._past.ranks

    def add(self, seen: ProcessState) -> None:
        """Update at a tick."""
        tick = self._past.add(seen)
        if tick is not None and self._episode is None:
            self._add_to_cusum(tick)
        is_quiet = self._episode is None and self._cusum.is_calm
        self._past.learn(is_quiet=is_quiet, is_suspect=self._cusum.is_suspect)

    def update(
        self, waited: Waited, missing: Missing | None, readings: Readings, *, awaited_since_ns: int = 0
    ) -> Transition | None:
        """Transitions of this tick. missing: a collective that this process has not entered. awaited_since_ns: since when other
        ranks' open chains name it as the rank they wait for; 0 without one.
        """
        seen = self._past.last
        self.is_undecided = seen.progress.undecided_ns > ALLOWANCE * WINDOW_NS
        self.is_stuck = self._is_stuck(seen)
        if missing is not None and self._is_hang(missing, seen.now_ns):
            return self._episode.hang(missing) if self._episode else self._open_hang(missing)
        if self._episode is not None:
            return self._follow(self._episode, waited)
        if missing is not None and self._has_stood_still(missing.since_ns, seen):
            return None  # it may be late or never come: the next seconds decide
        if awaited_since_ns:
            self._cusum.start_at(awaited_since_ns)
        if not self._cusum.is_alarm:
            self._spent = None
            if self._baseline_spent is None and self.has_rhythm:
                self._baseline_spent = Spent(seen, readings.spending())
            return self._check_chronic(waited)
        self._spent = self._spent or Spent(seen, readings.spending())
        return self._check_alarm(waited, readings)

    def span(self, like: Span) -> Span:
        """The same span, as far as this process is known."""
        return Span(self._past.since(like.then.now_ns), self._past.since(like.now.now_ns))

    def end(self, now_ns: int) -> Transition | None:
        """Resolve the open chain: the process has ended."""
        return None if self._episode is None else self._close(self._episode.resolve(now_ns, End.JOB_ENDED))

    # ---- slow steps

    def _add_to_cusum(self, tick: Span) -> None:
        """Whether this tick adds to the sum."""
        self._cusum.add(tick.late_ns, tick.wall_ns, tick.now.now_ns, spread=self._past.usual.spread)

    def _check_alarm(self, waited: Waited, readings: Readings) -> Transition | None:
        """After an alarm: whether it lasts, and why."""
        past = self._past
        recent, span = past.recent(), Span(past.since(self._cusum.began_ns), past.last)
        if recent.late_share < past.allowed:
            if recent.late_share < FADED_SHARE * span.late_share:
                self._cusum.reset()
            return None
        if max(span.late_ns, self._cusum.lost_ns) < LASTING_NS:
            return None
        span = Span(past.begin(span.then, past.last.now_ns), past.last)
        found = verdict.find(span, past.usual, waited(span))
        reason = verdict.judge(found)
        if reason is not None and reason.cause is Cause.NOT_HOST:
            if not recent.steps or not self._is_steady(span):
                return None  # a pause that goes on or is over, or a fault that begins: steps of a slow job are slow in every tick
            side = readings.device_side(span.then.now_ns, span.now.now_ns)
            reason = verdict.by_gpu(reason, found, self._grown(readings.spending()), side)
        if reason is None and verdict.is_another_phase(found):
            reason = verdict.of_own_doing(found, self._grown(readings.spending()))
            if reason is not None and not verdict.is_evident(found):
                return None  # other calls than before, and those take longer: not another phase
        if reason is None:
            # While none ends it is unknown what the open step is made of, and its lost time may not be accounted yet.
            if verdict.is_another_phase(found) and not found.lost and past.tick.steps:
                past.usual.forget()
                self._baseline_spent = None
                self._cusum.reset()
            return None
        return self._open(span, found, reason)

    def _is_steady(self, span: Span) -> bool:
        """Whether it is as slow now, and in the later half, as over the whole span."""
        middle = self._past.since(span.then.now_ns + span.wall_ns // 2)
        parts = (self._past.tick, Span(middle, span.now))
        return all(UNSTEADY_BELOW <= part.late_share / span.late_share <= UNSTEADY_ABOVE for part in parts)

    def _grown(self, spending: Spending) -> Grown:
        """Nanoseconds since the alarm."""
        assert self._spent is not None  # noqa: S101 - there was an alarm
        return grown(self._baseline_spent, self._spent, Spent(self._past.last, spending))

    def _check_chronic(self, waited: Waited) -> Transition | None:
        """It was never better, because of the host. A job without calls or steps may have nothing to do."""
        span = self._past.long
        if span.now.now_ns - span.then.now_ns < CHRONIC_NS or not (span.calls or span.steps):
            return None
        if span.lost_of_all_ns() < CHRONIC_SHARE * span.wall_ns:
            return None
        found = verdict.find(span, self._past.usual, waited(span), is_chronic=True)
        reason = verdict.judge(found)
        if reason is None or found.lost.get(reason.cause, 0.0) < CHRONIC_SHARE:
            return None
        return self._open(span, found, reason, is_chronic=True)

    # ---- stuck steps

    def _is_stuck(self, seen: ProcessState) -> bool:
        """Whether no step has ended for two ticks in a job that makes many: states of threads are accounted when they end."""
        if not self.has_rhythm or not (self._cusum.is_alarm or self._episode is not None):
            return False
        before = self._past.since(seen.now_ns - STUCK_NS)
        return before.progress.steps == seen.progress.steps and self._past.pace_ns * 2 < STUCK_NS

    def _has_stood_still(self, since_ns: int, seen: ProcessState) -> bool:
        """Without a step for two baseline steps or more."""
        is_long = self.has_rhythm and seen.now_ns - since_ns > 2 * self._past.pace_ns
        return is_long and self._past.since(since_ns).progress.steps == seen.progress.steps

    def _is_hang(self, missing: Missing, now_ns: int) -> bool:
        for_ns = now_ns - missing.since_ns
        if not self.has_rhythm:
            return for_ns >= UNKNOWN_HANG_NS
        return for_ns >= max(HANG_NS, HANG_STEPS * self._past.pace_ns)

    # ---- the chain

    def _open_hang(self, missing: Missing) -> Transition:
        chain = hang_of(self._new_id(), self._past, missing, opened_ns=self._past.last.now_ns)
        self._episode = Episode(self._past, chain, self._past.since(missing.since_ns))
        return Transition(Change.OPENED, chain)

    def _open(self, span: Span, found: Findings, reason: Verdict, *, is_chronic: bool = False) -> Transition:
        lost_share = summary.lost_share(found, reason.cause)
        severity = verdict.severity_of(reason.cause, lost_share, reason.contribution)
        chain = Chain(
            id=self._new_id(),
            process=self._process,
            cause=reason.cause,
            effect=reason.effect,
            severity=min(severity, Severity.MEDIUM) if is_chronic else severity,
            began_ns=span.then.now_ns,
            opened_ns=span.now.now_ns,
            updated_ns=span.now.now_ns,
            slowdown=summary.slowdown(found),
            usual_step_ns=round(self._past.usual.step_ns),
            lost_share=lost_share,
            contribution=reason.contribution,
            shares=reason.shares,
            culprits=reason.culprits or summary.culprits(span, reason.cause),
            peer=reason.peer,
            detail=reason.detail,
            is_chronic=is_chronic,
            lost_ns=summary.lost_ns(span, reason.cause),
        )
        self._episode = Episode(self._past, chain, span.then)
        return Transition(Change.OPENED, chain)

    def _follow(self, episode: Episode, waited: Waited) -> Transition | None:
        """The open chain, or one that replaces it, counted from its own onset."""
        overtaken_ns = episode.overtaken_at(waited)
        if overtaken_ns is not None:
            transition = self._close(episode.resolve(overtaken_ns, End.RECOVERED))
            for tick in self._past.ticks(overtaken_ns):
                self._add_to_cusum(tick)
            return transition
        followed = episode.follow(waited)
        return self._close(followed) if followed is not None and followed.change is Change.RESOLVED else followed

    def _close(self, resolved: Transition) -> Transition:
        self._episode = self._baseline_spent = None
        self._cusum.reset()
        self._past.begin_anew()
        if resolved.chain.end is End.NEW_NORMAL:
            self._past.usual.forget()
        return resolved
