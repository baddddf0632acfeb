"""Rows that belong together because they were read together.

Accounts for what goes on and has ended, Waits for a tick, a Reading for a publication: all cumulative since a process was first
seen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from exporter.kernel.cadence_rows import CadenceRow
from exporter.kernel.disk_rows import DiskUse, DiskUserKey, DiskWait, DiskWaitKey
from exporter.kernel.end_rows import ExitKey, ExitRow, ForkKey
from exporter.kernel.gpu_rows import NO_GPU_ROWS, GpuRows
from exporter.kernel.operation_rows import ErrorKey, OperationKey, OperationRow
from exporter.kernel.process_rows import CommunicatorRow, ProcessRow
from exporter.kernel.progress_rows import ProgressKey, ProgressRow
from exporter.kernel.thread_rows import (
    BlameKey,
    ChainKey,
    ChainRow,
    Exposure,
    ExposureKey,
    FeedingRow,
    IntervalKey,
    IntervalRow,
    ThreadRow,
)


@dataclass(frozen=True, slots=True)
class Reading:
    """The tables as they were read, one after the other, within one publication.

    operations: calls; nccl_waits: the rows of the same table that count calls a second time, by what they waited for.
    sees_completion: the programs on CUDA's calls, which see what is done, are loaded.
    """

    processes: Mapping[int, ProcessRow]
    operations: Mapping[OperationKey, OperationRow]
    errors: Mapping[ErrorKey, int]
    communicators: Mapping[int, list[CommunicatorRow]]
    progress: Mapping[ProgressKey, ProgressRow]
    nccl_waits: Mapping[ProgressKey, OperationRow]
    sees_completion: bool
    exits: Mapping[ExitKey, ExitRow]
    forks: Mapping[ForkKey, int]
    gpu: GpuRows = NO_GPU_ROWS


@dataclass(frozen=True)
class Waits:
    """What cost the GPU time, and what explains it: little to read, for every tick.

    In the order of reading: what explains a loss is read after it, since it is written before.
    """

    exposures: Mapping[ExposureKey, Exposure]
    feeding: Mapping[int, FeedingRow]
    chains: Mapping[ChainKey, ChainRow]
    blame: Mapping[BlameKey, int]
    cadence: Mapping[int, CadenceRow]
    disk_waits: Mapping[DiskWaitKey, DiskWait]
    disk_users: Mapping[DiskUserKey, DiskUse]


@dataclass(frozen=True)
class Accounts(Waits):
    """Where all the time of threads went up to now: rows of what has ended, and the threads that are alive.

    A call that ended while the tables were read is in none of them, and in the operations of the next reading.
    """

    operations: Mapping[OperationKey, OperationRow]
    intervals: Mapping[IntervalKey, IntervalRow]
    threads: Sequence[ThreadRow]
