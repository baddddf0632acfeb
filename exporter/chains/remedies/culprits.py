"""Acts on the processes that hold the job's CPUs or its disk: away from the job, or behind it; none on the job.

In: living culprits, the job, and CPUs that no GPU process uses. Out: lines for a shell; pasted twice they have the same effect.

Weights and priorities compare only within one control group: a nicer process of another group takes as much as before. So what
a line sets depends on where the culprit's group lies. Source: the kernel's Documentation/admin-guide/cgroup-v2.rst and sched(7).
"""

from __future__ import annotations

import enum
import re
from typing import Final, NamedTuple

from exporter.chains.remedies.commands import CPU, CPUSET, Commands, container_tool, file_word, is_below_the_root
from exporter.chains.remedies.context import ControlGroup, RunningProcess
from exporter.chains.remedies.cpus import cpu_list
from exporter.text.shell import shell_word

_LOWEST_SHARES: Final = 2  # of version 1; the kernel raises less to 2
_QUOTA_US, _PERIOD_US = 20_000, 100_000
_QUOTA: Final = f"{_QUOTA_US / _PERIOD_US:.0%}"
_COLUMNS: Final = "pid,lstart,psr,ni,pcpu,cgroup,args"
_OF_THE_MACHINE: Final = re.compile(
    r"(?:init|session-[^.]*)\.scope|user@.*\.service"
    r"|(?:systemd-|dbus|ssh|network|NetworkManager|auditd|rsyslog|chrony|ntp|polkit|udev|getty|serial-getty|multipathd"
    r"|containerd|docker|crio|cri-|podman|kubelet|k3s|rke2|k0s|etcd|slurm|munge|lxc|libvirt|corosync|pacemaker|nvidia|dcgm|fwupd"
    r"|gpu-stall-exporter|node_exporter|alloy|datadog).*"
)
"""Units that a node or its jobs need: slowed down, they take the node out of the cluster. They may move to other CPUs."""


class Way(enum.Enum):
    """What lines against a culprit do."""

    MOVE = enum.auto()
    LOWER = enum.auto()
    LIMIT = enum.auto()


class Act(NamedTuple):
    """way: None if nothing can be done."""

    way: Way | None = None
    line: str = ""


_NOTHING: Final = Act()


