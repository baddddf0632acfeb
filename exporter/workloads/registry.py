"""Registry of traced processes: assigns identities, holds processes back until theirs is known, and detects lost exits.

In: process rows and communicators from the kernel, /proc, names from an orchestrator. Out: the identity of each process, renames.
A process without a rank in its environment is held back for at most HOLD_BACK_TICKS ticks, until NCCL is initialized, and one
whose container has no name yet for NAME_TICKS, until the orchestrator reports it. What becomes known later is a new identity, and
the caller moves the totals.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from exporter import catalog
from exporter.errors import NotPossibleHere, ProcessGone
from exporter.host.processes import Processes
from exporter.host.programs import lineage, mapped_libraries, program
from exporter.kernel.process_rows import CommunicatorRow, ProcessRow
from exporter.model import Identity, label_value
from exporter.totals import Series, Totals
from exporter.units import BOOT_TICKS, NANOSECONDS
from exporter.workloads import engine as engines
from exporter.workloads import rank as ranks
from exporter.workloads import slurm
from exporter.workloads.container import Container, parse_cgroup
from exporter.workloads.container_names import ContainerNames
from exporter.workloads.engine import engine_by_libraries, engine_by_programs
from exporter.workloads.identity import name_process
from exporter.workloads.orchestrators.pod_cache import PodCache
from exporter.workloads.rank import Communicator, Rank, rank_from_communicators, rank_from_environment
from exporter.workloads.slurm import SlurmJob, slurm_job

HOLD_BACK_TICKS = 2
NAME_TICKS = 20
CHECKED_AT_ONCE = 16
LIBRARIES_READ_AT_ONCE = 2
_ENVIRONMENT_NAMES = ranks.ENVIRONMENT_NAMES | slurm.ENVIRONMENT_NAMES | engines.ENVIRONMENT_NAMES
OTHER = "other"
"""Rank and container of all workloads beyond the limit."""


class Rename(NamedTuple):
    """A process that gets another identity. old: the one before."""

    process: int
    old: Identity


@dataclass(slots=True)
class _TracedProcess:
    """A running process, and what its identity is made from.

    is_readable: its /proc could be read. identity_communicator_rank: the communicator_rank when the identity was made.
    """

    row: ProcessRow
    rank: Rank
    container: Container
    slurm_job: SlurmJob
    is_readable: bool = False
    engine: str = ""
    communicator_rank: str = ""
    identity_communicator_rank: str = ""
    identity: Identity | None = None
    ticks_held_back: int = 0
    communicators: Sequence[CommunicatorRow] = ()
    container_names: ContainerNames | None = None


class WorkloadRegistry:
    """The running processes, by process number.

    node: value of the `node` label. max_workloads: identities at a time. pods: names from the orchestrator, None without one.
    with_engines: whether to find out their serving engines.
    """

    def __init__(
        self,
        processes: Processes,
        node: str,
        max_workloads: int,
        pods: PodCache | None = None,
        *,
        with_engines: bool = True,
    ) -> None:
        self._processes = processes
        self._with_engines = with_engines
        self._node = node
        self._max_workloads = max_workloads
        self._pods = pods
        self._traced: dict[int, _TracedProcess] = {}
        self._admitted_identities: set[Identity] = set()
        self._awaiting_liveness_check: list[int] = []
        self._without_engine: deque[int] = deque()

    def __len__(self) -> int:
        return len(self._traced)

    def __contains__(self, process: int) -> bool:
        return process in self._traced

    def admit(self, rows: Mapping[int, ProcessRow]) -> None:
        """Add the processes that are not known yet; reads their /proc once."""
        unknown = rows.keys() - self._traced.keys()
        newest = {row.tgid: number for number, row in sorted(rows.items())} if unknown else {}
        for number in sorted(unknown):
            row = rows[number]
            self._traced[number] = traced = self._read_process(row) if newest[row.tgid] == number else _unknown(row)
            if traced.is_readable and self._with_engines and not traced.engine:
                self._without_engine.append(number)

    def _read_process(self, row: ProcessRow) -> _TracedProcess:
        """A process that has ended, whose tgid was reused or is not visible has neither rank nor container."""
        processes, tgid = self._processes, row.tgid
        if not tgid:
            return _unknown(row)
        try:
            environment = processes.environ(tgid, _ENVIRONMENT_NAMES)
            container = parse_cgroup(processes.cgroup(tgid))
            if not _has_started(row, processes.start_time_ticks(tgid)):
                return _unknown(row)
        except (ProcessGone, NotPossibleHere):
            return _unknown(row)
        job = slurm_job(environment, container.slurm_job_id)
        traced = _TracedProcess(row, rank_from_environment(environment), container, job, is_readable=True)
        if self._with_engines:
            prefix = environment.get(engines.PREFIX_NAME, "")
            traced.engine = engine_by_programs(lineage(processes, tgid), prefix)
        return traced

    def _read_some_libraries(self) -> None:
        """Look for an engine in /proc/TGID/maps of the next few processes whose programs show none; the file is long."""
        for _ in range(min(LIBRARIES_READ_AT_ONCE, len(self._without_engine))):
            traced = self._traced.get(self._without_engine.popleft())
            if traced is not None and self._is_alive(traced.row):
                tgid = traced.row.tgid
                own = program(self._processes, tgid)
                traced.engine = engine_by_libraries(own.arguments, mapped_libraries(self._processes, tgid))

    def update_identities(self, communicators: Mapping[int, Sequence[CommunicatorRow]]) -> list[Rename]:
        """Assign identities to processes whose names are known by now; returns those that change. Call once a tick."""
        self._read_some_libraries()
        renames = []
        for number, traced in self._traced.items():
            rows = communicators.get(number, ())
            # Names are kept when the pod is gone before its last process.
            names = (
                self._pods.names_of(traced.container) if self._pods is not None else None
            ) or traced.container_names
            if traced.identity is not None and rows == traced.communicators and names == traced.container_names:
                continue
            has_new_names = names != traced.container_names
            traced.container_names = names
            traced.communicators = rows
            known = [Communicator(row.hash, row.rank, row.ranks, row.created_ns) for row in rows if row.rank >= 0]
            # The rank is kept when its communicator is destroyed.
            traced.communicator_rank = rank_from_communicators(known) or traced.communicator_rank
            if traced.identity is None and traced.ticks_held_back < self._hold_back_ticks(traced):
                traced.ticks_held_back += 1
                continue
            if (
                traced.identity is None
                or has_new_names
                or traced.communicator_rank != traced.identity_communicator_rank
            ):
                identity = self._make_identity(traced)
            else:
                identity = traced.identity
            if traced.identity not in (None, identity):
                assert traced.identity is not None  # noqa: S101 - `in` does not narrow
                renames.append(Rename(number, traced.identity))
            traced.identity = identity
        return renames

    def _hold_back_ticks(self, traced: _TracedProcess) -> int:
        """How long to hold it back for a name or a rank that may still come."""
        has_rank = bool(traced.rank.rank or traced.communicator_rank)
        lacks_name = bool(traced.container.id or traced.container.pod_uid) and not (
            traced.container_names and traced.container_names.container
        )
        if lacks_name and self._pods is not None and self._pods.is_worth_waiting_for:
            return NAME_TICKS
        return 0 if has_rank else HOLD_BACK_TICKS

    def _make_identity(self, traced: _TracedProcess) -> Identity:
        """Its identity; beyond the limit of workloads the shared one."""
        traced.identity_communicator_rank = traced.communicator_rank
        identity = name_process(
            node=self._node,
            rank=traced.rank,
            communicator_rank=traced.communicator_rank,
            container=traced.container,
            names=traced.container_names,
        )
        if identity not in self._admitted_identities and len(self._admitted_identities) >= self._max_workloads:
            return Identity(self._node, rank=OTHER, container=OTHER)
        self._admitted_identities.add(identity)
        return identity

    def expire(self, retained: Iterable[Identity]) -> None:
        """Free the places of identities that no process has any more. retained: those whose totals are still exported."""
        self._admitted_identities &= {*retained, *self.identities().values()}

    def tgid(self, process: int) -> int:
        """The tgid in the exporter's pid namespace; 0 when it is not visible there."""
        traced = self._traced.get(process)
        return traced.row.tgid if traced else 0

    def tgids(self) -> dict[int, int]:
        """Process number -> tgid, as tgid() returns it."""
        return {number: traced.row.tgid for number, traced in self._traced.items()}

    def identities(self) -> dict[int, Identity]:
        """Process number -> identity, without processes that are held back."""
        return {number: traced.identity for number, traced in self._traced.items() if traced.identity is not None}

    def engines(self) -> dict[int, str]:
        """Process number -> engine, of processes that have one."""
        return {number: traced.engine for number, traced in self._traced.items() if traced.engine}

    def remove(self, process: int) -> Identity | None:
        """Remove a process that has ended. Returns the identity its totals go to; None when it was never admitted."""
        traced = self._traced.pop(process, None)
        if traced is None:
            return None
        return traced.identity or self._make_identity(traced)

    def queue_liveness_checks(self) -> None:
        """Have find_ended() check every process once."""
        self._awaiting_liveness_check = list(self._traced)

    def find_ended(self) -> list[int]:
        """Check the next few queued processes; returns those that have ended although no exit event arrived.

        A process has ended when its /proc entry is gone or belongs to another process. Few at a time: each check costs three
        system calls, and a full node has a thousand processes.
        """
        due, self._awaiting_liveness_check = (
            self._awaiting_liveness_check[:CHECKED_AT_ONCE],
            self._awaiting_liveness_check[CHECKED_AT_ONCE:],
        )
        known = [(number, self._traced[number].row) for number in due if number in self._traced]
        return [number for number, row in known if not self._is_alive(row)]

    def _is_alive(self, row: ProcessRow) -> bool:
        if not row.tgid:
            return True  # not visible in /proc: its exit event has to suffice
        try:
            started_ticks = self._processes.start_time_ticks(row.tgid)
        except ProcessGone:
            return False
        except NotPossibleHere:
            return True
        return _has_started(row, started_ticks)

    def workload_info(self) -> Totals:
        """gpustall_workload_info of every process within the limit of workloads."""
        return {
            number: {Series(catalog.workload.INFO, _info_labels(traced)): 1}
            for number, traced in self._traced.items()
            if traced.identity is None or traced.identity.rank != OTHER
        }


def _unknown(row: ProcessRow) -> _TracedProcess:
    """A process whose /proc cannot be read."""
    return _TracedProcess(row, Rank(), Container(), SlurmJob())


def _has_started(row: ProcessRow, at_ticks: int) -> bool:
    """Whether the process in /proc is this one: start times there are rounded to hundredths of a second."""
    return abs(at_ticks - row.start_ns * BOOT_TICKS // NANOSECONDS) <= 1


def _info_labels(traced: _TracedProcess) -> tuple[str, ...]:
    """In the order of catalog.workload.INFO.labels."""
    values = (
        str(traced.row.tgid or ""),
        traced.row.comm.decode("utf-8", "replace"),
        traced.rank.local_rank,
        traced.rank.world_size,
        traced.rank.run_id,
        traced.slurm_job.id,
        traced.slurm_job.name,
        traced.slurm_job.partition,
        traced.slurm_job.account,
        traced.container.pod_uid,
        traced.container.id,
        traced.container.runtime,
        traced.container.unit,
    )
    return tuple(label_value(value) for value in values)
