"""Conditions of a process besides slow steps: out of memory, a leak, an abandoned capture, a cold start.

In: an observation at every tick. Out: each condition, and since when it holds.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from exporter.causes import Cause
from exporter.chains.capture import AbandonedCapture, Captures
from exporter.chains.chain import Effect
from exporter.chains.cold_start import ColdStart
from exporter.chains.memory import Allocations, Leak, OutOfMemory


class Wrong(NamedTuple):
    """A condition. since_ns: CLOCK_MONOTONIC since when it holds; 0 while it does not. detail: more about it, in words.

    usual_step_ns: the baseline, where steps are what has changed.
    """

    cause: Cause
    effect: Effect
    since_ns: int
    detail: str = ""
    lost_share: float = 0.0
    lost_ns: int = 0
    usual_step_ns: int = 0


class Conditions:
    """Conditions of one process. began_ns: CLOCK_MONOTONIC when it was first seen."""

    def __init__(self, began_ns: int) -> None:
        self.out_of_memory = OutOfMemory()
        self.cold_start = ColdStart(began_ns)
        self._leak = Leak()
        self._capture = AbandonedCapture()

    def update(self, allocations: Allocations, captures: Captures, steps: int, now_ns: int) -> None:
        """Update at a tick."""
        self.out_of_memory.update(allocations, now_ns)
        self._leak.update(allocations, steps, now_ns)
        self._capture.update(captures, now_ns)

    def all(self, now_ns: int) -> Iterator[Wrong]:
        """Every condition, whether it holds or not."""
        memory, leak, capture = self.out_of_memory, self._leak, self._capture
        yield out_of_memory(memory, memory.since_ns if memory.is_certain(now_ns) else 0)
        yield Wrong(Cause.MEMORY_LEAK, Effect.ALLOC, leak.since_ns, leak.detail if leak.since_ns else "")
        yield Wrong(Cause.GRAPH_ABANDONED, Effect.GRAPH, capture.since_ns, capture.detail if capture.since_ns else "")


def out_of_memory(memory: OutOfMemory, since_ns: int) -> Wrong:
    """since_ns: 0 when memory is not out."""
    return Wrong(Cause.CUDA_OOM, Effect.ALLOC, since_ns, memory.detail if since_ns else "")
