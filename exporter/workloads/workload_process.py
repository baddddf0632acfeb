"""A process that is traced: what is known of it, and its gpustall_workload_info.

In: what the other modules of this folder found. Out: records of the registry, and Totals of infos.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from exporter import catalog
from exporter.kernel.process_rows import CommunicatorRow, ProcessRow
from exporter.model import Identity, label_value
from exporter.totals import Series, Totals
from exporter.workloads import refusals
from exporter.workloads.container import Container
from exporter.workloads.container_names import ContainerNames
from exporter.workloads.owner import Owner, owner_of
from exporter.workloads.rank import Rank
from exporter.workloads.refusals import Refusals
from exporter.workloads.slurm import SlurmJob

OTHER: Final = "other"
"""Rank and container of all workloads beyond the limit."""
INFOS_MAX: Final = 512


@dataclass(slots=True)
class WorkloadProcess:
    """A running process, and what its identity is made from.

    is_readable: its /proc could be read. identity_communicator_rank: the communicator_rank when the identity was made.
    """

    row: ProcessRow
    owner: Owner
    rank: Rank
    container: Container
    slurm_job: SlurmJob
    is_readable: bool = False
    engine: str = ""
    communicator_rank: str = ""
    identity_communicator_rank: str = ""
    identity: Identity | None = None
    ticks_held_back: int = 0
    is_refused_info: bool = False
    admitted_at: int = 0
    communicators: Sequence[CommunicatorRow] = ()
    container_names: ContainerNames | None = None

    @property
    def lacks_name(self) -> bool:
        """Whether it is in a container, or may be, whose name in an orchestrator is not known."""
        container = self.container
        is_in_one = bool(container.id or container.unconfirmed_id or container.pod_uid)
        return is_in_one and not (self.container_names and self.container_names.container)


def unread_process(row: ProcessRow, uid: int) -> WorkloadProcess:
    """A process whose /proc cannot be read."""
    return WorkloadProcess(row, owner_of("", uid), Rank(), Container(), SlurmJob())


def infos(processes: Mapping[int, WorkloadProcess], refused: Refusals) -> Totals:
    """gpustall_workload_info of every process that is not exported as `other`, and of at most INFOS_MAX of an owner."""
    found: Totals = {}
    held: Counter[str] = Counter()
    for number, traced in processes.items():
        if traced.identity is not None and traced.identity.rank == OTHER:
            continue
        held[traced.owner.key] += 1
        if held[traced.owner.key] <= INFOS_MAX:
            found[number] = {Series(catalog.workload.INFO, _info_labels(traced)): 1}
        elif not traced.is_refused_info:
            traced.is_refused_info = True
            refused.add(refusals.INFOS, traced.owner)
    return found


def _info_labels(traced: WorkloadProcess) -> tuple[str, ...]:
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
