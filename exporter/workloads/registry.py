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
class _Member:
    """A running process. is_known: its /proc could be read."""

    row: ProcessRow
    rank: Rank
    container: Container
    slurm_job: SlurmJob
    is_known: bool = False
    engine: str = ""
    communicator_rank: str = ""
    named_communicator_rank: str = ""
    identity: Identity | None = None
    ticks_held_back: int = 0
    communicators: Sequence[CommunicatorRow] = ()
    names: ContainerNames | None = None


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
        self._members: dict[int, _Member] = {}
        self._admitted: set[Identity] = set()
        self._unchecked: list[int] = []
        self._without_engine: deque[int] = deque()

    def __len__(self) -> int:
        return len(self._members)

    def __contains__(self, process: int) -> bool:
        return process in self._members

    def admit(self, rows: Mapping[int, ProcessRow]) -> None:
        """Add the processes that are not known yet; reads their /proc once."""
        unknown = rows.keys() - self._members.keys()
        newest = {row.tgid: number for number, row in sorted(rows.items())} if unknown else {}
        for number in sorted(unknown):
            row = rows[number]
            self._members[number] = member = self._new_member(row) if newest[row.tgid] == number else _unknown(row)
            if member.is_known and self._with_engines and not member.engine:
                self._without_engine.append(number)

    def _new_member(self, row: ProcessRow) -> _Member:
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
        member = _Member(row, rank_from_environment(environment), container, job, is_known=True)
        if self._with_engines:
            prefix = environment.get(engines.PREFIX_NAME, "")
            member.engine = engine_by_programs(lineage(processes, tgid), prefix)
        return member

    def _read_some_libraries(self) -> None:
        """Look for an engine in /proc/TGID/maps of the next few processes whose programs show none; the file is long."""
        for _ in range(min(LIBRARIES_READ_AT_ONCE, len(self._without_engine))):
            member = self._members.get(self._without_engine.popleft())
            if member is not None and self._is_alive(member.row):
                tgid = member.row.tgid
                own = program(self._processes, tgid)
                member.engine = engine_by_libraries(own.arguments, mapped_libraries(self._processes, tgid))

    def update_identities(self, communicators: Mapping[int, Sequence[CommunicatorRow]]) -> list[Rename]:
        """Assign identities to processes whose names are known by now; returns those that change. Call once a tick."""
        self._read_some_libraries()
        renames = []
        for number, member in self._members.items():
            rows = communicators.get(number, ())
            # Names are kept when the pod is gone before its last process.
            names = (self._pods.names_of(member.container) if self._pods is not None else None) or member.names
            if member.identity is not None and rows == member.communicators and names == member.names:
                continue
            is_named = names != member.names
            member.names = names
            member.communicators = rows
            known = [Communicator(row.hash, row.rank, row.ranks, row.created_ns) for row in rows if row.rank >= 0]
            # The rank is kept when its communicator is destroyed.
            member.communicator_rank = rank_from_communicators(known) or member.communicator_rank
            if member.identity is None and member.ticks_held_back < self._hold_back_ticks(member):
                member.ticks_held_back += 1
                continue
            if member.identity is None or is_named or member.communicator_rank != member.named_communicator_rank:
                identity = self._identity_of(member)
            else:
                identity = member.identity
            if member.identity not in (None, identity):
                assert member.identity is not None  # noqa: S101 - `in` does not narrow
                renames.append(Rename(number, member.identity))
            member.identity = identity
        return renames

    def _hold_back_ticks(self, member: _Member) -> int:
        """How long to hold it back for a name or a rank that may still come."""
        has_rank = bool(member.rank.rank or member.communicator_rank)
        lacks_name = bool(member.container.id or member.container.pod_uid) and not (
            member.names and member.names.container
        )
        if lacks_name and self._pods is not None and self._pods.is_worth_waiting_for:
            return NAME_TICKS
        return 0 if has_rank else HOLD_BACK_TICKS

    def _identity_of(self, member: _Member) -> Identity:
        """Its identity; beyond the limit of workloads the shared one."""
        member.named_communicator_rank = member.communicator_rank
        identity = name_process(
            node=self._node,
            rank=member.rank,
            communicator_rank=member.communicator_rank,
            container=member.container,
            names=member.names,
        )
        if identity not in self._admitted and len(self._admitted) >= self._max_workloads:
            return Identity(self._node, rank=OTHER, container=OTHER)
        self._admitted.add(identity)
        return identity

    def expire(self, retained: Iterable[Identity]) -> None:
        """Free the places of identities that no process has any more. retained: those whose totals are still exported."""
        self._admitted &= {*retained, *self.identities().values()}

    def tgid(self, process: int) -> int:
        """The tgid in the exporter's pid namespace; 0 when it is not visible there."""
        member = self._members.get(process)
        return member.row.tgid if member else 0

    def tgids(self) -> dict[int, int]:
        """Process number -> tgid, as tgid() returns it."""
        return {number: member.row.tgid for number, member in self._members.items()}

    def identities(self) -> dict[int, Identity]:
        """Process number -> identity, without processes that are held back."""
        return {number: member.identity for number, member in self._members.items() if member.identity is not None}

    def engines(self) -> dict[int, str]:
        """Process number -> engine, of processes that have one."""
        return {number: member.engine for number, member in self._members.items() if member.engine}

    def remove(self, process: int) -> Identity | None:
        """Remove a process that has ended. Returns the identity its totals go to; None when it was never admitted."""
        member = self._members.pop(process, None)
        if member is None:
            return None
        return member.identity or self._identity_of(member)

    def queue_liveness_checks(self) -> None:
        """Have find_ended() check every process once."""
        self._unchecked = list(self._members)

    def find_ended(self) -> list[int]:
        """Check the next few queued processes; returns those that have ended although no exit event arrived.

        A process has ended when its /proc entry is gone or belongs to another process. Few at a time: each check costs three
        system calls, and a full node has a thousand processes.
        """
        due, self._unchecked = self._unchecked[:CHECKED_AT_ONCE], self._unchecked[CHECKED_AT_ONCE:]
        known = [(number, self._members[number].row) for number in due if number in self._members]
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
            number: {Series(catalog.workload.INFO, _info_labels(member)): 1}
            for number, member in self._members.items()
            if member.identity is None or member.identity.rank != OTHER
        }


def _unknown(row: ProcessRow) -> _Member:
    """A process whose /proc cannot be read."""
    return _Member(row, Rank(), Container(), SlurmJob())


def _has_started(row: ProcessRow, at_ticks: int) -> bool:
    """Whether the process in /proc is this one: start times there are rounded to hundredths of a second."""
    return abs(at_ticks - row.start_ns * BOOT_TICKS // NANOSECONDS) <= 1


def _info_labels(member: _Member) -> tuple[str, ...]:
    """In the order of catalog.workload.INFO.labels."""
    values = (
        str(member.row.tgid or ""),
        member.row.comm.decode("utf-8", "replace"),
        member.rank.local_rank,
        member.rank.world_size,
        member.rank.run_id,
        member.slurm_job.id,
        member.slurm_job.name,
        member.slurm_job.partition,
        member.slurm_job.account,
        member.container.pod_uid,
        member.container.id,
        member.container.runtime,
        member.container.unit,
    )
    return tuple(label_value(value) for value in values)
