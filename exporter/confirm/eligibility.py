"""Which processes may be paused for two seconds: not the job, nothing that it needs, and nothing that the machine needs.

In: facts from /proc. Out: a reason to exclude a process, or none.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from exporter.errors import ProcessGone
from exporter.host.processes import Processes

KTHREADD = 2  # parent of all kernel threads
SYSTEM_CGROUPS = ("/system.slice", "/init.scope", "/kubelet", "/runtime", "/podruntime")
"""Cgroups of a machine's own services."""
_MAX_ANCESTORS = 64


@dataclass(frozen=True, slots=True)
class ProcessFacts:
    """ancestors: the parent first. cgroups: the process's path in every hierarchy."""

    tgid: int
    comm: str
    start_time_ticks: int
    ancestors: tuple[int, ...]
    cgroups: tuple[str, ...]


def read_facts(processes: Processes, tgid: int) -> ProcessFacts:
    """Raises ProcessGone, or NotPossibleHere without permission."""
    stat = processes.stat(tgid)
    cgroups = tuple(line.split(":", 2)[2] for line in processes.cgroup(tgid).splitlines() if line.count(":") >= 2)
    ancestors = tuple(_ancestors(processes, stat.parent_tgid))
    return ProcessFacts(tgid, processes.comm(tgid), stat.start_time_ticks, ancestors, cgroups)


def _ancestors(processes: Processes, tgid: int) -> Sequence[int]:
    found: list[int] = []
    while tgid > 0 and len(found) < _MAX_ANCESTORS:
        found.append(tgid)
        try:
            tgid = processes.stat(tgid).parent_tgid
        except ProcessGone:
            break
    return found


def reason_to_exclude(process: ProcessFacts, job: ProcessFacts, own_tgids: Collection[int]) -> str:
    """Why a process must not be paused; "" if it may be. own_tgids: this process and its ancestors."""
    if process.tgid == 1:
        return "it is init"
    if process.tgid == KTHREADD or KTHREADD in process.ancestors:
        return "it is a kernel thread"
    if process.tgid == job.tgid or job.tgid in process.ancestors or process.tgid in job.ancestors:
        return "it belongs to the job"
    if set(process.cgroups) == set(job.cgroups) != {"/"}:
        return "it is in the job's cgroup"
    if process.tgid in own_tgids:
        return "this command runs below it"
    if any(path == one or path.startswith(f"{one}/") for path in process.cgroups for one in SYSTEM_CGROUPS):
        return "it is a system service"
    return ""
