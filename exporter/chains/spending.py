"""Growth of a job's own work: calls by effect, copies, graph captures.

In: Spending at two moments. Out: growth beyond what as many baseline steps take, as shares of wall time.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from exporter.accounting.progress import NO_PROGRESS
from exporter.chains.chain import Effect
from exporter.chains.span import ProcessState, Span
from exporter.chains.thresholds import STEPS_NEEDED


class Spending(NamedTuple):
    """Nanoseconds of one process so far.

    calls_ns: in calls, by effect. pageable_ns: the part in copies of pageable memory, as far as their bytes explain it.
    capture_ns: in graph captures, with the calls made within them, and in instantiating graphs. link_ns: what the link to the GPU
    takes for all that was copied over it; 0 if its speed is unknown.
    """

    calls_ns: Mapping[Effect, int] = {}
    pageable_ns: int = 0
    capture_ns: int = 0
    link_ns: int = 0


class Spent(NamedTuple):
    """Spending up to a moment."""

    at: ProcessState
    spending: Spending


_BEGINNING = Spent(ProcessState(0, NO_PROGRESS), Spending())


class Grown(NamedTuple):
    """Beyond the baseline, as shares of wall time. link: share of the time that the link was busy, the baseline included."""

    calls: Mapping[Effect, float] = {}
    pageable: float = 0.0
    capture: float = 0.0
    link: float = 0.0

    @property
    def effect(self) -> Effect:
        """The effect that has grown most."""
        return max(self.calls, key=lambda one: self.calls[one], default=Effect.SYNC)


def grown(usually: Spent | None, before: Spent, now: Spent) -> Grown:
    """Growth since a moment. usually: start of the span whose average per step is the baseline; None: from the start."""
    if usually is None or before.at.progress.steps - usually.at.progress.steps < STEPS_NEEDED:
        usually = _BEGINNING
    usual, span = Span(usually.at, before.at), Span(before.at, now.at)
    steps_as_usual = span.steps / max(usual.steps, 1)

    def part(first_ns: int, then_ns: int, ns: int) -> float:
        return (ns - then_ns - (then_ns - first_ns) * steps_as_usual) / span.wall_ns

    first, then, spending = usually.spending, before.spending, now.spending
    return Grown(
        {
            effect: part(first.calls_ns.get(effect, 0), then.calls_ns.get(effect, 0), ns)
            for effect, ns in spending.calls_ns.items()
        },
        part(first.pageable_ns, then.pageable_ns, spending.pageable_ns),
        part(first.capture_ns, then.capture_ns, spending.capture_ns),
        (spending.link_ns - then.link_ns) / span.wall_ns,
    )
