"""Why a GPU waits: one closed set of causes for the accounting, chains, metrics and remedies."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from typing import Final, TypeVar

Name = TypeVar("Name", str, tuple[str, str])
Amount = TypeVar("Amount", int, float)


class Cause(enum.StrEnum):
    """A cause of lost GPU time, of a chain, or of both; the value is the label `cause`."""

    CPU_CONTENTION = "cpu_contention"
    CPU_OVERSUBSCRIBED = "cpu_oversubscribed"
    CPU_QUOTA = "cpu_quota"
    IRQ = "irq"
    WAKEUP_LATENCY = "wakeup_latency"
    BLOCK_IO = "block_io"
    MEMORY_RECLAIM = "memory_reclaim"
    MAJOR_FAULT = "major_fault"
    LOCK = "lock"
    NETWORK = "network"
    DATALOADER = "dataloader"
    PAUSED = "paused"
    BLOCKED_OUTPUT = "blocked_output"  # what reads the job's output is slow
    EXPORTER = "exporter"  # this program holds the CPU
    OWN_WAIT = "own_wait"  # the job sleeps, waits for a child process or for an event
    OTHER = "other"
    UNKNOWN = "unknown"
    PEER_RANK = "peer_rank"  # this rank waits for another one
    SLOW_RANK = "slow_rank"  # the others wait for this one
    NCCL_HANG = "nccl_hang"
    CUDA_OOM = "cuda_oom"
    ALLOCATION_CHURN = "allocation_churn"
    MEMORY_LEAK = "memory_leak"
    PAGEABLE_COPY = "pageable_copy"
    PCIE = "pcie"  # the link between host and GPU is full
    GRAPH_RECAPTURE = "graph_recapture"
    GRAPH_ABANDONED = "graph_abandoned"  # a capture that does not end
    GPU_THROTTLED = "gpu_throttled"
    GPU_CONTENTION = "gpu_contention"  # another program uses the same GPU
    COLD_START = "cold_start"
    CRASH = "crash"
    OOM_KILLED = "oom_killed"  # by the kernel: memory of the host, not of the GPU
    OWN_CODE = "own_code"  # the job computes on the CPU while the GPU waits
    GPU = "gpu"  # kernels, copies or the library take longer
    STALLED = "stalled"  # no progress at all
    CHANGED = "changed"  # steps are different for good


LOST_TIME_CAUSES: Final[tuple[Cause, ...]] = tuple(Cause)[: tuple(Cause).index(Cause.UNKNOWN) + 1]
"""Causes that lost time is charged to: `gpustall_lost_seconds_total{cause}`."""

CHAIN_CAUSES: Final[tuple[Cause, ...]] = tuple(
    cause for cause in Cause if cause not in (Cause.WAKEUP_LATENCY, Cause.OTHER, Cause.UNKNOWN)
)
"""Causes that a chain may have: `gpustall_chain_active{cause}`."""

HOST_CAUSES: Final[tuple[Cause, ...]] = tuple(
    cause for cause in LOST_TIME_CAUSES if cause in CHAIN_CAUSES and cause is not Cause.OWN_WAIT
)
"""Causes that are a resource of the host: time is charged to them, and a chain may have them."""

JOB_CAUSES: Final[tuple[Cause, ...]] = (Cause.OWN_CODE, Cause.OWN_WAIT, Cause.GPU)
"""Causes of slow steps that no resource of the host explains, and no single kind of call of the job."""


def largest_first(lost: Mapping[Name, Amount]) -> list[tuple[Name, Amount]]:
    """Causes or culprits with what was lost to each; equal ones by name."""
    return sorted(lost.items(), key=lambda item: (-item[1], item[0]))


def largest_culprit(culprits: Sequence[tuple[str, float]]) -> str:
    """The name of the first one; "" without culprits. culprits: with their shares, largest first."""
    return culprits[0][0] if culprits else ""
