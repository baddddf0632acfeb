"""A process between two moments: differences of cumulative figures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from exporter.accounting.progress import WorkloadProgress
from exporter.causes import Cause

LATE_MAX = 0.99
"""A job that makes no step at all is late by 1: what comes on top of that cannot be seen."""


class Collective(NamedTuple):
    """A process in a communicator. arrived: collectives entered so far; lag_ns: total time behind the node's first rank."""

    rank: int
    arrived: int
    lag_ns: int


class ProcessState(NamedTuple):
    """A process at a moment.

    now_ns: CLOCK_MONOTONIC. collectives: by the communicator's hash. late_ns: time lost so far against the
    baseline, summed tick by tick. unfinished: communicator, by the order of creation, -> operations that are enqueued and not
    known to be complete; also of one whose creation was not seen, so that its hash and rank are unknown. idle_ns: time so far in
    which the job had nothing to do, where that is its habit. is_server: it belongs to a serving engine.
    """

    now_ns: int
    progress: WorkloadProgress
    collectives: Mapping[int, Collective] = {}
    late_ns: float = 0.0
    unfinished: Mapping[int, int] = {}
    idle_ns: int = 0
    is_server: bool = False

    def fractional_steps(self, usual_step_ns: float) -> float:
        """Steps so far; the open one counts by its age, as one at most."""
        if not self.progress.step_began_ns:
            return float(self.progress.steps)
        age_ns = max(self.now_ns - self.progress.step_began_ns, 0)
        return self.progress.steps + min(age_ns / usual_step_ns, 1.0)


class Span(NamedTuple):
    """From one moment to another."""

    then: ProcessState
    now: ProcessState

    @property
    def wall_ns(self) -> int:
        """Wall time without idle time; at least 1."""
        return max(self._wall_ns, 1)

    @property
    def _wall_ns(self) -> int:
        """Below 0 where idle time is recognised late."""
        return self.now.now_ns - self.then.now_ns - (self.now.idle_ns - self.then.idle_ns)

    @property
    def steps(self) -> int:
        return self.now.progress.steps - self.then.progress.steps

    @property
    def steps_ns(self) -> int:
        """Time that ended steps took."""
        return self.now.progress.steps_ns - self.then.progress.steps_ns

    @property
    def steps_made(self) -> float:
        """Steps, those included that went unseen."""
        is_missed = self.now.progress.missed_beats != self.then.progress.missed_beats
        return self.wall_ns * self.steps / self.steps_ns if is_missed and self.steps else float(self.steps)

    @property
    def calls(self) -> int:
        return self.now.progress.calls - self.then.progress.calls

    @property
    def calls_per_step(self) -> float:
        """0 without steps."""
        return self.calls / self.steps_made if self.steps else 0.0

    @property
    def exposed_ns(self) -> int:
        """The part of lost time in synchronising calls."""
        return self.now.progress.exposed_ns - self.then.progress.exposed_ns

    @property
    def late_ns(self) -> float:
        """Time lost against the baseline; negative where the job was faster."""
        return self.now.late_ns - self.then.late_ns

    @property
    def late_share(self) -> float:
        """The same as a share of wall time."""
        return self.late_ns / self.wall_ns

    def late_beyond(self, before: float) -> float:
        """Share of the span by which the job was slower than at a time when `before` of it was lost against the baseline."""
        return 1.0 - (1.0 - self.late_share) / (1.0 - min(before, LATE_MAX))

    def excess_ns(self, usual_step_ns: float) -> float | None:
        """Time that the same progress does not take at the baseline: half of the span where steps take twice as long.

        Below 0 where they are faster; None if unknown.
        """
        then, now = self.then.progress, self.now.progress
        if now.missed_beats != then.missed_beats:
            return self.wall_ns - self.steps_made * usual_step_ns if self.steps else None
        if not (now.step_began_ns and then.step_began_ns):
            return None
        made = self.now.fractional_steps(usual_step_ns) - self.then.fractional_steps(usual_step_ns)
        return self._wall_ns - made * usual_step_ns

    def lost_ns(self) -> dict[tuple[Cause, str], int]:
        """Growth by (cause, culprit)."""
        before, now = self.then.progress.lost_ns, self.now.progress.lost_ns
        if now is before:
            return {}
        return {key: ns - before.get(key, 0) for key, ns in now.items() if ns > before.get(key, 0)}

    def lost_of_all_ns(self) -> int:
        """Growth over all causes, undecided time included."""
        return _all_lost_ns(self.now.progress) - _all_lost_ns(self.then.progress)

    def lag_ns(self) -> int:
        """How long the other ranks waited for this process."""
        before = self.then.collectives
        return sum(
            max(one.lag_ns - (before[number].lag_ns if number in before else 0), 0)
            for number, one in self.now.collectives.items()
        )


def _all_lost_ns(progress: WorkloadProgress) -> int:
    return sum(progress.lost_ns.values()) + progress.undecided_ns
