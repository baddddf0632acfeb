"""A node with every program, a job on it, and a culprit, as a remedy's commands need them."""

from __future__ import annotations

from exporter.chains.remedies.commands import CPU, CPUSET, FREEZER, IO, MEMORY
from exporter.chains.remedies.context import ControlGroup, ManagedBy, NodeContext, ProcessContext, RunningProcess
from exporter.pipeline.node_context import PROGRAMS

CONTAINER = "ab" * 32
NODE = NodeContext(
    frozenset(PROGRAMS.split()),
    exporter="gpu-stall-exporter",
    has_systemd=True,
    has_io_classes=True,
    has_autogroups=True,
    has_pressure=True,
    has_machine_ids=True,
)


def groups(path: str, version: int = 2) -> dict[str, ControlGroup]:
    """A control group with this path in every hierarchy."""
    mounts = {
        name: "/sys/fs/cgroup" + (f"/{name}" if version == 1 else "") for name in (CPU, CPUSET, MEMORY, IO, FREEZER)
    }
    return {name: ControlGroup(mount, version, path, path) for name, mount in mounts.items()}


JOB = RunningProcess(
    4027, frozenset((0, 1)), frozenset(range(4)), groups("/kubepods/pod1/abc"), autogroup="/autogroup-1"
)
CULPRIT = RunningProcess(777, frozenset(range(4)), frozenset(range(4)), groups("/other"), autogroup="/autogroup-2")
TRAINER = ProcessContext(
    4027, "/kubepods/pod1/abc", "0-1", (777,), node=NODE, job=JOB, culprits=(CULPRIT,), free_cpus=frozenset((2, 3))
)
CROWDED = TRAINER._replace(free_cpus=frozenset())
"""No CPU is free."""
IN_CONTAINER = ManagedBy(CONTAINER, "docker", f"docker-{CONTAINER}.scope")
IN_UNIT = ManagedBy(unit="backup.service", runtime="systemd")
