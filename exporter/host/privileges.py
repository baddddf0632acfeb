"""Which capabilities are needed, what for, and what is missing without each; and letting go of all others.

`run` lets go as soon as it has read its settings: all else it does with these. With --probes.attach-once it lets go once more.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from exporter.host import capabilities
from exporter.host.capabilities import Capability

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Need:
    """reason: what it is used for. cost: what is missing without it. is_vital: whether `check` calls it a failure to lack it."""

    capability: Capability
    reason: str
    cost: str
    is_vital: bool = False
    is_needed_when_frozen: bool = False


NEEDS = (
    Need(
        Capability.BPF,
        "load the programs and make their tables",
        "nothing is traced, and `run` does not start",
        is_vital=True,
    ),
    Need(
        Capability.PERFMON,
        "programs that read the kernel's memory, probes on functions, software events",
        "nothing is traced, and `run` does not start",
        is_vital=True,
    ),
    Need(
        Capability.SYS_PTRACE,
        "/proc/PID/maps and root of processes of other users",
        "jobs of other users are not found",
        is_vital=True,
        is_needed_when_frozen=True,
    ),
    Need(
        Capability.DAC_READ_SEARCH,
        "/proc/PID/environ, which names the rank and which only its owner may read; libraries in directories of that kind",
        "jobs of other users have no rank unless NCCL tells it, and such libraries are not probed",
        is_needed_when_frozen=True,
    ),
    Need(
        Capability.CHECKPOINT_RESTORE,
        "/proc/PID/map_files, which leads to a library that was deleted or replaced while a process uses it",
        "such libraries are not probed",
    ),
)


NETWORK_NAMESPACES = Capability.SYS_ADMIN
"""What --collector.network.namespaces needs: to enter other network namespaces. Nothing else does, and it is off by default."""


def let_go(*, with_network_namespaces: bool = False) -> None:
    """Of everything but NEEDS, in this thread and in those it starts. Says so where it is not possible."""
    _keep({need.capability for need in NEEDS}, with_network_namespaces=with_network_namespaces)


def let_go_when_frozen(*, with_network_namespaces: bool = False) -> None:
    """Of what only new attachments need."""
    kept = {need.capability for need in NEEDS if need.is_needed_when_frozen}
    _keep(kept, with_network_namespaces=with_network_namespaces)


def _keep(wanted: set[Capability], *, with_network_namespaces: bool) -> None:
    if with_network_namespaces:
        wanted |= {NETWORK_NAMESPACES}
        if not capabilities.has(NETWORK_NAMESPACES):
            log.warning(
                "--collector.network.namespaces needs %s: other namespaces are not looked into",
                NETWORK_NAMESPACES.label,
            )
    try:
        capabilities.keep_only(wanted)
    except OSError as error:
        log.warning("capabilities that are not needed are kept: %s: %s", error.filename, error.strerror)
