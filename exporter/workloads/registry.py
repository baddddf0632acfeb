"""Registry of traced processes: assigns identities, holds processes back until theirs is known, and detects lost exits.

In: process rows and communicators from the kernel, /proc, names from an orchestrator. Out: the identity of each process, renames.
A process without a rank in its environment is held back for at most HOLD_BACK_TICKS ticks, until NCCL is initialized, and one
whose container has no name yet for NAME_TICKS, until the orchestrator reports it. What becomes known later is a new identity, and
the caller moves the totals. A process beyond the limit of workloads waits for room, and then gets its own identity.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from exporter.host.processes import Processes
from exporter.kernel.process_rows import CommunicatorRow, ProcessRow
from exporter.kernel.share_rows import Shares
from exporter.model import Identity
from exporter.totals import Totals
from exporter.workloads import refusals
from exporter.workloads.admission import Admission
from exporter.workloads.container import confirmed
from exporter.workloads.identity import name_process
from exporter.workloads.new_processes import NewProcesses
from exporter.workloads.orchestrators.pod_cache import PodCache
from exporter.workloads.owner import Owner
from exporter.workloads.owner_places import OwnerPlaces
from exporter.workloads.process_reader import ProcessReader, Reads
from exporter.workloads.rank import Communicator, rank_from_communicators
from exporter.workloads.refusals import Refusals
from exporter.workloads.workload_process import OTHER, WorkloadProcess, infos

HOLD_BACK_TICKS = 2
NAME_TICKS = 20
CHECKED_AT_ONCE = 16
RETRY_TICKS = 20
BRIEF_TICKS = 240  # one minute
ALL_OTHERS = Owner("", "other")


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
        self._reader = ProcessReader(processes, reads, with_engines=with_engines)
        self._node = node
        self._pods = pods
        self._traced: dict[int, WorkloadProcess] = {}
        self.refused = refused or Refusals()
        self._shares = shares or Shares({})
        self._new = NewProcesses(self._reader, self._shares.of_process, self.refused)
        self._admission = Admission(max_workloads, self.refused)
        self._places = OwnerPlaces(self._shares, self.refused)
        self._evicted: list[Identity] = []
        self._ticks = 0
        self._awaiting_liveness_check: list[int] = []
        self._held: Counter[Identity] = Counter()  # processes of each
        self._waiting: dict[int, None] = {}  # for room, in this order
        self._changes_seen = 0

    def __len__(self) -> int:
        return len(self._traced)

    def __contains__(self, process: int) -> bool:
        return process in self._traced

    def admit(self, rows: Mapping[int, ProcessRow], ended: Collection[int] = ()) -> None:
        """Add processes that are not known yet, all that have ended among them; reads their /proc once, as time allows."""
        for number, traced, share in self._new.read(rows, rows.keys() - self._traced.keys(), ended):
            self._traced[number] = traced
            traced.admitted_at = self._ticks
            if share:
                self._places.add(number, traced.owner, share)

    def update_identities(self, communicators: Mapping[int, Sequence[CommunicatorRow]]) -> list[Rename]:
        """Assign identities to processes whose names are known by now; returns those that change. Call once a tick."""
        self._ticks += 1
        self._admission.tick()
        self._reader.read_some_libraries(self._traced)
        renames = self._admit_waiting()
        for number, traced in self._traced.items():
            rows = communicators.get(number, ())
            # Names are kept when the pod is gone before its last process.
            names = (
                self._pods.names_of(traced.container) if self._pods is not None else None
            ) or traced.container_names
            if traced.identity is not None and rows == traced.communicators and names == traced.container_names:
                continue
            has_new_names = names != traced.container_names
            if names is not None:
                traced.container = confirmed(traced.container, names.pod_uid)
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
                identity = self._make_identity(number, traced)
            else:
                identity = traced.identity
            if traced.identity not in (None, identity):
                assert traced.identity is not None  # noqa: S101 - `in` does not narrow
                renames.append(Rename(number, traced.identity))
            self._assign(traced, identity)
        return renames + self._end_evicted()

    def _end_evicted(self) -> list[Rename]:
        """Processes whose identity has gone to another owner share the one of all others from now on."""
        self._evicted = self._admission.take_evicted()
        evicted = set(self._evicted)
        renames = []
        for number, traced in self._traced.items() if evicted else ():
            if traced.identity in evicted:
                renames.append(Rename(number, traced.identity))
                self._assign(traced, self.other)
                self._waiting[number] = None
        return renames

    def _admit_waiting(self) -> list[Rename]:
        """Give processes that share the identity of all others their own one, as far as there is room by now.

        Before newer processes, which would take it.
        """
        if not self._waiting or (self._changes_seen == self._admission.changes and self._ticks % RETRY_TICKS):
            return []
        self._changes_seen = self._admission.changes
        renames = []
        refused: set[str] = set()  # owners; what one of them is refused now, all its processes are
        for number in list(self._waiting):
            traced = self._traced[number]
            if traced.owner.key in refused:
                continue
            identity = self._make_identity(number, traced, is_retry=True)
            if identity != self.other:
                renames.append(Rename(number, self.other))
                self._assign(traced, identity)
            elif self._admission.last_refusal == refusals.WORKLOADS:
                refused.add(traced.owner.key)
        return renames

    @property
    def evicted(self) -> Sequence[Identity]:
        """Identities that have lost their place in the last update_identities(): their series end."""
        return self._evicted

    @property
    def other(self) -> Identity:
        """What workloads without series of their own are exported as."""
        return Identity(self._node, rank=OTHER, container=OTHER)

    def _living(self) -> Collection[Identity]:
        return self._held.keys()

    def _assign(self, traced: WorkloadProcess, identity: Identity | None) -> None:
        if traced.identity == identity:
            return
        if traced.identity is not None:
            self._held[traced.identity] -= 1
            if not self._held[traced.identity]:
                del self._held[traced.identity]
        if identity is not None:
            self._held[identity] += 1
        traced.identity = identity

    def _hold_back_ticks(self, traced: WorkloadProcess) -> int:
        """How long to hold it back for a name or a rank that may still come."""
        if traced.lacks_name and self._pods is not None and self._pods.is_worth_waiting_for:
            return NAME_TICKS
        return 0 if traced.rank.rank or traced.communicator_rank else HOLD_BACK_TICKS

    def _make_identity(
        self,
        number: int,
        traced: WorkloadProcess,
        *,
        is_running: bool = True,
        is_retry: bool = False,
    ) -> Identity:
        """Its identity; beyond the limit of workloads the shared one, until there is room."""
        traced.identity_communicator_rank = traced.communicator_rank
        identity = name_process(
            node=self._node,
            rank=traced.rank,
            communicator_rank=traced.communicator_rank,
            container=traced.container,
            names=traced.container_names,
        )
        admitted = self._admission.admit(identity, traced.owner, self._living, is_running=is_running, is_retry=is_retry)
        if admitted is not None:
            self._waiting.pop(number, None)
        elif is_running:
            self._waiting[number] = None
        return admitted or self.other

    def expire(self, retained: Iterable[Identity]) -> None:
        """Free the places of identities that no process has any more. retained: those whose totals are still exported."""
        self._admission.keep({*retained, *self.identities().values()})

    def owner(self, process: int) -> Owner:
        """Who answers for a process."""
        traced = self._traced.get(process)
        return traced.owner if traced else ALL_OTHERS

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
        self._waiting.pop(process, None)
        self._places.remove(process)
        if traced is None:
            return None
        identity = traced.identity or self._make_identity(process, traced, is_running=False)
        self._assign(traced, None)
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
        return [number for number, row in known if not self._reader.is_alive(row)]

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
