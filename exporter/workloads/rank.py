"""The rank of a process in a distributed job.

In: a few environment variables of the process, or the communicators it holds. Out: decimal text, "" for unknown.
A rank is never guessed: a malformed value counts as absent, contradictory values are not used.

Each launcher sets a family of variables. The first family with a valid rank decides, in the order of _FAMILIES: a launcher that
is started by another one comes first, since torchrun within srun overrides srun. But rank 0 of 1 says nothing if another family
has a rank of several: a pod of one replica has RANK=0 and WORLD_SIZE=1, which eight ranks of mpirun in it inherit. The size and
the local rank come from the same family; if it lacks them, from another one with the same rank.

Slurm also sets SLURM_PROCID=0 for a batch script, and everything started in the script inherits it. So it counts only in a step
(SLURM_STEP_ID is set; for a batch script it is not) of two tasks or more: the single task of a step is most often a launcher,
whose children are the ranks.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from exporter.text.printable import printable

NUMBER_MAX: Final = 10_000_000
TEXT_CHARACTERS_MAX: Final = 128
_NUMBER: Final = re.compile(r"[0-9]{1,8}")
_STEP_NUMBER: Final = re.compile(r"[0-9]{1,10}")


class _Family(NamedTuple):
    """The variables of one launcher; the first valid one of each kind counts."""

    rank: str
    local_rank: tuple[str, ...]
    world_size: tuple[str, ...]


_SLURM: Final = _Family("SLURM_PROCID", ("SLURM_LOCALID",), ("SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", "SLURM_NPROCS"))
_FAMILIES: Final = (
    # torchrun, DeepSpeed, accelerate, Kubeflow
    _Family("RANK", ("LOCAL_RANK",), ("WORLD_SIZE",)),
    _Family("HOROVOD_RANK", ("HOROVOD_LOCAL_RANK",), ("HOROVOD_SIZE",)),
    # Open MPI
    _Family("OMPI_COMM_WORLD_RANK", ("OMPI_COMM_WORLD_LOCAL_RANK",), ("OMPI_COMM_WORLD_SIZE",)),
    # MVAPICH
    _Family("MV2_COMM_WORLD_RANK", ("MV2_COMM_WORLD_LOCAL_RANK",), ("MV2_COMM_WORLD_SIZE",)),
    _Family("MVP_COMM_WORLD_RANK", ("MVP_COMM_WORLD_LOCAL_RANK",), ("MVP_COMM_WORLD_SIZE",)),  # since version 3
    # MPICH and Intel MPI
    _Family("PMI_RANK", ("MPI_LOCALRANKID",), ("PMI_SIZE",)),
    # IBM jsrun
    _Family("JSM_NAMESPACE_RANK", ("JSM_NAMESPACE_LOCAL_RANK",), ("JSM_NAMESPACE_SIZE",)),
    # HPE Cray PALS, Flux
    _Family("PALS_RANKID", ("PALS_LOCAL_RANKID",), ()),
    _Family("FLUX_TASK_RANK", ("FLUX_TASK_LOCAL_ID",), ("FLUX_JOB_SIZE",)),
    # any launcher that speaks PMIx; Slurm's own plugin among them
    _Family("PMIX_RANK", (), ()),
    _SLURM,
)
_STEP_ID: Final = ("SLURM_STEP_ID", "SLURM_STEPID")
_RUN_ID: Final = "TORCHELASTIC_RUN_ID"

ENVIRONMENT_NAMES: Final[frozenset[str]] = frozenset(
    name for family in _FAMILIES for name in (family.rank, *family.local_rank, *family.world_size)
) | {*_STEP_ID, _RUN_ID}
RANKS_OF_LAUNCHERS: Final[frozenset[str]] = frozenset(family.rank for family in _FAMILIES if family is not _SLURM)
"""A process without any of them may have set one itself: workers of torch.multiprocessing.spawn() in a batch script of Slurm."""


@dataclass(frozen=True, slots=True)
class Rank:
    """Rank of a process in its job, from its environment; "" for unknown.

    rank, local_rank, world_size: decimal digits. source: the variable that the rank was read from.
    run_id: chosen by the user, printable and at most 128 characters.
    """

    rank: str = ""
    local_rank: str = ""
    world_size: str = ""
    source: str = ""
    run_id: str = ""


class Communicator(NamedTuple):
    """One NCCL communicator of a process."""

    hash: int
    rank: int
    nranks: int
    created_ns: int


def rank_from_environment(environment: Mapping[str, str]) -> Rank:
    """environment: variables among ENVIRONMENT_NAMES, none of which is required."""
    run_id = _text(environment, _RUN_ID)
    about_job = Rank(run_id="" if run_id == "none" else run_id)  # the value of torchrun for a run without an id
    ranks = {family: rank for family in _FAMILIES if (rank := _family_rank(environment, family)) is not None}
    if not ranks:
        return about_job
    sizes = {family: _first_number(environment, family.world_size) or 0 for family in ranks}
    first = next(iter(ranks))
    if sizes[first] == 1:
        first = next((family for family in ranks if sizes[family] > 1), first)
    rank = ranks[first]
    agreeing = [first, *(family for family in ranks if family is not first and ranks[family] == rank)]
    return replace(
        about_job,
        rank=str(rank),
        local_rank=_digits(_first_number(environment, [name for family in agreeing for name in family.local_rank])),
        world_size=_digits(_first_number(environment, [name for family in agreeing for name in family.world_size])),
        source=first.rank,
    )


def rank_from_communicators(communicators: Iterable[tuple[int, int, int, int]]) -> str:
    """The rank in the communicator with the most ranks; among equals in the earliest.

    communicators: rows of (hash, rank, nranks, created_ns).
    Returns "" without a valid row, and when the process has several ranks of one communicator: it drives several GPUs, and none
    of them is the rank of the process. Rows whose rank is not below nranks are ignored.
    """
    rows = [Communicator(*row) for row in communicators]
    rows = [row for row in rows if 0 <= row.rank < row.nranks <= NUMBER_MAX]
    first_rank: dict[int, int] = {}
    if not rows or any(first_rank.setdefault(row.hash, row.rank) != row.rank for row in rows):
        return ""
    return str(min(rows, key=lambda row: (-row.nranks, row.created_ns, row.hash)).rank)


def _family_rank(environment: Mapping[str, str], family: _Family) -> int | None:
    """The rank in a family; None without one, and when rank and size contradict each other."""
    rank = _first_number(environment, [family.rank])
    size = _first_number(environment, family.world_size)
    if rank is None or (size is not None and rank >= size):
        return None
    if family is _SLURM:
        is_in_step = any(_STEP_NUMBER.fullmatch(environment.get(name, "")) for name in _STEP_ID)
        if not is_in_step or size is None or size < 2:
            return None
    return rank


def _first_number(environment: Mapping[str, str], names: Iterable[str]) -> int | None:
    for name in names:
        digits = environment.get(name, "")
        if _NUMBER.fullmatch(digits) and int(digits) <= NUMBER_MAX:
            return int(digits)
    return None


def _digits(number: int | None) -> str:
    return "" if number is None else str(number)


def _text(environment: Mapping[str, str], name: str) -> str:
    return printable(environment.get(name, "")[:TEXT_CHARACTERS_MAX])
