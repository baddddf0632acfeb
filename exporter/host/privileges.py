"""Capabilities that the exporter needs, why, and what is missing without each; drops all others.

`run` drops them as soon as it has read its settings. With --probes.attach-once it drops more once all probes are attached.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from exporter.host import capabilities
from exporter.host.capabilities import Capability

T = TypeVar("T")

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Need:
    """reason: what it is used for. cost: what is missing without it. is_vital: whether `check` fails without it."""

    capability: Capability
    reason: str
    cost: str
    is_vital: bool = False
    is_needed_after_attaching: bool = False


NEEDS = (
    Need(
        Capability.BPF,
        "load the BPF programs and create their maps",
        "nothing is traced, and `run` does not start",
        is_vital=True,
    ),
    Need(
        Capability.PERFMON,
        "programs that read kernel memory, uprobes, software events",
        "nothing is traced, and `run` does not start",
        is_vital=True,
    ),
    Need(
        Capability.SYS_PTRACE,
        "/proc/PID/maps and root of processes of other users",
        "jobs of other users are not found",
        is_vital=True,
        is_needed_after_attaching=True,
    ),
    Need(
        Capability.DAC_READ_SEARCH,
        "/proc/PID/environ of other users, which has the rank; libraries in directories of other users; cgroups by their ids",
        "jobs of other users have no rank until NCCL is initialized, such libraries are not probed, and what cgroups use counts"
        " for the node",
        is_needed_after_attaching=True,
    ),
    Need(
        Capability.CHECKPOINT_RESTORE,
        "/proc/PID/map_files, which leads to libraries that were deleted or replaced while in use",
        "such libraries are not probed",
    ),
    Need(
        Capability.LEASE,
        "leases of probed libraries of other users: a program that overwrites one waits until the probes are removed",
        "a job whose library is overwritten in place, not replaced, may crash at its next start",
    ),
)


PLACING = Capability.SYS_ADMIN
"""What a kernel before 6.6 may take to place a probe: exporter/kernel/uprobe_events.py says which. A child process has it."""

NETWORK_NAMESPACES = Capability.SYS_ADMIN
"""Needed to enter other network namespaces, only for --collector.network.namespaces, which is off by default."""


def are_sufficient() -> bool:
    """Whether this thread has all capabilities without which `run` does not start."""
    return all(capabilities.has(need.capability) for need in NEEDS if need.is_vital)


def after_drop(function: Callable[[], T], *, with_network_namespaces: bool = False) -> T:
    """What a function returns in a thread that has dropped capabilities as `run` does."""

    def dropped() -> T:
        wanted = {need.capability for need in NEEDS}
        capabilities.keep_only(wanted | {NETWORK_NAMESPACES} if with_network_namespaces else wanted)
        return function()

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(dropped).result()


def drop(*, with_network_namespaces: bool = False) -> None:
    """Drop all capabilities but NEEDS, in this thread and in those it starts. Logs a warning when that fails."""
    _keep_only({need.capability for need in NEEDS}, with_network_namespaces=with_network_namespaces)


def drop_after_attaching(*, with_network_namespaces: bool = False) -> None:
    """Drop in addition what only new attachments need."""
    kept = {need.capability for need in NEEDS if need.is_needed_after_attaching}
    _keep_only(kept, with_network_namespaces=with_network_namespaces)


def _keep_only(wanted: set[Capability], *, with_network_namespaces: bool) -> None:
    if with_network_namespaces:
        wanted |= {NETWORK_NAMESPACES}
        if not capabilities.has(NETWORK_NAMESPACES):
            log.warning(
                "--collector.network.namespaces needs %s: sockets in other network namespaces are not reported",
                NETWORK_NAMESPACES.label,
            )
    try:
        capabilities.keep_only(wanted)
    except OSError as error:
        log.warning("cannot drop capabilities: %s: %s; keeping all of them", error.filename, error.strerror)
