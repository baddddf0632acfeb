"""Processes that a remedy's commands act on, what the kernel says of their CPUs and priorities, and a shell to paste into.

In: processes of the tests' own, in control groups of their own. Out: figures before and after a command.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from exporter.chains.remedies.commands import CPU
from exporter.chains.remedies.context import ProcessContext
from exporter.host.cgroup_paths import CgroupPaths
from exporter.host.cgroups import Hierarchy, hierarchy_of
from exporter.host.processes import Processes
from tests.support import sweep

THREADS: Final = 3
_SLEEPS: Final = f"""
import threading, time
for _ in range({THREADS - 1}):
    threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
print("ready", flush=True)
time.sleep(600)
"""
_TIMEOUT_SECONDS: Final = 120.0
_DIGEST: Final = "[0-9a-f]{64}"
_CPUS: Final = r"[0-9]+(?:[-,][0-9]+)*"
_UPDATE: Final = rf"update (?:--cpuset-cpus {_CPUS}|--cpu-shares 2|--cpus 0\.2) {_DIGEST}|inspect {_DIGEST}"
STANDINS: Final = {
    "coredumpctl": "--no-pager list",
    "crictl": rf"update (?:--cpuset-cpus {_CPUS}|--cpu-share 2|--cpu-quota 20000 --cpu-period 100000) {_DIGEST}"
    rf"|inspect {_DIGEST}",
    "docker": _UPDATE,
    "gpu-stall-exporter": "explain --(?:workload=rank=[0-9]+|since 10m)",
    "iostat": "-xz 1 3",
    "journalctl": "--no-pager -n 50 -u [a-z-]+.service",
    "kubectl": "-n [a-z-]+ (?:describe pod [a-z0-9-]+|logs [a-z0-9-]+ --all-containers --tail=50(?: --previous)?)",
    "mpstat": "-P ALL 1 5",
    "nerdctl": _UPDATE,
    "nvidia-smi": r"--query-(?:gpu|compute-apps)=[a-z_.,]+ --format=csv|topo -m|-q -d [A-Z,]+",
    "pidstat": "-d 1 3",
    "podman": _UPDATE,
    "py-spy": r"dump (?:--subprocesses )?--pid [0-9]+|record --nonblocking --pid [0-9]+ --duration [0-9]+( --\w+ [a-z.]+)+",
    "scontrol": "show job [0-9]+",
    "sleep": "10",
    "systemctl": r"set-property --runtime [a-z-]+\.(?:service|scope) (?:AllowedCPUs|CPUWeight|CPUQuota)=[0-9%,-]+"
    r"|show [a-z-]+(?:\.service)? -p [A-Za-z,]+",
}
"""Programs that this machine may lack, or has without what they talk to -> the arguments that they accept."""


_STANDIN: Final = """#!{python} -IS
import re, sys
sys.exit(0 if re.fullmatch({accepted!r}, " ".join(sys.argv[1:])) else 64)
"""


class Shell:
    """A shell as root's, in an empty folder. `sleep` and programs that need a daemon or a GPU are replaced."""

    def __init__(self, folder: Path, *, without: str = "") -> None:
        self.programs = folder / "bin"
        self.programs.mkdir()
        self._place = folder / "place"
        self._place.mkdir()
        for name, accepted in STANDINS.items():
            if name != without:
                path = self.programs / name
                path.write_text(_STANDIN.format(python=sys.executable, accepted=accepted), encoding="utf-8")
                path.chmod(0o755)
        self.folders = (
            str(self.programs),
            "/usr/local/sbin",
            "/usr/local/bin",
            "/usr/sbin",
            "/usr/bin",
            "/sbin",
            "/bin",
        )

    def paste(self, command: str) -> int:
        """The exit status."""
        done = subprocess.run(
            ["bash", "--norc", "-c", os.fsencode(command)],
            cwd=self._place,
            env={"PATH": ":".join(self.folders), "HOME": str(self._place), "LC_ALL": "C.UTF-8"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_TIMEOUT_SECONDS,
            check=False,
        )
        return done.returncode


class Standing(NamedTuple):
    """What the scheduler gives a process. cpus: of all threads. nice: of each thread, the lowest first. limits: of its group."""

    cpus: frozenset[int]
    nice: tuple[int, ...]
    policies: frozenset[int]
    autogroup: str
    limits: tuple[str, ...]
    is_stopped: bool

    def is_behind(self, before: Standing, job: Standing) -> bool:
        """Whether less of the job's CPUs is left for this process than before."""
        return (
            (bool(before.cpus & job.cpus) and not self.cpus & job.cpus)
            or (before.nice[-1] < self.nice[0] == 19)
            or (bool(before.policies & {os.SCHED_RR}) and self.policies == {os.SCHED_OTHER})
            or any(_lower(one, other) for one, other in zip(self.limits, before.limits, strict=True))
        )


def _lower(text: str, before: str) -> bool:
    """Whether a weight or quota is lower. `max 100000` and -1 are no limit."""
    now, then = text.split()[:1], before.split()[:1]
    if not now or now == then or now[0] in ("max", "-1"):
        return False
    return then[0] in ("max", "-1") or int(now[0]) < int(then[0])


def cpu_hierarchy() -> Hierarchy | None:
    return hierarchy_of(CPU)


def standing(tgid: int, group: Path | None = None) -> Standing:
    """group: whose weight and quota are part of it."""
    tids = sorted(int(one.name) for one in Path(f"/proc/{tgid}/task").iterdir())
    names = ("cpu.weight", "cpu.max", "cpu.shares", "cpu.cfs_quota_us")
    autogroup = Path(f"/proc/{tgid}/autogroup")
    return Standing(
        frozenset(cpu for tid in tids for cpu in os.sched_getaffinity(tid)),
        tuple(sorted(os.getpriority(os.PRIO_PROCESS, tid) for tid in tids)),
        frozenset(os.sched_getscheduler(tid) for tid in tids),
        autogroup.read_text() if autogroup.exists() else "",
        tuple((group / name).read_text().strip() for name in names if group and (group / name).exists()),
        Path(f"/proc/{tgid}/stat").read_text().rpartition(")")[2].split()[0] in "Tt",
    )


@contextmanager
def sleeping(cpus: set[int], group: Path | None = None) -> Iterator[int]:
    """The id of a process with THREADS threads, in a session and a control group of its own. It uses no CPU time."""
    process = subprocess.Popen(
        [sys.executable, "-c", _SLEEPS],
        stdout=subprocess.PIPE,
        start_new_session=True,
        preexec_fn=lambda: _begin(cpus, group),  # noqa: PLW1509 - this process has one thread
    )
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == b"ready\n"
        yield process.pid
    finally:
        process.kill()
        process.stdout.close()
        process.wait()


def _begin(cpus: set[int], group: Path | None) -> None:
    if group:  # first: before Linux 6.2 it resets the CPUs
        (group / "cgroup.procs").write_text(str(os.getpid()))
    os.sched_setaffinity(0, cpus)


@contextmanager
def groups() -> Iterator[dict[str, Path]]:
    """Control groups for CPUs: `job`, `near` beside it, and `far` in another branch. Empty without the controller."""
    hierarchy = cpu_hierarchy()
    if hierarchy is None:
        yield {}
        return
    with sweep.group_tree(hierarchy.root, "remedies") as tree:
        found = {name: tree / path for name, path in (("job", "a/job"), ("near", "b"), ("far", "c/far"))}
        for path in found.values():
            path.mkdir(parents=True)
        for parent in (hierarchy.root, tree, tree / "a", tree / "c") if hierarchy.version == 2 else ():
            (parent / "cgroup.subtree_control").write_text("+cpu")
        yield found


def machine_processes() -> Processes:
    return Processes(Path("/proc"), CgroupPaths.of_machine().from_root)


def context_of(job: int, *culprits: int) -> ProcessContext:
    """Before the node is known."""
    processes = machine_processes()
    return ProcessContext(
        job, culprit_tgids=culprits, culprit_start_ticks=tuple(map(processes.start_time_ticks, culprits))
    )
