"""What the commands of a remedy are made from: the node, the job and its culprits, as they are when a chain changes.

In: nothing. Out: records, filled by the pipeline; a replay has neither node nor living processes, and its remedies no commands.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple


@dataclass(frozen=True, slots=True)
class NodeContext:
    """What the node has, read when the exporter starts.

    commands: programs that root's shell finds. exporter: how that shell calls this program, "" if it cannot. has_systemd: systemd
    is the first process. has_io_classes: a disk has a scheduler that honours I/O classes. has_autogroups: the kernel groups the
    processes of a session. has_pressure: the kernel has /proc/pressure. has_machine_ids: process ids are those of the machine, as
    the kernel gives them for culprits; in another PID namespace they would be those of other processes.
    """

    commands: frozenset[str] = frozenset()
    exporter: str = ""
    has_systemd: bool = False
    has_io_classes: bool = False
    has_autogroups: bool = False
    has_pressure: bool = False
    has_machine_ids: bool = False


UNKNOWN_NODE: Final = NodeContext()


class ControlGroup(NamedTuple):
    """A control group in the hierarchy of one controller.

    mount: of the hierarchy on the node. version: 1 or 2. path: below the mount, "" for the root. controlled: the nearest group at
    or above it that has the controller's files, "" for the root. Bytes that are no UTF-8 are lone surrogates.
    """

    mount: str
    version: int
    path: str
    controlled: str


@dataclass(frozen=True, slots=True)
class ManagedBy:
    """What an administrator can act on instead of a process; "" for what the process is not in, or may have chosen.

    container: id, as the runtime takes it. unit: a service or scope of the system's systemd. slurm_job: number or SLUID.
    """

    container: str = ""
    runtime: str = ""
    unit: str = ""
    slurm_job: str = ""


@dataclass(frozen=True, slots=True)
class RunningProcess:
    """A process that runs now.

    cpus: those that any of its threads may run on. cpuset: those that its control group allows. groups: by controller, named as
    in version 1. autogroup: the kernel's group of its session, "" without one. is_of_a_job: it is a GPU process, one that has
    started the job, or a child of these.
    """

    tgid: int
    cpus: frozenset[int] = frozenset()
    cpuset: frozenset[int] = frozenset()
    groups: Mapping[str, ControlGroup] = field(default_factory=dict)
    managed_by: ManagedBy = ManagedBy()
    autogroup: str = ""
    is_kernel_thread: bool = False
    is_realtime: bool = False
    is_of_a_job: bool = False


class ProcessContext(NamedTuple):
    """What commands need to know of a process.

    tgid: 0 if the process is not in the exporter's pid namespace. cgroup: path below the mount of its hierarchy, "" if unknown;
    bytes that are no UTF-8 as lone surrogates. cpus: CPUs it may run on, such as `0-3,8`. culprit_tgids: processes of the
    culprits, where they are known. start_ticks, culprit_start_ticks: when these were started, as in /proc/PID/stat; 0 if unknown.
    job: None if it has ended. culprits: those that are still the processes that time was charged to. free_cpus: online, and no
    GPU process may run on them. job_paths: of the control groups of all GPU processes, in any hierarchy.
    """

    tgid: int = 0
    cgroup: str = ""
    cpus: str = ""
    culprit_tgids: tuple[int, ...] = ()
    start_ticks: int = 0
    culprit_start_ticks: tuple[int, ...] = ()
    node: NodeContext = UNKNOWN_NODE
    job: RunningProcess | None = None
    culprits: tuple[RunningProcess, ...] = ()
    free_cpus: frozenset[int] = frozenset()
    job_paths: frozenset[str] = frozenset()
