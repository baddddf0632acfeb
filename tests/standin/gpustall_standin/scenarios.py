"""The job of each demo scenario: flags of the trainer, the fault, and programs that disturb the job.

What a scenario is for is in exporter/demo/scenarios.py, under the same name.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

# Where the time of a step goes decides what can delay it.
GPU_BOUND = ("--sync=block", "--jitter-percent=5")
"""13 ms of kernels in a step; the host has launched them long before they end."""
HOST_BOUND = ("--sync=block", "--jitter-percent=5", "--kernel-us=20", "--backward-kernel-us=20", "--host-us=200")
"""10 ms of Python in a step, and kernels shorter than their launches."""
LOADER_BOUND = ("--sync=block", "--jitter-percent=5", "--kernel-us=60", "--backward-kernel-us=60", "--loader-workers=1")
"""8 ms of kernels in a step, and one worker that makes a batch in 2 ms."""


class Neighbours(enum.Enum):
    """Other programs on the job's CPUs while the fault lasts."""

    NONE = "none"
    STEADY = "steady"
    PULSES = "pulses"  # for one second in three
    LATER = "later"  # in the second half of the fault, when the job's own fault is over


@dataclass(frozen=True)
class JobPlan:
    """A job of a scenario.

    flags: of the trainer. fault: further flags, which take effect with the first faulty step.
    starts_faulty: there is no healthy step before. stays_faulty: there is none after.
    step_seconds, slow_step_seconds: expected length of a healthy and of a faulty step.
    """

    flags: tuple[str, ...] = GPU_BOUND
    fault: tuple[str, ...] = ()
    neighbours: Neighbours = Neighbours.NONE
    ranks: int = 1
    starts_faulty: bool = False
    stays_faulty: bool = False
    step_seconds: float = 0.0145
    slow_step_seconds: float = 0.034


PLANS = {
    "incident": JobPlan(
        flags=HOST_BOUND,
        fault=("--fault=loader-sleep", "--fault-us=50000"),
        neighbours=Neighbours.LATER,
        step_seconds=0.0115,
        slow_step_seconds=0.022,
    ),
    "cold-start": JobPlan(fault=("--fault=host", "--fault-us=20000"), starts_faulty=True),
    "memcpy-bottleneck": JobPlan(fault=("--fault=copy", f"--fault-bytes={256 << 20}"), slow_step_seconds=0.04),
    "periodic-spike": JobPlan(
        flags=HOST_BOUND, neighbours=Neighbours.PULSES, step_seconds=0.0115, slow_step_seconds=0.018
    ),
    "cpu-contention": JobPlan(flags=HOST_BOUND, neighbours=Neighbours.STEADY, step_seconds=0.0115),
    "gpu-steal": JobPlan(fault=("--fault=gpu", "--fault-factor=2"), slow_step_seconds=0.028),
    "dataloader": JobPlan(
        flags=LOADER_BOUND,
        fault=("--fault=loader-sleep", "--fault-us=30000"),
        step_seconds=0.0105,
        slow_step_seconds=0.032,
    ),
    "straggler": JobPlan(fault=("--fault=straggler", "--fault-rank=1", "--fault-us=20000"), ranks=2),
    "hang": JobPlan(fault=("--fault=hang", "--fault-rank=1"), ranks=2, stays_faulty=True),
}