class CulpritActs:
    """Lines about the culprits of one chain. job: the process that loses time."""

    def __init__(self, commands: Commands, job: RunningProcess) -> None:
        self._commands = commands
        self._job = job
        self._free_cpus = commands.context.free_cpus
        self.living = commands.context.culprits
        self.others = tuple(one for one in self.living if not (one.is_kernel_thread or one.is_of_a_job))
        """Those that may be acted on."""

    def started(self, columns: str = _COLUMNS) -> str:
        """Shows the culprits, and when each was started."""
        tgids = ",".join(str(one.tgid) for one in self.living)
        return self._commands.line("ps", f"ps -o {columns} -p {tgids}") if tgids else ""

    def off_the_cpus(self) -> list[Act]:
        """An act for each culprit that may run on the job's CPUs, each once."""
        acts = (self._off_the_cpus(one) for one in self.others if one.cpus & self._job.cpus)
        return [act for act in dict.fromkeys(acts) if act.way]

    def unit_off_the_cpus(self, unit: str) -> Act:
        """The act on a service whose programs come and go, so that none of them is a culprit's process."""
        is_service = unit.endswith(".service") and not unit.startswith("user@")
        if not (is_service and self._commands.has_unit(unit)) or self._is_around_a_job(unit):
            return _NOTHING
        if self._free_cpus and self._has_cpusets_of_units:
            return Act(Way.MOVE, _set_property(unit, f"AllowedCPUs={cpu_list(self._free_cpus)}"))
        return _NOTHING if _is_of_the_machine(unit) else Act(Way.LIMIT, _set_property(unit, f"CPUQuota={_QUOTA}"))

    def behind_on_disks(self) -> list[str]:
        """Only a scheduler of the disk that knows classes serves others first."""
        if not self._commands.node.has_io_classes:
            return []
        return [self._commands.line("ionice ls", f"ionice -c 3 -p $(ls /proc/{one.tgid}/task)") for one in self.others]

    def _off_the_cpus(self, culprit: RunningProcess) -> Act:
        return self._moved(culprit) or self._lowered(culprit)

    def _moved(self, culprit: RunningProcess) -> Act | None:
        if not self._free_cpus:
            return None
        cpus = cpu_list(self._free_cpus)
        if tool := self._tool(culprit):
            return Act(Way.MOVE, f"{tool} update --cpuset-cpus {cpus} {culprit.managed_by.container}")
        if self._has_unit(culprit) and self._has_cpusets_of_units:
            return Act(Way.MOVE, _set_property(culprit.managed_by.unit, f"AllowedCPUs={cpus}"))
        allowed = self._free_cpus & culprit.cpuset if culprit.cpuset else self._free_cpus
        if not allowed or not self._commands.has("taskset"):
            return None
        return Act(Way.MOVE, f"taskset -acp {cpu_list(allowed)} {culprit.tgid}")

    def _lowered(self, culprit: RunningProcess) -> Act:
        if _is_of_the_machine(culprit.managed_by.unit):
            return _NOTHING
        if culprit.is_realtime:
            return self._act(Way.LOWER, "chrt", f"chrt --all-tasks --other --pid 0 {culprit.tgid}")
        group = culprit.groups.get(CPU)
        if tool := self._tool(culprit):
            is_near = self._is_near(_named(group, culprit.managed_by.container))
            return Act(
                Way.LOWER if is_near else Way.LIMIT, _container_line(tool, culprit.managed_by.container, is_near)
            )
        if self._has_unit(culprit):
            is_near = self._is_near(_named(group, culprit.managed_by.unit))
            setting = "CPUWeight=1" if is_near else f"CPUQuota={_QUOTA}"
            return Act(Way.LOWER if is_near else Way.LIMIT, _set_property(culprit.managed_by.unit, setting))
        # The group of a slice, and one above the culprit's own, has other programs as well.
        is_shared = group is not None and (group.controlled != group.path or group.path.endswith(".slice"))
        if group is None or is_shared or _is_at_or_above(group.controlled, self._job_path):
            return self._nicer(culprit)
        return self._lowered_group(group)

    def _nicer(self, culprit: RunningProcess) -> Act:
        """Every thread has a priority of its own; the sessions of the root group have one as well."""
        line = f"renice -n 19 -p $(ls /proc/{culprit.tgid}/task)"
        group = culprit.groups.get(CPU)
        is_in_root = group is None or not group.controlled
        if self._commands.node.has_autogroups and is_in_root and culprit.autogroup not in ("", self._job.autogroup):
            line += f"; echo 19 > /proc/{culprit.tgid}/autogroup"
        return self._act(Way.LOWER, "renice ls", line)

    def _lowered_group(self, group: ControlGroup) -> Act:
        of_jobs = self._commands.context.job_paths
        if not is_below_the_root(group.controlled) or any(_is_at_or_above(group.controlled, one) for one in of_jobs):
            return _NOTHING
        is_near = self._is_near(group.controlled)
        if group.version == 1:
            file, value = ("cpu.shares", _LOWEST_SHARES) if is_near else ("cpu.cfs_quota_us", _QUOTA_US)
            line = f"echo {value} > {file_word(group, file)}"
        elif is_near:
            line = f"echo 1 > {file_word(group, 'cpu.weight')}"
        else:
            line = f"echo '{_QUOTA_US} {_PERIOD_US}' > {file_word(group, 'cpu.max')}"
        return Act(Way.LOWER if is_near else Way.LIMIT, line)

    def _act(self, way: Way, programs: str, text: str) -> Act:
        line = self._commands.line(programs, text)
        return Act(way, line) if line else _NOTHING

    @property
    def _job_path(self) -> str:
        group = self._job.groups.get(CPU)
        return group.path if group else ""

    @property
    def _has_cpusets_of_units(self) -> bool:
        """systemd has CPUs of units only in version 2."""
        group = self._job.groups.get(CPUSET)
        return group is not None and group.version == 2

    def _is_near(self, path: str) -> bool:
        """Whether the weight of this group compares with that of the job's group, or of one above it."""
        return path != "" and _is_at_or_above(path.rpartition("/")[0], self._job_path)

    def _tool(self, culprit: RunningProcess) -> str:
        managed_by = culprit.managed_by
        if managed_by.container and self._is_around_a_job(managed_by.container):
            return ""
        return container_tool(managed_by.runtime, managed_by.container, self._commands.node.commands)

    def _has_unit(self, culprit: RunningProcess) -> bool:
        return self._commands.has_unit(culprit.managed_by.unit) and not self._is_around_a_job(culprit.managed_by.unit)

    def _is_around_a_job(self, name: str) -> bool:
        """Whether a GPU process is in the unit or container of this name. Without a known control group it may be in any."""
        paths = [*(group.path for group in self._job.groups.values()), *self._commands.context.job_paths]
        return not paths or any(name in one for path in paths for one in path.split("/"))


def _is_of_the_machine(unit: str) -> bool:
    return _OF_THE_MACHINE.fullmatch(unit) is not None


def _container_line(tool: str, container: str, is_near: bool) -> str:
    if tool == "crictl":
        limit = f"--cpu-share {_LOWEST_SHARES}" if is_near else f"--cpu-quota {_QUOTA_US} --cpu-period {_PERIOD_US}"
    else:
        limit = f"--cpu-shares {_LOWEST_SHARES}" if is_near else f"--cpus {_QUOTA_US / _PERIOD_US}"
    return f"{tool} update {limit} {container}"


def _set_property(unit: str, setting: str) -> str:
    """Until the next start of the machine."""
    return f"systemctl set-property --runtime {shell_word(unit)} {setting}"


def _named(group: ControlGroup | None, name: str) -> str:
    """The path down to the segment with this name; "" without one."""
    segments = group.path.split("/") if group else []
    depth = next((depth for depth, segment in enumerate(segments, 1) if name in segment), 0)
    return "/".join(segments[:depth])


def _is_at_or_above(path: str, other: str) -> bool:
    """path: "" for the root."""
    return path in ("", other) or other.startswith(f"{path}/")
