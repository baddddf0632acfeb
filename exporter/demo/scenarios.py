"""What can be shown: each scenario is a job on the stand-in GPU and something that goes wrong with it."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from pathlib import Path

from exporter.recording.file import SUFFIX

RECORDINGS = Path(__file__).parent / "recordings"

# Where the time of a step goes decides what can delay it.
GPU_BOUND = ("--sync=block", "--jitter-percent=5")
"""13 ms of kernels in a step; the host is done with launching long before."""
HOST_BOUND = ("--sync=block", "--jitter-percent=5", "--kernel-us=20", "--backward-kernel-us=20", "--host-us=200")
"""10 ms of Python in a step, and kernels that are shorter than what launches them."""
LOADER_BOUND = ("--sync=block", "--jitter-percent=5", "--kernel-us=60", "--backward-kernel-us=60", "--loader-workers=1")
"""8 ms of kernels in a step, and one worker that makes a batch in 2 ms."""


class Neighbours(enum.Enum):
    """Programs of somebody else that take the CPUs of the job while the fault lasts."""

    NONE = "none"
    STEADY = "steady"
    PULSES = "pulses"  # for a second, every third one
    LATER = "later"  # in the second half of the fault, when that of the job itself is over


@dataclass(frozen=True)
class Scenario:
    """One thing to be shown.

    says: what happens, in half a sentence. flags: of the job. fault: flags that begin with the fault's first step.
    teaches: what to learn from it, in a sentence. is_first: the fault is there from the first step on. is_last: nothing comes
    after it. step_seconds, slow_step_seconds: of a healthy step, and of one with the fault; about.
    """

    name: str
    says: str
    teaches: str
    flags: tuple[str, ...] = GPU_BOUND
    fault: tuple[str, ...] = ()
    neighbours: Neighbours = Neighbours.NONE
    ranks: int = 1
    is_first: bool = False
    is_last: bool = False
    step_seconds: float = 0.0145
    slow_step_seconds: float = 0.034

    @property
    def recording(self) -> Path:
        """A run of it that was recorded."""
        return RECORDINGS / f"{self.name}{SUFFIX}"


SCENARIOS = {
    one.name: one
    for one in (
        Scenario(
            name="incident",
            says="the DataLoader becomes slow, and then other programs come onto the job's CPUs",
            teaches="Two causes, one after the other: the chain says which of them costs what, and both are known by name.",
            flags=HOST_BOUND,
            fault=("--fault=loader-sleep", "--fault-us=50000"),
            neighbours=Neighbours.LATER,
            step_seconds=0.0115,
            slow_step_seconds=0.022,
        ),
        Scenario(
            name="cold-start",
            says="the first steps compute on the host for 20 ms each, as a job does that compiles its kernels",
            teaches="A warm-up is nothing to be paged for: there is no usual yet that it could be slower than.",
            fault=("--fault=host", "--fault-us=20000"),
            is_first=True,
        ),
        Scenario(
            name="memcpy-bottleneck",
            says="each step copies 256 MiB of pageable memory, and waits for it",
            teaches="No resource of the host is short: the job's own copies take the time, and the chain says so.",
            fault=("--fault=copy", f"--fault-bytes={256 << 20}"),
            slow_step_seconds=0.04,
        ),
        Scenario(
            name="periodic-spike",
            says="other programs come onto the job's CPUs for a second, again and again",
            teaches="What comes back every few seconds is one episode, and one page, not one a spike.",
            flags=HOST_BOUND,
            neighbours=Neighbours.PULSES,
            step_seconds=0.0115,
            slow_step_seconds=0.018,
        ),
        Scenario(
            name="cpu-contention",
            says="other programs take the CPUs of the thread that launches kernels",
            teaches="The GPU looks busy in every dashboard; the chain names the program that holds the CPUs.",
            flags=HOST_BOUND,
            neighbours=Neighbours.STEADY,
            step_seconds=0.0115,
        ),
        Scenario(
            name="gpu-steal",
            says="the GPU takes twice as long for every kernel, as when it is shared or throttled",
            teaches="The host is acquitted: look at the GPU's clocks, and at who else uses it.",
            fault=("--fault=gpu", "--fault-factor=2"),
            slow_step_seconds=0.028,
        ),
        Scenario(
            name="dataloader",
            says="each batch takes 30 ms longer, as from remote storage",
            teaches="The GPU waits for its next batch, and what the workers wait for is known as well.",
            flags=LOADER_BOUND,
            fault=("--fault=loader-sleep", "--fault-us=30000"),
            step_seconds=0.0105,
            slow_step_seconds=0.032,
        ),
        Scenario(
            name="straggler",
            says="rank 1 of 2 comes 20 ms late to each backward pass",
            teaches="Both ranks are equally slow; only the arrivals at the collectives tell which of them is the reason.",
            fault=("--fault=straggler", "--fault-rank=1", "--fault-us=20000"),
            ranks=2,
        ),
        Scenario(
            name="hang",
            says="rank 1 of 2 never comes to a backward pass",
            teaches="Every dashboard shows a GPU at 100 %; the chain names the rank that did not come.",
            fault=("--fault=hang", "--fault-rank=1"),
            ranks=2,
            is_last=True,
        ),
    )
}
