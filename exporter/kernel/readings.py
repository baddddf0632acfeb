"""Rows that were read together: Waits for a tick, Accounts for the time of threads, a Reading for a snapshot.

All are cumulative since the first call of a process.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from exporter.kernel.awaited_rows import AwaitedKey
from exporter.kernel.cadence_rows import CadenceRow
from exporter.kernel.disk_rows import DiskUse, DiskUserKey, DiskWait, DiskWaitKey
from exporter.kernel.end_rows import ExitKey, ExitRow, ForkKey
from exporter.kernel.gpu_rows import NO_GPU_ROWS, GpuRows
from exporter.kernel.operation_rows import ErrorKey, OperationKey, OperationRow
from exporter.kernel.process_rows import CommunicatorRow, ProcessRow
from exporter.kernel.progress_rows import ProgressKey, ProgressRow
from exporter.kernel.thread_rows import (
    BlameKey,
    Exposure,
    ExposureKey,
    FeedingRow,
    IntervalKey,
    IntervalRow,
    ThreadRow,
    WakeupKey,
    WakeupRow,
)


@dataclass(frozen=True, slots=True)
class Reading:
    """The maps, read one by one within one snapshot.

    operations: calls. nccl_waits: rows of the same map that count some of them a second time, by the communicator they waited
    for. sees_completion: the programs on CUDA calls, which find out what is complete, are loaded.
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
    """Lost GPU time and its causes: small enough to read at every tick.

    In the order of reading: a cause is read after the lost time, because it is written before it.
    """

    exposures: Mapping[ExposureKey, Exposure]
    feeding: Mapping[int, FeedingRow]
    wakeups: Mapping[WakeupKey, WakeupRow]
    blame: Mapping[BlameKey, int]
    cadence: Mapping[int, CadenceRow]
    disk_waits: Mapping[DiskWaitKey, DiskWait]
    disk_users: Mapping[DiskUserKey, DiskUse]
    awaited: Mapping[AwaitedKey, int]


@dataclass(frozen=True)
class Accounts(Waits):
    """All time of threads so far: rows of ended calls and threads, and the living threads.

    A call that ends during the reading is in none of them; the operations of the next reading have it.
    """

    operations: Mapping[OperationKey, OperationRow]
    intervals: Mapping[IntervalKey, IntervalRow]
    threads: Sequence[ThreadRow]
