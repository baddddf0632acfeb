"""Reads the /proc of traced processes, once each: rank, container, batch job, engine.

In: a row of the kernel, /proc, a reader of what belongs to tenants. Out: a WorkloadProcess.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Mapping
from typing import Final, Protocol

from exporter.errors import NotPossibleHere, ProcessGone
from exporter.host.processes import Processes
from exporter.host.programs import Program
from exporter.kernel.process_rows import ProcessRow
from exporter.units import BOOT_TICKS, NANOSECONDS
from exporter.workloads import engine as engines
from exporter.workloads import rank as ranks
from exporter.workloads import slurm
from exporter.workloads.container import parse_cgroup, seen_from
from exporter.workloads.engine import engine_by_libraries, engine_by_programs
from exporter.workloads.machine import machine_container_id
from exporter.workloads.owner import owner_of
from exporter.workloads.rank import rank_from_environment
from exporter.workloads.slurm import slurm_job
from exporter.workloads.workload_process import WorkloadProcess, unread_process

LIBRARIES_READ_AT_ONCE: Final = 2
_ENVIRONMENT_NAMES: Final = ranks.ENVIRONMENT_NAMES | slurm.ENVIRONMENT_NAMES | engines.ENVIRONMENT_NAMES


class Reads(Protocol):
    """Reads what belongs to tenants; see host/tenant_reads.py."""

    def environment(self, tgid: int, names: Collection[str], expected: Collection[str] = ()) -> Mapping[str, str]: ...

    def programs(self, tgid: int) -> Iterable[Program]: ...

    def mapped_libraries(self, tgid: int) -> Collection[str]: ...


class ProcessReader:
    """reads: of what belongs to tenants. with_engines: whether to find out serving engines."""

    def __init__(self, processes: Processes, reads: Reads, *, with_engines: bool) -> None:
        self._processes = processes
        self._reads = reads
        self._with_engines = with_engines
        self._machine_id = machine_container_id(processes)
        self._without_engine: deque[int] = deque()

    def read(self, number: int, row: ProcessRow, uid: int) -> WorkloadProcess:
        """A process that has ended, whose tgid was reused or is not visible has neither rank nor container."""
        processes, tgid = self._processes, row.tgid
        if not tgid:
            return unread_process(row, uid)
        try:
            environment = self._reads.environment(tgid, _ENVIRONMENT_NAMES, ranks.RANKS_OF_LAUNCHERS)
            cgroup_text = processes.cgroup(tgid)
            container = seen_from(parse_cgroup(cgroup_text), self._machine_id)
            if not _has_started(row, processes.start_time_ticks(tgid)):
                return unread_process(row, uid)
        except (ProcessGone, NotPossibleHere):
            return unread_process(row, uid)
        job = slurm_job(environment, container.slurm_job_id)
        owner = owner_of(cgroup_text, uid)
        traced = WorkloadProcess(row, owner, rank_from_environment(environment), container, job, is_readable=True)
        if self._with_engines:
            prefix = environment.get(engines.PREFIX_NAME, "")
            traced.engine = engine_by_programs(self._reads.programs(tgid), prefix)
            if not traced.engine:
                self._without_engine.append(number)
        return traced

    def read_some_libraries(self, processes: Mapping[int, WorkloadProcess]) -> None:
        """Look for an engine in /proc/TGID/maps of the next few processes whose programs show none; the file is long.

        processes: those that are still known; however many have ended, none of them stays in the queue.
        """
        left = LIBRARIES_READ_AT_ONCE
        while left and self._without_engine:
            traced = processes.get(self._without_engine.popleft())
            if traced is None:
                continue
            left -= 1
            if self.is_alive(traced.row):
                tgid = traced.row.tgid
                arguments = next((own.arguments for own in self._reads.programs(tgid)), ())
                traced.engine = engine_by_libraries(arguments, self._reads.mapped_libraries(tgid))

    def is_alive(self, row: ProcessRow) -> bool:
        """Whether the process still runs, as far as /proc shows it."""
        if not row.tgid:
            return True  # not visible in /proc: its exit event has to suffice
        try:
            started_ticks = self._processes.start_time_ticks(row.tgid)
        except ProcessGone:
            return False
        except NotPossibleHere:
            return True
        return _has_started(row, started_ticks)


def _has_started(row: ProcessRow, at_ticks: int) -> bool:
    """Whether the process in /proc is this one: start times there are rounded to hundredths of a second."""
    return abs(at_ticks - row.start_ns * BOOT_TICKS // NANOSECONDS) <= 1
