"""What looks like a fault and delays nothing: a diagnosis must not blame any of it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.faults.injectors import NotPossible, cpu, disk


def one_cpu_of_two(cpus: int) -> tuple[str, str]:
    """A CPU for the job, and those for all others, as taskset takes them."""
    if cpus < 2:
        raise NotPossible("needs two CPUs")
    if shutil.which("taskset") is None:
        raise NotPossible("taskset is not installed")
    return "0", f"1-{cpus - 1}"


@contextmanager
def hogs_elsewhere(count: int, cpus: str) -> Iterator[None]:
    """Busy neighbours on CPUs that the job does not use."""
    with cpu.hogs(count, cpus=cpus):
        yield


@contextmanager
def unrelated_reads(device: Path) -> Iterator[None]:
    """Disk traffic of a neighbour, on a disk that the job does not read."""
    with disk.readers(device, 1):
        yield


@contextmanager
def weak_hogs(count: int, cpus: str) -> Iterator[None]:
    """Neighbours of the lowest priority on the job's own CPU: they run while the job waits for the GPU anyway."""
    with cpu.hogs(count, cpus=cpus, nice=19):
        yield
