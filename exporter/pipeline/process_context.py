"""Where a process runs: its cgroup and CPUs, for the commands of a remedy and for a recording. Read from /proc."""

from __future__ import annotations

from exporter.chains.remedies import ProcessContext
from exporter.errors import NotPossibleHere, ProcessGone
from exporter.host.processes import Processes

STATUS_BYTES = 16 * 1024


def process_context(processes: Processes, tgid: int) -> ProcessContext:
    """Its number alone where /proc does not show it."""
    try:
        cgroup = _cgroup_path(processes.cgroup(tgid, "surrogateescape"))
        status = processes.read(tgid, "status", STATUS_BYTES)
    except (ProcessGone, NotPossibleHere):
        return ProcessContext(tgid)
    return ProcessContext(tgid, cgroup, allowed_cpus(status))


def _cgroup_path(text: str) -> str:
    """In the unified hierarchy; without one, in that of the cpu controller. Exact: a command has to find it."""
    lines = (line.split(":", 2) for line in text.split("\n"))
    paths = {parts[1]: parts[2] for parts in lines if len(parts) == 3}
    of_cpus = next((path for controllers, path in paths.items() if "cpu" in controllers.split(",")), "")
    return (of_cpus or paths.get("", "")).rstrip("/")


def allowed_cpus(status: bytes) -> str:
    """`0-3,8`."""
    for line in status.decode(errors="replace").split("\n"):
        name, _, value = line.partition(":")
        if name == "Cpus_allowed_list":
            return value.strip()
    return ""
