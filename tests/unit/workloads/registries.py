"""A WorkloadRegistry, and rows of the kernel that it is given."""

from __future__ import annotations

from pathlib import Path

from exporter.kernel.process_rows import CommunicatorRow, ProcessRow
from exporter.workloads.registry import WorkloadRegistry
from tests.support.direct_reads import DirectReads
from tests.unit.host.process_tree import process

START_NS = 47_110_000_000  # 47.11 s after boot is tick 4711, what stat_line() says
DOCKER_ID = "0123456789ab" + "c" * 52
CGROUP = f"0::/system.slice/docker-{DOCKER_ID}.scope\n".encode()
NO_CULPRIT = {"environ": b"", "cgroup": b"0::/\n"}


def row(tgid: int = 100, start_ns: int = START_NS, comm: bytes = b"python") -> ProcessRow:
    """A row of the kernel's table of processes."""
    return ProcessRow(tgid, start_ns, 7, (0,) * 6, *(0,) * 10, comm)


def communicator(rank: int, ranks: int, digest: int = 1, created_ns: int = 1) -> CommunicatorRow:
    return CommunicatorRow(digest, created_ns, rank, ranks, 1)


def registry_of(proc: Path, **files: bytes) -> WorkloadRegistry:
    """A registry on node gpu7 with process 1, tgid 100, and these files in /proc."""
    processes = process(proc, 100, **{**NO_CULPRIT, **files})
    registry = WorkloadRegistry(processes, DirectReads(processes), "gpu7", 256)
    registry.admit({1: row()})
    return registry
