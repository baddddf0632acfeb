"""What an answer of NCCL's RAS says about the communicators of a job, whichever form it had.

In: what json_form.py or text_form.py found. Out: a Report.
"""

from __future__ import annotations

import enum
from typing import Final, NamedTuple

COMMUNICATORS_MAX: Final = 16_384
RANKS_MAX: Final = 65_536
"""Ranks of one communicator."""
VALUE_MAX: Final = (1 << 64) - 1
"""A count, which NCCL keeps in 64 bits."""
HOST_CHARACTERS: Final = 64
VERSION_CHARACTERS: Final = 32
OPERATION_CHARACTERS: Final = 32
OPERATIONS_MAX: Final = 32


class Absence(enum.StrEnum):
    """Why NCCL has no data of a rank."""

    DEAD = "dead"
    SILENT = "silent"  # its process does not answer
    LEFT = "left"  # its process answers, and is no member of the communicator
    UNKNOWN = "unknown"


class RankProcess(NamedTuple):
    """A rank of a communicator of this size, and its process, whose id is that of its own PID namespace."""

    size: int
    rank: int
    tgid: int


class MissingRank(NamedTuple):
    """tgid: in its own PID namespace, 0 where it is not known. host: an address, "" where it is not known."""

    rank: int
    absence: Absence
    tgid: int = 0
    host: str = ""


class LaunchGroup(NamedTuple):
    """`size` ranks have launched an operation so many times. ranks: those that the answer names, ascending."""

    launched: int
    size: int
    ranks: tuple[int, ...] = ()


class UnequalLaunches(NamedTuple):
    """An operation that not all ranks have launched equally often. groups: the largest first."""

    operation: str
    groups: tuple[LaunchGroup, ...]


class RasCommunicator(NamedTuple):
    """missing_count: ranks without data; `missing` has those that the answer names. failed: ranks that report an error."""

    hash: int
    size: int
    missing_count: int = 0
    missing: tuple[MissingRank, ...] = ()
    unequal: tuple[UnequalLaunches, ...] = ()
    failed: int = 0

    @property
    def is_noteworthy(self) -> bool:
        return bool(self.missing_count or self.unequal or self.failed)


class Report(NamedTuple):
    """version: of NCCL. sizes: of each communicator. communicators: those that are noteworthy, and in JSON also the others.

    members: the ranks whose process is named. has_all_members: whether every rank that answered is among them.
    timeouts: how often NCCL itself got no answer of a process. unheard, dead: processes without data, and those given up.
    """

    version: str
    sizes: tuple[int, ...]
    communicators: tuple[RasCommunicator, ...]
    members: frozenset[RankProcess]
    has_all_members: bool
    timeouts: int = 0
    unheard: int = 0
    dead: int = 0
