"""Facts about this kernel that the programs cannot find out themselves.

In: the kernel's BTF, /proc and /sys. Out: KernelFacts, which the loader writes into the map `settings` and sizes maps by.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from exporter.kernel.abi import GPU_MAJORS
from exporter.kernel.libbpf import Libbpf

PID_NAMESPACE_OF_MACHINE = 0xEFFFFFFC
"""Inode number of the first pid namespace: PROC_PID_INIT_INO in include/linux/proc_ns.h."""


@dataclass(frozen=True, slots=True)
class KernelFacts:
    """preempt_count_offset: from a CPU's run queue to its preemption count, 0: unknown (then no wake-up path is resolved).

    gpu_majors: device numbers of the GPU driver, at most GPU_MAJORS. cpus: possible CPUs.
    """

    preempt_count_offset: int
    is_cpu_cgroup_v1: bool
    gpu_majors: tuple[int, ...]
    cpus: int


def kernel_facts(libbpf: Libbpf, procfs: Path = Path("/proc"), sysfs: Path = Path("/sys")) -> KernelFacts:
    """The facts of the running kernel. Raises KernelRefused if its type information cannot be read."""
    types = libbpf.kernel_types()
    try:
        per_cpu_offsets = types.per_cpu_offsets({"runqueues", "__preempt_count", "pcpu_hot"})
        member_offset = types.member_offset("pcpu_hot", "preempt_count")
    finally:
        types.close()
    return KernelFacts(
        preempt_count_offset=preempt_count_offset(per_cpu_offsets, member_offset),
        is_cpu_cgroup_v1=has_cpu_cgroup_v1(_text(procfs / "cgroups")),
        gpu_majors=gpu_majors(_text(procfs / "devices")),
        cpus=possible_cpus(_text(sysfs / "devices/system/cpu/possible")),
    )


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii")
    except OSError:
        return ""


def preempt_count_offset(per_cpu_offsets: Mapping[str, int], member_offset: int | None) -> int:
    """From a CPU's run queue to its preemption count; 0 if unknown. member_offset: of the count in struct pcpu_hot.

    The count is a variable of its own, or from 6.2 to 6.14 a member of pcpu_hot.
    """
    if "runqueues" not in per_cpu_offsets:
        return 0
    if "__preempt_count" in per_cpu_offsets:
        return per_cpu_offsets["__preempt_count"] - per_cpu_offsets["runqueues"]
    if "pcpu_hot" in per_cpu_offsets and member_offset is not None:
        return per_cpu_offsets["pcpu_hot"] + member_offset - per_cpu_offsets["runqueues"]
    return 0


def has_cpu_cgroup_v1(cgroups: str) -> bool:
    """From /proc/cgroups: `cpu 3 41 1` is a controller with hierarchy 3; controllers of cgroup v2 have hierarchy 0."""
    for line in cgroups.splitlines():
        name, *rest = line.split()
        if name == "cpu" and rest:
            return rest[0] != "0"
    return False


def gpu_majors(devices: str) -> tuple[int, ...]:
    """From /proc/devices: `195 nvidia` under `Character devices:`; all names that begin with nvidia."""
    characters = devices.partition("Block devices:")[0]
    found = (line.split() for line in characters.splitlines())
    return tuple(int(words[0]) for words in found if len(words) == 2 and words[1].startswith("nvidia"))[:GPU_MAJORS]


def possible_cpus(possible: str) -> int:
    """From /sys/devices/system/cpu/possible: `0-191` is 192; 1024 if it cannot be read."""
    try:
        return int(possible.strip().rpartition(",")[2].rpartition("-")[2]) + 1
    except ValueError:
        return 1024
