"""Disks and file systems that become slow for a job that reads them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tests.faults.injectors import disk
from tests.faults.trials.extra import Extra
from tests.faults.trials.fault import OutsideFault
from tests.faults.trials.job import TrialJob
from tests.faults.trials.outside.neighbour import program, scratch, weighted

BLOCK_IO = frozenset({"block_io"})
FIO = ("fio:fio",)
READ_BYTES = 128 << 10  # shapes/programs/extra.py
DEPTH_OF_SHARE = 64
"""Requests in flight that make a step about twice as long."""


@contextmanager
def _fio(job: TrialJob, share: float) -> Iterator[None]:
    """Random reads of 256 KiB past the page cache."""
    depth = max(round(DEPTH_OF_SHARE * share), 4)
    with scratch() as folder, weighted(1) as group:
        flags = ("--name=flood", "--filename=data", "--size=256M", "--rw=randread", "--bs=256k", "--direct=1")
        load = ("--ioengine=libaio", f"--iodepth={depth}", "--numjobs=4", "--time_based", "--runtime=600")
        with program("fio", *flags, *load, groups=[group.path], folder=folder):
            yield


@contextmanager
def _iomix(job: TrialJob, share: float) -> Iterator[None]:
    """Writes, reads, syncs and more, on the job's disk."""
    line = ("stress-ng", "--quiet", "--iomix", str(max(round(4 * share), 2)), "--iomix-bytes", "256M")
    with scratch() as folder, weighted(1) as group, program(*line, "--temp-path", str(folder), groups=[group.path]):
        yield


@contextmanager
def _backup(job: TrialJob, share: float) -> Iterator[None]:
    """Whole files, read past the page cache by several at once."""
    with disk.file_of(128 << 20) as path, disk.flood(path, max(round(6 * share), 2)):
        yield


@contextmanager
def _limit(job: TrialJob, share: float) -> Iterator[None]:
    """The job's group may read its disk so fast that its piece of a step takes as long as wanted."""
    assert job.extra.path is not None
    with disk.slow_reads(job.groups["blkio"], job.extra.path, round(READ_BYTES / (job.step_seconds() * share))):
        yield


@contextmanager
def _slow_files(job: TrialJob, share: float) -> Iterator[None]:
    """Each read takes as long as wanted."""
    assert job.extra.program is not None
    with job.extra.program.order(f"{job.step_seconds() * share:.6f}"):
        yield


FAULTS = (
    OutsideFault("fio", "fio on the disk that the job reads", BLOCK_IO, _fio, ("fio",), Extra.FILE, FIO),
    OutsideFault(
        "io-stressor",
        "stress-ng --iomix on the disk that the job reads",
        BLOCK_IO | {"cpu_contention"},
        _iomix,
        ("stress-ng",),
        Extra.FILE,
        ("stress-ng:stress-ng",),
    ),
    OutsideFault(
        "backup", "whole files read past the page cache", BLOCK_IO, _backup, ("fault-reader", "dd"), Extra.FILE
    ),
    OutsideFault("io-limit", "a limit on what the job's group may read", BLOCK_IO, _limit, extra=Extra.DEVICE),
    # The kernel waits for a program: a disk for one user, a network or a process for another.
    OutsideFault(
        "slow-files",
        "a file system in user space that answers late",
        BLOCK_IO | {"network", "own_wait"},
        _slow_files,
        extra=Extra.FUSE,
    ),
)
