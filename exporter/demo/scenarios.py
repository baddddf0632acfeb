"""The scenarios of `gpu-stall-exporter demo`: each is a training job with one fault, and a recording of it.

The job of a live demo is defined under the same name in tests/standin.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from exporter.recording.file import SUFFIX

RECORDINGS = Path(__file__).parent / "recordings"


@dataclass(frozen=True)
class Scenario:
    """summary: what happens, half a sentence. lesson: what to learn from it, a sentence."""

    name: str
    summary: str
    lesson: str

    @property
    def recording(self) -> Path:
        return RECORDINGS / f"{self.name}{SUFFIX}"


SCENARIOS = {
    one.name: one
    for one in (
        Scenario(
            name="incident",
            summary="the DataLoader becomes slow, and then other programs come onto the job's CPUs",
            lesson="Two causes in a row: the chain shows what each of them costs, and names both.",
        ),
        Scenario(
            name="cold-start",
            summary="each of the first steps computes on the host for 20 ms, like a job that compiles its kernels",
            lesson="A warm-up opens no chain: there is no baseline yet that a step could be slower than.",
        ),
        Scenario(
            name="memcpy-bottleneck",
            summary="each step copies 256 MiB of pageable memory and waits for it",
            lesson="No resource of the host is short: the job's own copies take the time, and the chain names them.",
        ),
        Scenario(
            name="periodic-spike",
            summary="other programs come onto the job's CPUs for one second, again and again",
            lesson="A disturbance that comes back every few seconds is one episode and one page, not one page per spike.",
        ),
        Scenario(
            name="cpu-contention",
            summary="other programs take the CPUs of the thread that launches kernels",
            lesson="The GPU looks busy in every dashboard; the chain names the program that holds the CPUs.",
        ),
        Scenario(
            name="gpu-steal",
            summary="the GPU takes twice as long for every kernel, as a shared or throttled GPU does",
            lesson="The host is not the cause: check the GPU's clocks and which other processes use it.",
        ),
        Scenario(
            name="dataloader",
            summary="each batch takes 30 ms longer, as from remote storage",
            lesson="The GPU waits for its next batch; the chain also shows what the workers wait for.",
        ),
        Scenario(
            name="straggler",
            summary="rank 1 of 2 comes 20 ms late to each backward pass",
            lesson="Both ranks are equally slow; only their arrivals at the collectives show which one causes it.",
        ),
        Scenario(
            name="hang",
            summary="rank 1 of 2 never comes to a backward pass",
            lesson="Every dashboard shows a GPU at 100 %; the chain names the missing rank.",
        ),
    )
}
