"""What does a job spend its time on that is not the host's, and has that grown? Calls by kind, copies, captures.

In: Spending at two moments. Out: what has grown beyond what as many steps usually take, as parts of the wall time.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from exporter.chains.chain import Effect
from exporter.chains.span import Seen, Span


class Spending(NamedTuple):
    """Of one process so far, nanoseconds.

    calls_ns: in calls of each kind. pageable_ns: of those, in copies of pageable memory, as far as their bytes explain it.
    capture_ns: in captures of graphs, whatever calls are made meanwhile, and in making them executable. link_ns: what the link to
    the GPU takes for all that was copied over it; 0 where its speed is not known.
    """

    calls_ns: Mapping[Effect, int] = {}
    pageable_ns: int = 0
    capture_ns: int = 0
    link_ns: int = 0


class Spent(NamedTuple):
    """Up to a moment."""

    at: Seen
    spending: Spending


class Grown(NamedTuple):
    """Beyond the usual, parts of the wall time. link: all of it that the link was busy, the usual included."""

    calls: Mapping[Effect, float] = {}
    pageable: float = 0.0
    capture: float = 0.0
    link: float = 0.0

    @property
    def effect(self) -> Effect:
        """What has grown most."""
        return max(self.calls, key=lambda one: self.calls[one], default=Effect.SYNC)


def grown(before: Spent, now: Spent) -> Grown:
    """Since a moment. Usual is, for each step, what a step took on average until then."""
    span, usual_steps = Span(before.at, now.at), max(before.at.standing.steps, 1)

    def part(spent_ns: int, ns: int) -> float:
        return (ns - spent_ns - spent_ns * span.steps / usual_steps) / span.wall_ns

    then, spending = before.spending, now.spending
    return Grown(
        {effect: part(then.calls_ns.get(effect, 0), ns) for effect, ns in spending.calls_ns.items()},
        part(then.pageable_ns, spending.pageable_ns),
        part(then.capture_ns, spending.capture_ns),
        (spending.link_ns - then.link_ns) / span.wall_ns,
    )
