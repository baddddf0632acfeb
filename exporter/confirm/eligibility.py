"""Which processes may be paused for two seconds: not the job, nothing that it needs, and nothing that the machine needs.

In: facts from /proc. Out: a reason to exclude a process, or none. In doubt there is a reason. A process chooses its name, and
those below it their cgroups' names; whatever it chooses can only add a reason.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Final

from exporter.errors import ProcessGone
from exporter.host.processes import Processes
from exporter.text.shell import shell_word

KTHREADD = 2  # parent of all kernel threads
SYSTEM_CGROUPS: Final = frozenset(
    (
        "system.slice",
        "init.scope",
        "kubelet",
        "kubelet.slice",
        "kubelet.service",
        "kube.slice",
        "runtime",
        "runtime.slice",
        "podruntime",
        "podruntime.slice",
    )
)
"""Cgroups of a machine's own services, wherever they are: a node of a cluster may be a container."""
SYSTEM_PROGRAMS: Final = re.compile(
    r"systemd.*|\(sd-.*|init|dbus-.*|sshd.*|login|agetty|udevd?|NetworkManager|rsyslogd|auditd|cron|crond"
    r"|containerd.*|dockerd|docker-.*|crio|cri-o|conmon.*|runc|crun|podman|buildkitd|lxc-.*|lxcfs|incusd|lxd"
    r"|kubelet|kube-.*|k3s.*|k0s.*|rke2.*|etcd|slurm.*|munged|amazon-.*|ecs-.*|agent"
    r"|nvidia-.*|nv-.*|dcgm.*|gpu-stall-expor.*"
)
"""Names of programs that a machine needs, at most 15 characters of each. A job that has one is not paused."""
_MAX_ANCESTORS = 64

Resolve = Callable[[str], Sequence[str]]
"""The text of /proc/TGID/cgroup -> the path in every hierarchy, from its root."""


def as_read(text: str) -> tuple[str, ...]:
    """Paths as they are in /proc: from the root if the reader is in the machine's cgroup namespace."""
    return tuple(line.split(":", 2)[2] for line in text.split("\n") if line.count(":") >= 2)


@dataclass(frozen=True, slots=True)
class ProcessFacts:
    """ancestors: the parent first. cgroups: the process's path in every hierarchy."""

    tgid: int
    comm: str
    start_time_ticks: int
    ancestors: tuple[int, ...]
    cgroups: tuple[str, ...]


def read_facts(processes: Processes, tgid: int, resolve: Resolve = as_read) -> ProcessFacts:
    """Raises ProcessGone, or NotPossibleHere without permission. No cgroups where the kernel has none."""
    stat = processes.stat(tgid)
    cgroups = tuple(resolve(_cgroup(processes, tgid)))
    ancestors = tuple(_ancestors(processes, stat.parent_tgid))
    return ProcessFacts(tgid, processes.comm(tgid), stat.start_time_ticks, ancestors, cgroups)


def _cgroup(processes: Processes, tgid: int) -> str:
    try:
        return processes.cgroup(tgid)
    except ProcessGone:  # or there is no such file, on a kernel without cgroups
        if processes.is_alive(tgid):
            return ""
        raise


def _ancestors(processes: Processes, tgid: int) -> Sequence[int]:
    found: list[int] = []
    while tgid > 0 and len(found) < _MAX_ANCESTORS:
        found.append(tgid)
        try:
            tgid = processes.stat(tgid).parent_tgid
        except ProcessGone:
            break
    return found


def reason_to_exclude(
    process: ProcessFacts, job: ProcessFacts, own_tgids: Collection[int], protected: Collection[ProcessFacts] = ()
) -> str:
    """Why a process must not be paused; "" if it may be.

    own_tgids: this process and its ancestors. protected: processes whose cgroups nothing is paused in, nor above them.
    """
    if process.tgid == 1:
        return "it is init"
    if process.tgid == KTHREADD or KTHREADD in process.ancestors:
        return "it is a kernel thread"
    if process.tgid == job.tgid or job.tgid in process.ancestors or process.tgid in job.ancestors:
        return "it belongs to the job"
    if len(process.ancestors) >= _MAX_ANCESTORS or len(job.ancestors) >= _MAX_ANCESTORS:
        return f"it or the job has {_MAX_ANCESTORS} ancestors or more, so what belongs to the job is not known"
    if process.tgid in own_tgids:
        return "this command runs below it"
    return _reason_in_cgroups(process, job, protected)


def _reason_in_cgroups(process: ProcessFacts, job: ProcessFacts, protected: Collection[ProcessFacts]) -> str:
    if not process.cgroups:
        return "it has no cgroup, so it may be a service of the machine"
    if any(not _is_from_the_root(path) for path in process.cgroups):
        return (
            "its cgroup cannot be followed to the root of the hierarchy from here: run the command on the node itself"
        )
    if set(process.cgroups) == {"/"}:
        return "it is in the root cgroup, so it may be a service of the machine"
    if set(process.cgroups) == set(job.cgroups):
        return "it is in the job's cgroup"
    if any(name in SYSTEM_CGROUPS for path in process.cgroups for name in path.split("/")):
        return "it is a system service"
    if SYSTEM_PROGRAMS.fullmatch(process.comm):
        return "it has the name of a program that the machine needs"
    for one in protected:
        if _is_at_or_above(process.cgroups, one.cgroups):
            return f"its cgroup contains process {one.tgid} ({shell_word(one.comm)})"
    return ""


def _is_from_the_root(path: str) -> bool:
    return path.startswith("/") and ".." not in path.split("/")


def _is_at_or_above(cgroups: Sequence[str], others: Sequence[str]) -> bool:
    """Whether no hierarchy has a cgroup that these processes do not share; also if the hierarchies differ."""
    if len(cgroups) != len(others):
        return True
    return all(
        path in ("/", other) or other.startswith(f"{path}/") for path, other in zip(cgroups, others, strict=True)
    )
