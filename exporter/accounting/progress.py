"""How far has a process come, and what has it lost? All that a diagnosis asks of the books at every tick."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from exporter.causes import Cause


class WorkloadProgress(NamedTuple):
    """Of one process since it was first seen.

    lost_ns: by (cause, culprit). exposed_ns: of it, what synchronising calls took longer. undecided_ns: lost as well, waiting for
    CPUs of which it is not known yet who held them.
    steps: of its rhythm, seen to end. steps_ns: what they took. step_began_ns: CLOCK_MONOTONIC when the open one began, 0 while
    there is no rhythm. missed_beats: steps were not seen where this has grown. calls: that the probes were hit for, in whole
    dozens. stopped_ns: how long the thread that feeds the GPU has been stopped by a signal in its open call or gap; 0 where
    threads were not asked for.
    """

    lost_ns: Mapping[tuple[Cause, str], int]
    exposed_ns: int = 0
    undecided_ns: int = 0
    steps: int = 0
    steps_ns: int = 0
    step_began_ns: int = 0
    missed_beats: int = 0
    calls: int = 0
    stopped_ns: int = 0


NOWHERE = WorkloadProgress({})
"""Of a process that nothing is known of."""
