"""Who may be held for two seconds? Not the job, not what it stands on, not what the machine stands on.

In: what /proc says of processes. Out: a reason against each, or none. Pure but for facts_of().
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from exporter.errors import ProcessGone
from exporter.host.processes import Processes

KERNEL = 2  # kthreadd, and its children
SYSTEM_PLACES = ("/system.slice", "/init.scope", "/kubelet", "/runtime", "/podruntime")
"""Control groups in which a machine keeps its own services."""
_MAX_LINE = 64  # of ancestors


@dataclass(frozen=True, slots=True)
class ProcessFacts:
    """Of a process. line: its ancestors, the parent first. cgroups: its path in every hierarchy."""

    tgid: int
    comm: str
    start_time_ticks: int
    line: tuple[int, ...]
    cgroups: tuple[str, ...]


def facts_of(processes: Processes, tgid: int) -> ProcessFacts:
    """Raises ProcessGone, or NotPossibleHere for a missing right."""
    stat = processes.stat(tgid)
    cgroups = tuple(line.split(":", 2)[2] for line in processes.cgroup(tgid).splitlines() if line.count(":") >= 2)
    return ProcessFacts(
        tgid, processes.comm(tgid), stat.start_time_ticks, tuple(_line(processes, stat.parent_tgid)), cgroups
    )


def _line(processes: Processes, tgid: int) -> Sequence[int]:
    found: list[int] = []
    while tgid > 0 and len(found) < _MAX_LINE:
        found.append(tgid)
        try:
            tgid = processes.stat(tgid).parent_tgid
        except ProcessGone:
            break
    return found


def reason_against(one: ProcessFacts, job: ProcessFacts, our_line: Collection[int]) -> str:
    """Why a process is left alone; "" when it may be held. our_line: this process and its ancestors."""
    if one.tgid == 1:
        return "it is the first process of the machine"
    if one.tgid == KERNEL or KERNEL in one.line:
        return "it is a thread of the kernel"
    if one.tgid == job.tgid or job.tgid in one.line or one.tgid in job.line:
        return "it belongs to the job"
    if set(one.cgroups) == set(job.cgroups) != {"/"}:
        return "it is in the job's control group"
    if one.tgid in our_line:
        return "this command runs below it"
    if any(path == place or path.startswith(f"{place}/") for path in one.cgroups for place in SYSTEM_PLACES):
        return "it is a service of the machine"
    return ""
