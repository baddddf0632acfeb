"""The job and its culprits as they are at the moment of an event: CPUs, control groups, and what manages them.

In: process ids, /proc, the mounted hierarchies. Out: a ProcessContext that is complete. Read when a chain changes, not at each
tick: a few files of each process, and a system call for each thread.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple

from exporter.causes import Cause
from exporter.chains.remedies.commands import CPU, CPUSET, FREEZER, IO, MEMORY
from exporter.chains.remedies.context import ControlGroup, ManagedBy, NodeContext, ProcessContext, RunningProcess
from exporter.chains.remedies.cpus import parse_cpus
from exporter.errors import NotPossibleHere, ProcessGone
from exporter.host.cgroups import Hierarchy, hierarchy_of, unified_hierarchy, with_ancestors
from exporter.host.processes import Processes
from exporter.pipeline.node_context import node_root
from exporter.pipeline.process_context import STATUS_BYTES, allowed_cpus
from exporter.units import NANOSECONDS
from exporter.workloads.container import parse_cgroup, seen_from

THREADS_MAX: Final = 4096
"""The limit for all GPU processes together, and for any other process."""
_JOBS_MAX: Final = 256
_KEPT_NS: Final = NANOSECONDS  # what is read of all GPU processes
_ANCESTORS_MAX: Final = 16
_FILES: Final = {
    (CPU, 1): "cpu.shares",
    (CPU, 2): "cpu.weight",
    (CPUSET, 1): "cpuset.effective_cpus",
    (CPUSET, 2): "cpuset.cpus.effective",
    (MEMORY, 1): "memory.limit_in_bytes",
    (MEMORY, 2): "memory.max",
    (IO, 1): "blkio.throttle.read_bps_device",
    (IO, 2): "io.max",
    (FREEZER, 1): "freezer.state",
    (FREEZER, 2): "cgroup.freeze",
}
"""A file of each group that has the controller."""
_WITH_CULPRITS: Final = frozenset((Cause.CPU_CONTENTION, Cause.EXPORTER, Cause.BLOCK_IO, Cause.GPU_CONTENTION))
_ON_CPUS: Final = frozenset((Cause.CPU_CONTENTION, Cause.EXPORTER))

_PARENT, _FLAGS, _POLICY = (
    1,
    6,
    38,
)  # fields 4, 9 and 41 of stat(5); field 3 is the first one behind the command's parentheses
_KERNEL_THREAD: Final = 0x0020_0000  # PF_KTHREAD
_REALTIME: Final = (os.SCHED_FIFO, os.SCHED_RR)
_STAT_BYTES: Final = 4096
_AUTOGROUP_BYTES: Final = 256


def mounted_hierarchies(proc: Path) -> dict[str, Hierarchy]:
    """By controller. Version 2 freezes without one."""
    found = {name: hierarchy_of(name, proc) for name in (CPU, CPUSET, MEMORY, IO, FREEZER)}
    found[FREEZER] = found[FREEZER] or unified_hierarchy(proc)
    return {name: hierarchy for name, hierarchy in found.items() if hierarchy}


class _OfJobs(NamedTuple):
    """What was read of all GPU processes. paths: of their control groups, in any hierarchy."""

    tgids: frozenset[int]
    read_ns: int
    free_cpus: frozenset[int]
    paths: frozenset[str]


_NO_JOBS: Final = _OfJobs(frozenset(), 0, frozenset(), frozenset())


class RunningProcesses:
    """Reads /proc.

    processes: with paths of control groups from their root. hierarchies: by controller; those that are mounted by default.
    affinity: CPUs of a thread. cpus: the kernel's folder of CPUs. machine_id: of the container that the node is, "" without one.
    """

    def __init__(
        self,
        processes: Processes,
        node: NodeContext,
        *,
        hierarchies: Mapping[str, Hierarchy] | None = None,
        affinity: Callable[[int], Collection[int]] = os.sched_getaffinity,
        cpus: Path = Path("/sys/devices/system/cpu"),
        machine_id: str = "",
    ) -> None:
        self._processes = processes
        self._node = node
        self._hierarchies = mounted_hierarchies(processes.proc) if hierarchies is None else hierarchies
        self._root = node_root(processes.proc)
        self._affinity = affinity
        self._cpus = cpus
        self._machine_id = machine_id
        self._last = _NO_JOBS

    def add_to(
        self, context: ProcessContext, cause: Cause, traced_tgids: Collection[int], now_ns: int = 0
    ) -> ProcessContext:
        """With the node, and with those of its processes that still run. now_ns: CLOCK_MONOTONIC."""
        context = context._replace(node=self._node)
        job = self._running(context.tgid)
        if job is None or cause not in _WITH_CULPRITS:
            return context._replace(job=job)
        jobs, launchers = {*traced_tgids, context.tgid}, self._ancestors(context.tgid)
        culprits = (
            self._culprit(tgid, jobs, launchers)
            for tgid, start_ticks in zip(context.culprit_tgids, context.culprit_start_ticks, strict=False)
            if start_ticks and self._node.has_machine_ids
        )
        found = tuple(one for one in culprits if one)
        of_jobs = self._of_jobs(jobs, now_ns) if cause in _ON_CPUS else _NO_JOBS
        return context._replace(job=job, culprits=found, free_cpus=of_jobs.free_cpus, job_paths=of_jobs.paths)

    def _running(self, tgid: int) -> RunningProcess | None:
        """None for a process that has ended, or cannot be read."""
        if tgid <= 0:
            return None
        try:
            stat = self._processes.read(tgid, "stat", _STAT_BYTES).rpartition(b")")[2].split()
            if stat[0] in (b"Z", b"X") and self._processes.readable_id(tgid) == tgid:
                return None
            flags, policy = int(stat[_FLAGS]), int(stat[_POLICY])
            cgroup = self._processes.cgroup(tgid, "surrogateescape")
            groups = self._groups(cgroup)
            return RunningProcess(
                tgid,
                cpus=self._cpus_of(tgid),
                cpuset=self._cpuset(groups.get(CPUSET)),
                groups=groups,
                managed_by=self._managed_by(cgroup),
                autogroup=self._autogroup(tgid),
                is_kernel_thread=bool(flags & _KERNEL_THREAD),
                is_realtime=policy in _REALTIME,
            )
        except (ProcessGone, NotPossibleHere, IndexError, ValueError):
            return None

    def _culprit(self, tgid: int, jobs: Collection[int], launchers: Collection[int]) -> RunningProcess | None:
        """launchers: what has started the job, such as torchrun; their other children are not the job's."""
        found = self._running(tgid)
        if found is None:
            return None
        is_of_a_job = tgid in launchers or any(one in jobs for one in (tgid, *self._ancestors(tgid)))
        return replace(found, is_of_a_job=is_of_a_job)

    def _ancestors(self, tgid: int) -> list[int]:
        found: list[int] = []
        while len(found) < _ANCESTORS_MAX:
            try:
                tgid = self._processes.stat(tgid).parent_tgid
            except (ProcessGone, NotPossibleHere):
                break
            if tgid <= 0:
                break
            found.append(tgid)
        return found

    def _cpus_of(self, tgid: int) -> frozenset[int]:
        return self._cpus_and_threads(tgid, THREADS_MAX)[0]

    def _cpus_and_threads(self, tgid: int, threads_max: int) -> tuple[frozenset[int], int]:
        """And how many threads were looked at. All CPUs that are online for a process that cannot be read, or has more threads:
        then none is taken for free.
        """
        try:
            found = set(parse_cpus(allowed_cpus(self._processes.read(tgid, "status", STATUS_BYTES))))
            with os.scandir(self._processes.proc / str(tgid) / "task") as entries:
                tids = [int(entry.name) for entry in islice(entries, max(threads_max, 0) + 1) if entry.name.isdecimal()]
        except ProcessGone:
            return frozenset(), 0
        except (NotPossibleHere, OSError):
            return self._online(), 0
        if len(tids) > threads_max:
            return self._online(), len(tids)
        for tid in tids:
            try:
                found.update(self._affinity(tid))
            except OSError:  # it has ended
                continue
        return frozenset(found), len(tids)

    def _of_jobs(self, jobs: Collection[int], now_ns: int) -> _OfJobs:
        """For several chains of one moment it is read once: all threads of all GPU processes."""
        if self._last.tgids != frozenset(jobs) or not 0 <= now_ns - self._last.read_ns < _KEPT_NS:
            self._last = _OfJobs(frozenset(jobs), now_ns, self._free_cpus(jobs), frozenset(self._paths_of(jobs)))
        return self._last

    def _free_cpus(self, jobs: Collection[int]) -> frozenset[int]:
        """Without those that are isolated from the scheduler: they are kept for something. None with very many threads."""
        used: set[int] = set()
        left = THREADS_MAX
        for tgid in jobs:
            cpus, threads = self._cpus_and_threads(tgid, left)
            used |= cpus
            left -= threads
        return self._online() - used - parse_cpus(self._cpu_file("isolated"))

    def _paths_of(self, jobs: Collection[int]) -> Iterator[str]:
        for tgid in islice(jobs, _JOBS_MAX):
            with suppress(ProcessGone, NotPossibleHere):
                yield from _paths(self._processes.cgroup(tgid, "surrogateescape")).values()

    def _online(self) -> frozenset[int]:
        return parse_cpus(self._cpu_file("online"))

    def _cpu_file(self, name: str) -> str:
        try:
            return (self._cpus / name).read_text(encoding="ascii").strip()
        except OSError:
            return ""

    def _groups(self, cgroup: str) -> dict[str, ControlGroup]:
        paths = _paths(cgroup)
        found = {}
        for controller, hierarchy in self._hierarchies.items():
            path = paths.get("" if hierarchy.version == 2 else controller)
            if path is not None:
                mount = str(hierarchy.root).removeprefix(self._root)
                controlled = self._controlled(hierarchy, path, _FILES[controller, hierarchy.version])
                found[controller] = ControlGroup(mount, hierarchy.version, path, controlled)
        return found

    def _controlled(self, hierarchy: Hierarchy, path: str, file: str) -> str:
        groups = with_ancestors(path) if path else ()
        return next((one for one in groups if os.path.lexists(f"{hierarchy.root}{one}/{file}")), "")

    def _cpuset(self, group: ControlGroup | None) -> frozenset[int]:
        """Empty if it is not known."""
        if group is None:
            return frozenset()
        text = self._hierarchies[CPUSET].read(group.controlled, _FILES[CPUSET, group.version]) or ""
        return parse_cpus(text.strip())

    def _managed_by(self, cgroup: str) -> ManagedBy:
        """What the process has chosen, and what a user or service may have, is left out."""
        container = seen_from(parse_cgroup(cgroup), self._machine_id)
        if container.owner:
            return ManagedBy(slurm_job=container.slurm_job_id)
        is_own_scope = not container.id or container.unit.endswith(f"-{container.id}.scope")
        return ManagedBy(
            container.id, container.runtime, container.unit if is_own_scope else "", slurm_job=container.slurm_job_id
        )

    def _autogroup(self, tgid: int) -> str:
        """`/autogroup-25`; "" where there is none."""
        if not self._node.has_autogroups:
            return ""
        try:
            text = self._processes.read(tgid, "autogroup", _AUTOGROUP_BYTES).decode("ascii", "replace")
        except (ProcessGone, NotPossibleHere):
            return ""
        return text.partition(" ")[0]


def _paths(cgroup: str) -> dict[str, str]:
    """Controller -> path, "" for the root; the controller of version 2 is ""."""
    found: dict[str, str] = {}
    for line in cgroup.split("\n"):
        _, _, rest = line.partition(":")
        controllers, colon, path = rest.partition(":")
        if colon:
            found.update((one, path.rstrip("/")) for one in controllers.split(","))
    return found
