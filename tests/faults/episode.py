"""The episodes: a job, one thing that goes wrong in a window of its steps, and the label of what it is.

A label is the cause that a right diagnosis names; `none` is right for a decoy, which must not be blamed on anything.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from enum import StrEnum

from exporter.causes import Cause
from exporter.units import NANOSECONDS
from tests.faults.job import Injector, Place, Window


class End(StrEnum):
    """How the run with the fault ends."""

    WHOLE = "whole"  # all steps are made
    DIES = "dies"  # the job exits with an error
    HANGS = "hangs"  # no step ends any more, until the run is killed


ANYWHERE = Place()
MIDDLE = Window(60, 100)


@dataclass(frozen=True)
class Scene:
    """What a run needs, with the fault or without; made for each run.

    flags: of the trainer, that depend on the scene. injector: brings the fault about from outside, None: the
    trainer's own --fault does.
    """

    flags: tuple[str, ...] = ()
    place: Place = ANYWHERE
    injector: Injector | None = None


SceneMaker = Callable[[], AbstractContextManager[Scene]]


def plain() -> AbstractContextManager[Scene]:
    """Nothing special."""
    return nullcontext(Scene())


@dataclass(frozen=True)
class Episode:
    """One labelled fault.

    culprit: comm of the culprit, "" without one or where the comm does not name it; culprit_rank: its rank, where it is
    one. also: causes that are as true as the first one.
    flags: of both runs. fault: flags of the faulty run only, to which the window's are added.
    every, repeats: steps from one window to the next, and how many there are. ranks: of the job; each has its own truth.
    period: steps that are alike come this often (--sync-every).
    is_decoy: looks like a fault to counters of events, and delays nothing that matters.
    costs_nothing: it makes no step longer, or there are no earlier steps to compare with; a chain is expected in its own time.
    grace_seconds: after the fault, in which a chain may still open.
    hang_seconds: how long a run that hangs is left alone before it is ended. step_seconds: about, without the fault.
    """

    name: str
    says: str
    cause: Cause | None
    culprit: str = ""
    culprit_rank: int | None = None
    also: tuple[Cause, ...] = ()
    flags: tuple[str, ...] = ()
    fault: tuple[str, ...] = ()
    scene: SceneMaker = plain
    ranks: int = 1
    steps: int = 160
    window: Window = MIDDLE
    every: int = 0
    repeats: int = 1
    period: int = 1
    end: End = End.WHOLE
    is_decoy: bool = False
    costs_nothing: bool = False
    grace_seconds: float = 5.0
    hang_seconds: float = 8.0
    step_seconds: float = 0.0135

    @property
    def causes(self) -> tuple[Cause, ...]:
        """Causes that are right; none of a decoy."""
        return (self.cause, *self.also) if self.cause else self.also

    @property
    def injects_nothing(self) -> bool:
        """Whether its faulty run is like the other one: what makes steps longer in it is this machine's own doing."""
        return not self.fault and self.scene is plain

    @property
    def grace_ns(self) -> int:
        """Behind the fault, in which a chain may still be opened for it."""
        return round(self.grace_seconds * NANOSECONDS)

    @property
    def windows(self) -> tuple[Window, ...]:
        """In order."""
        starts = (number * self.every for number in range(self.repeats))
        return tuple(Window(self.window.first + start, self.window.end + start) for start in starts)

    def lasting(self, before_seconds: float, fault_seconds: float, after_seconds: float) -> Episode:
        """The same fault for so long, and the job for so long before and after it."""
        first, fault, after = (
            round(seconds / self.step_seconds) for seconds in (before_seconds, fault_seconds, after_seconds)
        )
        return replace(
            self,
            window=Window(first, first + fault),
            steps=first + fault + after,
            hang_seconds=before_seconds + fault_seconds,
        )

    def common_flags(self) -> tuple[str, ...]:
        """Flags of both runs: the seed, the length, and no step that is unlike the others."""
        return (
            "--seed=1",
            f"--ranks={self.ranks}",
            f"--steps={self.steps}",
            "--evaluate-every=0",
            "--allocate-every=0",
            *self.flags,
        )

    def fault_flags(self) -> tuple[str, ...]:
        """Flags of the faulty run only."""
        if not self.fault:
            return ()
        to_step = [] if self.end is End.HANGS else [f"--fault-to-step={self.window.end}"]
        again = [f"--fault-every={self.every}"] if self.repeats > 1 else []
        return (*self.fault, f"--fault-from-step={self.window.first}", *to_step, *again)


LOADER_BOUND = ("--sync=block", "--kernel-us=20", "--backward-kernel-us=20", "--loader-workers=1")
"""A step of 3 ms, with one worker that needs 2 ms for a batch."""

FETCHING = ("--sync=block", "--kernel-us=20", "--backward-kernel-us=20", "--loader-workers=0")
"""The same step, whose thread fetches each batch itself from --loader-connect."""
