"""Recent states of a process, as many as a verdict needs, and its baseline.

In: a ProcessState at every tick. Out: Spans.
"""

from __future__ import annotations

from exporter.chains import change_point
from exporter.chains.balance import Balance
from exporter.chains.baseline import Baseline
from exporter.chains.regime import Regime
from exporter.chains.span import ProcessState, Span
from exporter.chains.thresholds import (
    ALLOWANCE,
    CHRONIC_NS,
    JOB_CAUSE_STEPS,
    JUDGED_MAX_NS,
    JUDGED_MOMENTS,
    JUDGED_NS,
    SPREADS_ALLOWED,
    STUCK_NS,
    UNSTEADY_ABOVE,
    UNSTEADY_BELOW,
    VARIED,
    WINDOW_NS,
    WINDOWS_KEPT,
)
from exporter.chains.window import BaselineWindow, window_of


class SpanBuffer:
    """States of one process. Before the first add() only ranks() may be called. balance: gets every tick."""

    def __init__(self, balance: Balance | None = None) -> None:
        self.baseline = Baseline()
        self._balance = balance or Balance()
        # Lists, since a node may have a thousand idle processes, and an empty deque takes 0.7 KiB.
        self._seen: list[ProcessState] = []
        self._marks: list[ProcessState] = []  # one a second, the last CHRONIC_NS
        self._opened: ProcessState | None = None  # when the current window was opened
        self._is_quiet = True  # since then
        self._withheld: list[BaselineWindow] = []  # windows that may be the onset of an episode

    # ---- adding

    def add(self, seen: ProcessState) -> Span | None:
        """Add the state at a tick. Returns the span since the last one, once the baseline is known."""
        tick = None
        if self._seen:
            seen = seen._replace(late_ns=self._seen[-1].late_ns)
            if self.usual.is_known:
                excess_ns = self._excess_ns(Span(self._seen[-1], seen))
                seen = seen._replace(late_ns=seen.late_ns + excess_ns)
                tick = Span(self._seen[-1], seen)
                self._balance.add(tick, self.usual)
        self._keep(seen)
        if not self._marks or seen.now_ns - self._marks[-1].now_ns >= WINDOW_NS:
            if len(self._marks) > 1 and self._marks[-2].progress.calls == seen.progress.calls:
                del self._marks[-1]  # two states are enough for an idle time
            self._marks.append(seen)
        while len(self._marks) > 2 and seen.now_ns - self._marks[1].now_ns >= CHRONIC_NS:
            del self._marks[0]
        return tick

    def learn(self, *, is_quiet: bool, is_suspect: bool) -> None:
        """Close windows: of at least a second, and a step where there are steps, else some calls, since idle time shows nothing
        of work. Quiet ones are added to the regime. Suspicious ones are withheld until they prove harmless, or slowness that
        comes gradually would become the baseline itself.
        """
        self._is_quiet = self._is_quiet and is_quiet
        seen = self.last
        span = Span(self._opened or seen, seen)
        if self._opened is None:
            self._opened, self._is_quiet = seen, is_quiet
        elif _is_window(span):
            window = window_of(span)
            self.baseline.record(window)
            if self._is_quiet:
                self._withheld = [*self._withheld[1 - WINDOWS_KEPT :], window]
            self._opened, self._is_quiet = seen, is_quiet
        if not is_quiet:
            self._withheld.clear()
        while self._withheld and not is_suspect:
            self.baseline.learn(self._withheld.pop(0))

    def restart(self) -> None:
        """Forget possible onsets: what comes is not judged against what was before."""
        self._marks[:] = [self.last]
        self._opened = None
        self.baseline.restart(self.last.now_ns)

    def forget(self) -> None:
        """Forget all that was seen: what comes cannot be compared with it."""
        self.baseline.forget()
        self.baseline.restart(self.last.now_ns)
        self._seen.clear()
        self._marks.clear()
        self._opened = None
        self._withheld.clear()

    def _keep(self, seen: ProcessState) -> None:
        """Keep what a verdict needs, in at most JUDGED_MOMENTS states: steps may take minutes."""
        judged_ns = max(JUDGED_NS, min(4 * JOB_CAUSE_STEPS * self.pace_ns, JUDGED_MAX_NS))
        if len(self._seen) > 1:
            last, before = self._seen[-1], self._seen[-2]
            # Two states are enough for an idle time.
            is_rest = before[1:3] == last[1:3] == seen[1:3]
            if is_rest or seen.now_ns - before.now_ns < judged_ns / JUDGED_MOMENTS:
                self._seen.pop()
        self._seen.append(seen)
        while len(self._seen) > 2 and seen.now_ns - self._seen[1].now_ns >= judged_ns:
            del self._seen[0]

    def _excess_ns(self, tick: Span) -> float:
        """Time lost against the baseline."""
        excess_ns = tick.excess_ns(self.usual.step_ns) if self.usual.step_ns else None
        if excess_ns is not None:
            return excess_ns
        return tick.lost_of_all_ns() - self.usual.lost_of_all * tick.wall_ns

    # ---- baseline

    @property
    def usual(self) -> Regime:
        """The regime that the job is in."""
        return self.baseline.usual

    @property
    def is_varied(self) -> bool:
        """Whether its seconds are not known to be alike."""
        return not self.usual.is_known or self.usual.spread >= VARIED

    @property
    def has_rhythm(self) -> bool:
        """Whether the baseline of its steps is known."""
        return self.usual.is_known and self.usual.step_ns > 0

    @property
    def pace_ns(self) -> int:
        """Baseline of a step; 0 without a rhythm."""
        return round(self.usual.step_ns) if self.has_rhythm else 0

    def allowed(self, spread: float) -> float:
        """Share of the time that may be lost without an alarm. spread: standard deviation of that share in a second."""
        return max(ALLOWANCE, SPREADS_ALLOWED * spread)

    @property
    def ranks(self) -> dict[int, int]:
        """Its rank in each communicator, by hash."""
        return {number: one.rank for number, one in self._seen[-1].collectives.items()} if self._seen else {}

    # ---- states and spans

    @property
    def last(self) -> ProcessState:
        return self._seen[-1]

    @property
    def first(self) -> ProcessState:
        """All that is kept."""
        return self._seen[0]

    @property
    def tick(self) -> Span:
        """The last tick."""
        return Span(self._seen[-2], self._seen[-1])

    @property
    def long(self) -> Span:
        """The last half minute, if it has been watched for so long without an open chain."""
        return Span(self._marks[0], self.last)

    def since(self, began_ns: int) -> ProcessState:
        """The latest state up to this moment, or the first; within an idle time one at this very moment."""
        later = self._seen[-1]
        for seen in reversed(self._seen):
            if seen.now_ns <= began_ns:
                return _at(began_ns, seen, later) if seen.progress == later.progress else seen
            later = seen
        return later

    def recent(self, least_ns: int = WINDOW_NS) -> Span:
        """The last so many nanoseconds, and at least two steps."""
        return Span(self.since(self.last.now_ns - max(least_ns, 2 * self.pace_ns)), self.last)

    def is_steady(self, span: Span, late_before: float) -> bool:
        """Whether the job is as slow now, and in the later half, as over the whole span, beyond late_before of the time."""
        middle = self.since(span.then.now_ns + (span.now.now_ns - span.then.now_ns) // 2)
        whole = span.late_share - late_before
        parts = (part.late_share - late_before for part in (self.tick, Span(middle, span.now)))
        return whole > 0 and all(UNSTEADY_BELOW <= part / whole <= UNSTEADY_ABOVE for part in parts)

    def goes_on(self, span: Span, late_before: float) -> bool:
        """Whether the job still works, and loses as much as over the whole span: one that waits for its user does nothing."""
        return self.tick.calls > 0 and self.is_steady(span, late_before)

    @property
    def is_stuck(self) -> bool:
        """Whether no step has ended for two ticks in a job that makes many: states of threads are accounted when they end."""
        before = self.since(self.last.now_ns - STUCK_NS)
        return self.has_rhythm and before.progress.steps == self.last.progress.steps and self.pace_ns * 2 < STUCK_NS

    def onset(self, earliest: ProcessState, latest_ns: int, late_before: float) -> ProcessState:
        """The likeliest onset of what has been lost up to now, between these two, where late_before of the time was lost before.

        At whole steps: half of a step loses nothing, or all of it.
        """
        latest_ns = min(latest_ns, self.last.now_ns - max(2 * self.pace_ns, 1))
        later = [one for one in self._seen if earliest.now_ns < one.now_ns <= latest_ns]
        return change_point.onset([earliest, *later], self.last, late_before)


def _is_window(span: Span) -> bool:
    """Whether enough was seen, and not mostly idle time."""
    is_long = span.now.now_ns - span.then.now_ns >= WINDOW_NS and span.wall_ns >= WINDOW_NS / 4
    return is_long and bool(span.steps or (span.calls and not span.now.progress.step_began_ns))


def _at(now_ns: int, before: ProcessState, after: ProcessState) -> ProcessState:
    """A state within an idle time."""
    part = (now_ns - before.now_ns) / max(after.now_ns - before.now_ns, 1)
    return before._replace(now_ns=now_ns, late_ns=before.late_ns + part * (after.late_ns - before.late_ns))
