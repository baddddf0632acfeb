"""Finds out whether the GPU itself is slower: because it throttles, or because another process uses it.

In: samples of a process's GPUs and of the processes that share them, during an episode and before. Out: a cause, or none.
"""

from __future__ import annotations

from typing import NamedTuple

from exporter.causes import Cause
from exporter.chains.thresholds import NEIGHBOUR_FACTOR, NEIGHBOUR_KERNELS, THROTTLED_SHARE


class Neighbour(NamedTuple):
    """Another program on the same GPU, with kernels launched per second during the episode and before."""

    name: str
    kernels: float
    kernels_before: float

    @property
    def has_come(self) -> bool:
        """Whether it uses the GPU much more than before."""
        return self.kernels >= max(NEIGHBOUR_KERNELS, NEIGHBOUR_FACTOR * self.kernels_before)


class DeviceSide(NamedTuple):
    """throttled: share of the time that the GPU's clocks were held down for this reason, during the episode and before."""

    throttled: float = 0.0
    throttled_before: float = 0.0
    throttled_by: str = ""
    neighbours: tuple[Neighbour, ...] = ()

    @property
    def cause(self) -> Cause | None:
        """None when nothing differs from before."""
        if self.throttled - self.throttled_before >= THROTTLED_SHARE:
            return Cause.GPU_THROTTLED
        return Cause.GPU_CONTENTION if any(one.has_come for one in self.neighbours) else None

    @property
    def detail(self) -> str:
        """Why the GPU is throttled, in words."""
        if self.cause is not Cause.GPU_THROTTLED:
            return ""
        share, before = round(100 * self.throttled), round(100 * self.throttled_before)
        return f"the GPU's clocks were held down by {self.throttled_by} for {share} % of the time, {before} % before"

    @property
    def culprits(self) -> tuple[tuple[str, float], ...]:
        """Neighbours that are new, with their shares of the kernels that they launch together."""
        come = [one for one in self.neighbours if one.has_come]
        kernels = sum(one.kernels for one in come)
        return tuple((one.name, one.kernels / kernels) for one in sorted(come, key=lambda one: -one.kernels))


UNSEEN = DeviceSide()
"""An unknown GPU."""
