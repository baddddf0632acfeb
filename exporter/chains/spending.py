"""Growth of a job's own work: calls by effect, copies, graph captures.

In: Spending at two moments. Out: growth beyond what as many baseline steps take, as shares of wall time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from exporter.accounting.progress import NO_PROGRESS
from exporter.chains.chain import Effect
from exporter.chains.span import LATE_MAX, ProcessState, Span
from exporter.chains.thresholds import EVIDENT_STEPS, MAIN_SHARE, PHASE_CHANGE, SPENDING_NS, STEPS_NEEDED


class Spending(NamedTuple):
    """Nanoseconds of one process so far.

    calls_ns: in calls, by effect. pageable_ns: the part in copies of pageable memory, as far as their bytes explain it.
    capture_ns: in graph captures, with the calls made within them, and in instantiating graphs. link_ns: what the link to the GPU
    takes for all that was copied over it; 0 if its speed is unknown. computing_ns, sleeping_ns: of threads that give the GPU
    work, outside of calls: on a CPU, and asleep for a time-out or a child, of which lost time shows nothing while another thread
    gives the GPU work. kernels: how many the GPU was given, in graphs or not; 0 if launches are not seen. copied_bytes: to the
    GPU.
    """

    calls_ns: Mapping[Effect, int] = {}
    pageable_ns: int = 0
    capture_ns: int = 0
    link_ns: int = 0
    computing_ns: int = 0
    sleeping_ns: int = 0
    kernels: int = 0
    copied_bytes: int = 0


class Spent(NamedTuple):
    """Spending up to a moment."""

    at: ProcessState
    spending: Spending


class Grown(NamedTuple):
    """Beyond the baseline, as shares of wall time. link: share of the time that the link was busy, the baseline included.

    usual_computing, usual_sleeping: the baseline itself. kernels, copied: of a step, relative to the baseline; None where it has
    none. copied: bytes to the GPU.
    """

    calls: Mapping[Effect, float] = {}
    pageable: float = 0.0
    capture: float = 0.0
    link: float = 0.0
    computing: float = 0.0
    sleeping: float = 0.0
    usual_computing: float = 0.0
    usual_sleeping: float = 0.0
    kernels: float | None = None
    copied: float | None = None

    @property
    def is_same_work(self) -> bool:
        """Whether the GPU is given as many kernels in a step as before, whatever calls are made besides."""
        return self.kernels is not None and abs(self.kernels - 1.0) <= PHASE_CHANGE

    def is_same_step(self, steps: int) -> bool:
        """Whether the GPU is given the same kernels and as much data in a step as before, whatever calls are made besides: a job
        that polls asks more often in steps that take longer. steps: that were seen, of which one may be counted in part.
        """
        allowed = PHASE_CHANGE + 1 / max(steps, 1)
        return all(part is not None and abs(part - 1.0) <= allowed for part in (self.kernels, self.copied))

    def explains(self, slower: float) -> bool:
        """Whether more data explains half of what the same work takes longer: another batch size. Where sizes differ from step to
        step, that is all that shows it. slower: as in Findings.
        """
        more = (self.copied or 1.0) - 1.0
        least = max(PHASE_CHANGE, MAIN_SHARE * slower / (1.0 - min(slower, LATE_MAX)))
        return self.is_same_work and more >= least

    @property
    def effect(self) -> Effect:
        """The effect that has grown most."""
        return max(self.calls, key=lambda one: self.calls[one], default=Effect.SYNC)


class SpentBefore:
    """What a process spent while nothing was wrong: the baseline of its growth since an alarm."""

    def __init__(self) -> None:
        self._older: Spent | None = None
        self._newer: Spent | None = None
        self._alarm: Spent | None = None

    def quiet(self, seen: ProcessState, read: Callable[[], Spending]) -> None:
        """Nothing is wrong at this tick: read once in a while, so that the baseline is that of the last minute."""
        self._alarm = None
        if self._newer is None or seen.now_ns - self._newer.at.now_ns >= SPENDING_NS:
            self._older, self._newer = self._newer, Spent(seen, read())

    def alarm(self, seen: ProcessState, read: Callable[[], Spending]) -> None:
        """Something may be wrong since this tick or an earlier one: there is an alarm, or half of what it takes."""
        self._alarm = self._alarm or Spent(seen, read())

    def is_measured(self, seen: ProcessState) -> bool:
        """Whether enough steps have ended since the alarm: where it comes long after the onset, a verdict may be due at once."""
        return self._alarm is not None and Span(self._alarm.at, seen).steps >= EVIDENT_STEPS

    def restart(self) -> None:
        """What was spent until now is no baseline."""
        self._older = self._newer = self._alarm = None

    def grown(self, now: Spent) -> Grown:
        """Growth since the alarm."""
        before = self._alarm or now
        marks = (one for one in (self._older, self._newer) if one and _steps(one, before) >= STEPS_NEEDED)
        return grown(next(marks, _BEGINNING), before, now)


def _steps(then: Spent, now: Spent) -> int:
    return now.at.progress.steps - then.at.progress.steps


_BEGINNING = Spent(ProcessState(0, NO_PROGRESS), Spending())


def grown(first: Spent, before: Spent, now: Spent) -> Grown:
    """Growth from the second moment to the third. The average per step from the first to the second is the baseline."""
    usual, span = Span(first.at, before.at), Span(before.at, now.at)
    steps_as_usual = span.steps_made / max(usual.steps_made, 1.0)

    def usual_part(first_ns: int, then_ns: int) -> float:
        return (then_ns - first_ns) * steps_as_usual / span.wall_ns

    def part(first_ns: int, then_ns: int, ns: int) -> float:
        return (ns - then_ns) / span.wall_ns - usual_part(first_ns, then_ns)

    begun, then, spending = first.spending, before.spending, now.spending
    return Grown(
        {
            effect: part(begun.calls_ns.get(effect, 0), then.calls_ns.get(effect, 0), ns)
            for effect, ns in spending.calls_ns.items()
        },
        part(begun.pageable_ns, then.pageable_ns, spending.pageable_ns),
        part(begun.capture_ns, then.capture_ns, spending.capture_ns),
        (spending.link_ns - then.link_ns) / span.wall_ns,
        part(begun.computing_ns, then.computing_ns, spending.computing_ns),
        part(begun.sleeping_ns, then.sleeping_ns, spending.sleeping_ns),
        usual_part(begun.computing_ns, then.computing_ns),
        usual_part(begun.sleeping_ns, then.sleeping_ns),
        _relative(_of_step(begun.kernels, then.kernels, usual), _of_step(then.kernels, spending.kernels, span)),
        _relative(
            _of_step(begun.copied_bytes, then.copied_bytes, usual),
            _of_step(then.copied_bytes, spending.copied_bytes, span),
        ),
    )


def _of_step(then: int, now: int, span: Span) -> float:
    return (now - then) / max(span.steps_made, 1.0)


def _relative(usual: float, now: float) -> float | None:
    """None where nothing is usual."""
    return now / usual if usual else None
