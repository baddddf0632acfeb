"""Lines for a shell, made for one node and one moment: a line whose program or process is not there is left out.

In: the context of a chain's process, and its identity. Out: lines, "" for those that cannot work.

A tenant chooses the names of programs and control groups. No line carries the name of a program: a process is given by its id, a
container or unit by an identifier of a strict form. The path of a control group is one quoted word. Nothing is a pattern that a
name could match.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from exporter.chains.remedies.context import ControlGroup, ManagedBy, ProcessContext
from exporter.model import Identity
from exporter.text.shell import shell_word

CPU, CPUSET, MEMORY, IO, FREEZER = "cpu", "cpuset", "memory", "blkio", "freezer"
"""Controllers, named as in version 1 of control groups."""

COMMAND_CHARACTERS_MAX: Final = 1000
_FILES: Final = {
    (CPU, 2): ("cpu.max", "cpu.stat"),
    (CPU, 1): ("cpu.cfs_quota_us", "cpu.cfs_period_us", "cpu.stat"),
    (MEMORY, 2): ("memory.max", "memory.current", "memory.stat", "memory.events"),
    (MEMORY, 1): ("memory.limit_in_bytes", "memory.usage_in_bytes", "memory.stat", "memory.oom_control"),
    (IO, 2): ("io.max", "io.stat"),
    (IO, 1): ("blkio.throttle.read_bps_device", "blkio.throttle.io_service_bytes"),
    (FREEZER, 2): ("cgroup.freeze",),
    (FREEZER, 1): ("freezer.state",),
}
"""Files of a control group that show the limits of a controller and how they are used, by version."""

_CONTAINER: Final = re.compile(r"[0-9a-f]{64}")
_UNIT: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9:_.@-]|\\x[0-9a-f]{2}){0,239}\.(?:service|scope)")
_SLURM_JOB: Final = re.compile(r"[0-9]{1,10}|s[0-9A-Z]{13}")
_DNS_NAME: Final = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?")
RUNTIME_TOOLS: Final = {
    "docker": ("docker",),
    "podman": ("podman",),
    "containerd": ("crictl", "nerdctl"),
    "crio": ("crictl",),
    "kubernetes": ("crictl",),
}
"""Runtime -> programs that know its containers."""


class Remedy(NamedTuple):
    """what: advice in a few sentences. commands: lines for a shell, first to check, then to act; none where none can work."""

    what: str
    commands: tuple[str, ...]


def remedy(what: str, *lines: str) -> Remedy:
    """Without lines that are empty, or so long that the history would cut them."""
    return Remedy(what, tuple(line for line in lines if line and len(line) <= COMMAND_CHARACTERS_MAX))


class Commands:
    """Lines about the node and the job."""

    def __init__(self, context: ProcessContext, identity: Identity | None = None) -> None:
        self.context = context
        self.node = context.node
        self._identity = identity or Identity()
        self._job = context.job

    def has(self, *programs: str) -> bool:
        return self.node.commands.issuperset(programs)

    def line(self, programs: str, text: str) -> str:
        """The line if the node has all of these programs, which are separated by spaces."""
        return text if self.has(*programs.split()) else ""

    def of_job(self, programs: str, text: str) -> str:
        """The line with the id of the job's process in place of `{}`, if that process runs."""
        return self.line(programs, text.replace("{}", str(self._job.tgid))) if self._job else ""

    def python_stack(self) -> str:
        """Where the threads of a Python program are."""
        return self.of_job("py-spy", "py-spy dump --pid {}")

    @property
    def python_hint(self) -> str:
        """The end of an advice, where py-spy would help and is not installed."""
        is_needed = self._job is not None and not self.has("py-spy")
        return (
            " py-spy, which is not installed here, would show the job's developers the lines of Python (`pip install py-spy`)."
            if is_needed
            else ""
        )

    def threads(self) -> str:
        """What the threads of the job wait for in the kernel."""
        return self.of_job("ps", "ps -L -o tid,stat,pcpu,wchan:24,comm -p {}")

    def kernel_stacks(self) -> str:
        return self.of_job("cat", "cat /proc/{}/task/*/stack")

    def show(self, controller: str, *, only: int = 0) -> str:
        """Prints the limits of the job's control group. only: so many of the files."""
        group = self._job.groups.get(controller) if self._job else None
        if group is None or not is_below_the_root(group.controlled):
            return ""
        files = _FILES[controller, group.version]
        return self.line("cat", "cat " + " ".join(file_word(group, file) for file in files[: only or None]))

    def pressure(self, resource: str) -> str:
        """What the whole node waits for. resource: cpu, memory or io."""
        return self.line("cat", f"cat /proc/pressure/{resource}") if self.node.has_pressure else ""

    def kernel_log(self, pattern: str) -> str:
        """The last lines of the kernel's log with an extended regular expression."""
        return self.line("dmesg grep tail", f"dmesg -T | grep -iE '{pattern}' | tail")

    def limits(self) -> str:
        """What the manager of the job's container, batch job or unit says of its limits."""
        if pod := self._pod():
            return self.line("kubectl", f"kubectl -n {pod[0]} describe pod {pod[1]}")
        if self._slurm_job:
            return self.line("scontrol", f"scontrol show job {self._slurm_job}")
        managed_by = self._job.managed_by if self._job else ManagedBy()
        if tool := container_tool(managed_by.runtime, managed_by.container, self.node.commands):
            return f"{tool} inspect {managed_by.container}"
        properties = "CPUQuotaPerSecUSec,CPUWeight,AllowedCPUs,MemoryMax"
        return f"systemctl show {shell_word(self._unit)} -p {properties}" if self.has_unit(self._unit) else ""

    def logs(self) -> str:
        """The job's own log, of a process that may have ended."""
        if pod := self._pod():
            line = f"kubectl -n {pod[0]} logs {pod[1]} --all-containers --tail=50"
            return self.line("kubectl", f"{line} --previous || {line}")
        if self._slurm_job:
            return self.line("scontrol", f"scontrol show job {self._slurm_job}")  # which has the path of its output
        line = f"journalctl --no-pager -n 50 -u {shell_word(self._unit)}"
        return self.line("journalctl", line) if self.has_unit(self._unit) else ""

    @property
    def _slurm_job(self) -> str:
        """Its number or SLUID; "" without one. The identity is known after the process has ended."""
        known = self._job.managed_by.slurm_job if self._job else self._identity.container.removeprefix("job_")
        return known if _SLURM_JOB.fullmatch(known) else ""

    @property
    def _unit(self) -> str:
        return self._job.managed_by.unit if self._job else self._identity.container

    def has_unit(self, unit: str) -> bool:
        """Whether systemd on this node can be given this name."""
        return self.node.has_systemd and self.has("systemctl") and _UNIT.fullmatch(unit) is not None

    def exporter(self, arguments: str) -> str:
        """A call of this program."""
        return f"{shell_word(self.node.exporter)} {arguments}" if self.node.exporter else ""

    def _pod(self) -> tuple[str, str] | None:
        namespace, pod = self._identity.namespace, self._identity.pod
        return (namespace, pod) if _DNS_NAME.fullmatch(namespace) and _DNS_NAME.fullmatch(pod) else None


def container_tool(runtime: str, container: str, commands: Iterable[str]) -> str:
    """The program that acts on a container; "" without one."""
    if not _CONTAINER.fullmatch(container):
        return ""
    return next((tool for tool in RUNTIME_TOOLS.get(runtime, ()) if tool in commands), "")


def file_word(group: ControlGroup, file: str) -> str:
    """A file of the group that has the controller's files, as one word."""
    return shell_word(f"{group.mount}{group.controlled}/{file}")


def is_below_the_root(path: str) -> bool:
    """Whether a path leads to a control group below the root: that of a group outside a namespace begins with `/..`."""
    return path.startswith("/") and path != "/" and posixpath.normpath(path) == path
