"""Registry of traced processes: assigns identities, holds processes back until theirs is known, and detects lost exits.

In: process rows and communicators from the kernel, /proc, names from an orchestrator. Out: the identity of each process, renames.
A process without a rank in its environment is held back for at most HOLD_BACK_TICKS ticks, until NCCL is initialized, and one
whose container has no name yet for NAME_TICKS, until the orchestrator reports it. What becomes known later is a new identity, and
the caller moves the totals.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

from exporter.errors import NotPossibleHere, ProcessGone
from exporter.host.processes import Processes
from exporter.host.programs import Program
from exporter.kernel.process_rows import CommunicatorRow, ProcessRow
from exporter.kernel.share_rows import Shares
from exporter.model import Identity
from exporter.totals import Totals
from exporter.units import BOOT_TICKS, NANOSECONDS
from exporter.workloads import engine as engines
from exporter.workloads import rank as ranks
from exporter.workloads import refusals, slurm
from exporter.workloads.admission import Admission
from exporter.workloads.container import parse_cgroup, seen_from
from exporter.workloads.engine import engine_by_libraries, engine_by_programs
from exporter.workloads.identity import name_process
from exporter.workloads.machine import machine_container_id
from exporter.workloads.orchestrators.pod_cache import PodCache
from exporter.workloads.owner import Owner, owner_of
from exporter.workloads.owner_places import OwnerPlaces
from exporter.workloads.rank import Communicator, rank_from_communicators, rank_from_environment
from exporter.workloads.refusals import Refusals
from exporter.workloads.slurm import slurm_job
from exporter.workloads.workload_process import OTHER, WorkloadProcess, infos, unread_process

HOLD_BACK_TICKS = 2
NAME_TICKS = 20
CHECKED_AT_ONCE = 16
LIBRARIES_READ_AT_ONCE = 2
BRIEF_TICKS = 240  # one minute
_ENVIRONMENT_NAMES = ranks.ENVIRONMENT_NAMES | slurm.ENVIRONMENT_NAMES | engines.ENVIRONMENT_NAMES
ALL_OTHERS = Owner("", "other")


class Reads(Protocol):
    """Reads what belongs to tenants; see host/tenant_reads.py."""

    def environment(self, tgid: int, names: Collection[str]) -> Mapping[str, str]: ...

    def programs(self, tgid: int) -> Iterable[Program]: ...

    def mapped_libraries(self, tgid: int) -> Collection[str]: ...


class Rename(NamedTuple):
    """A process that gets another identity. old: the one before."""

    process: int
    old: Identity


class WorkloadRegistry:
    """The running processes, by process number.

    reads: of what belongs to tenants. node: value of the `node` label. max_workloads: identities at a time. pods: names from the
    orchestrator, None without one. with_engines: whether to find out their serving engines. shares: of the kernel's tables.
    refused: what owners were refused.
    """

    def __init__(
        self,
        processes: Processes,
        reads: Reads,
        node: str,
        max_workloads: int,
        pods: PodCache | None = None,
        *,
        with_engines: bool = True,
        shares: Shares | None = None,
        refused: Refusals | None = None,
    ) -> None:
        self._processes = processes
        self._reads = reads
        self._machine_id = machine_container_id(processes)
        self._with_engines = with_engines
        self._node = node
        self._pods = pods
        self._traced: dict[int, WorkloadProcess] = {}
        self.refused = refused or Refusals()
        self._shares = shares or Shares({})
        self._admission = Admission(max_workloads, self.refused)
        self._places = OwnerPlaces(self._shares, self.refused)
        self._evicted: list[Identity] = []
        self._ticks = 0
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
            share = self._shares.of_process(number)
            uid = share.uid if share else 0
            traced = self._read_process(row, uid) if newest[row.tgid] == number else unread_process(row, uid)
            self._traced[number] = traced
            traced.admitted_at = self._ticks
            if share:
                self._places.add(number, traced.owner, share)
            if traced.is_readable and self._with_engines and not traced.engine:
                self._without_engine.append(number)

    def _read_process(self, row: ProcessRow, uid: int) -> WorkloadProcess:
        """A process that has ended, whose tgid was reused or is not visible has neither rank nor container."""
        processes, tgid = self._processes, row.tgid
        if not tgid:
            return unread_process(row, uid)
        try:
            environment = self._reads.environment(tgid, _ENVIRONMENT_NAMES)
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
        return traced

    def _read_some_libraries(self) -> None:
        """Look for an engine in /proc/TGID/maps of the next few processes whose programs show none; the file is long."""
        for _ in range(min(LIBRARIES_READ_AT_ONCE, len(self._without_engine))):
            traced = self._traced.get(self._without_engine.popleft())
            if traced is not None and self._is_alive(traced.row):
                tgid = traced.row.tgid
                arguments = next((own.arguments for own in self._reads.programs(tgid)), ())
                traced.engine = engine_by_libraries(arguments, self._reads.mapped_libraries(tgid))

    def update_identities(self, communicators: Mapping[int, Sequence[CommunicatorRow]]) -> list[Rename]:
        """Assign identities to processes whose names are known by now; returns those that change. Call once a tick."""
        self._ticks += 1
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
        return renames + self._end_evicted()

    def _end_evicted(self) -> list[Rename]:
        """Processes whose identity has gone to another owner share the one of all others from now on."""
        self._evicted = self._admission.take_evicted()
        evicted = set(self._evicted)
        renames = []
        for number, traced in self._traced.items() if evicted else ():
            if traced.identity in evicted:
                renames.append(Rename(number, traced.identity))
                traced.identity = self.other
        return renames

    @property
    def evicted(self) -> Sequence[Identity]:
        """Identities that have lost their place in the last update_identities(): their series end."""
        return self._evicted

    @property
    def other(self) -> Identity:
        """What workloads without series of their own are exported as."""
        return Identity(self._node, rank=OTHER, container=OTHER)

    def _living(self) -> set[Identity]:
        return {traced.identity for traced in self._traced.values() if traced.identity is not None}

    def _hold_back_ticks(self, traced: WorkloadProcess) -> int:
        """How long to hold it back for a name or a rank that may still come."""
        has_rank = bool(traced.rank.rank or traced.communicator_rank)
        lacks_name = bool(traced.container.id or traced.container.pod_uid) and not (
            traced.container_names and traced.container_names.container
        )
        if lacks_name and self._pods is not None and self._pods.is_worth_waiting_for:
            return NAME_TICKS
        return 0 if has_rank else HOLD_BACK_TICKS

    def _make_identity(self, traced: WorkloadProcess) -> Identity:
        """Its identity; beyond the limit of workloads the shared one."""
        traced.identity_communicator_rank = traced.communicator_rank
        identity = name_process(
            node=self._node,
            rank=traced.rank,
            communicator_rank=traced.communicator_rank,
            container=traced.container,
            names=traced.container_names,
        )
        return self._admission.admit(identity, traced.owner, self._living) or self.other

    def expire(self, retained: Iterable[Identity]) -> None:
        """Free the places of identities that no process has any more. retained: those whose totals are still exported."""
        self._admission.keep({*retained, *self.identities().values()})

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
        self._places.remove(process)
        if traced is None:
            return None
        identity = traced.identity or self._make_identity(traced)
        is_brief = self._ticks - traced.admitted_at < BRIEF_TICKS
        self._admission.end(identity, self._living, is_brief=is_brief)
        return identity

    def take_surplus(self) -> list[Identity]:
        """Workloads that ran briefly, since the last call: their totals belong to `other`."""
        return self._admission.take_surplus()

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
        """gpustall_workload_info of every process within the limit of workloads, and of at most INFOS_MAX of an owner."""
        return infos(self._traced, self.refused)

    def count_refusals(self) -> None:
        """Add what the kernel programs have refused since the last call."""
        self._places.count_refusals()

    def count_folded(self, folded: Mapping[Identity, int]) -> None:
        """Identities were refused so many series of error codes."""
        for identity, count in folded.items():
            owner = self._admission.owner_of(identity)
            self.refused.add(refusals.SERIES, owner or ALL_OTHERS, count)


def _has_started(row: ProcessRow, at_ticks: int) -> bool:
    """Whether the process in /proc is this one: start times there are rounded to hundredths of a second."""
    return abs(at_ticks - row.start_ns * BOOT_TICKS // NANOSECONDS) <= 1
