"""Growth of a job's own work: calls by effect, copies, graph captures.

In: Spending at two moments. Out: growth beyond what as many baseline steps take, as shares of wall time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from exporter.accounting.progress import NO_PROGRESS
from exporter.chains.chain import Effect
from exporter.chains.span import ProcessState, Span
from exporter.chains.thresholds import SPENDING_NS, STEPS_NEEDED


class Spending(NamedTuple):
    """Nanoseconds of one process so far.

    calls_ns: in calls, by effect. pageable_ns: the part in copies of pageable memory, as far as their bytes explain it.
    capture_ns: in graph captures, with the calls made within them, and in instantiating graphs. link_ns: what the link to the GPU
    takes for all that was copied over it; 0 if its speed is unknown. computing_ns, sleeping_ns: of threads that give the GPU
    work, outside of calls: on a CPU, and asleep for a time-out or a child, of which lost time shows nothing while another thread
    gives the GPU work.
    """

    calls_ns: Mapping[Effect, int] = {}
    pageable_ns: int = 0
    capture_ns: int = 0
    link_ns: int = 0
    computing_ns: int = 0
    sleeping_ns: int = 0


class Spent(NamedTuple):
    """Spending up to a moment."""

    at: ProcessState
    spending: Spending


class Grown(NamedTuple):
    """Beyond the baseline, as shares of wall time. link: share of the time that the link was busy, the baseline included.

    usual_computing, usual_sleeping: the baseline itself.
    """

    calls: Mapping[Effect, float] = {}
    pageable: float = 0.0
    capture: float = 0.0
    link: float = 0.0
    computing: float = 0.0
    sleeping: float = 0.0
    usual_computing: float = 0.0
    usual_sleeping: float = 0.0

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
        """Something may be wrong since this tick or an earlier one."""
        self._alarm = self._alarm or Spent(seen, read())

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
    )
