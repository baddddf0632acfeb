"""The system: distribution, CPUs and memory, capabilities and namespaces of this process, cgroups, environment variables."""

from __future__ import annotations

import os
import re
import resource
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from exporter.support_bundle.machine import Machine
from exporter.support_bundle.redaction import SHOWN_VARIABLES

_STATUS_FIELDS = ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp")
_IDS = re.compile(r"[0-9a-f]{32,64}|[0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}")
_RUNTIME_WORDS = re.compile(
    r"(?:system|user|kubepods|docker|machine|init|podruntime|runtime|burstable|besteffort|pod|cri|containerd|crio|libpod|lxc|"
    r"slice|scope|service|ecs|<id>|[-_.:/]|\d)+"
)


def system(machine: Machine) -> dict[str, Any]:
    """Distribution, CPUs and memory, and what this process may do."""
    release = dict(line.partition("=")[::2] for line in machine.read_or_error("/etc/os-release").splitlines())
    status = dict(line.partition(":")[::2] for line in machine.read_or_error("/proc/self/status").splitlines())
    processor = re.search(r"^model name\s*: (.*)", machine.read_or_error("/proc/cpuinfo"), re.MULTILINE)
    memory = re.search(r"^MemTotal:\s*(\d+) kB", machine.read_or_error("/proc/meminfo"), re.MULTILINE)
    return {
        "distribution": {key: release.get(key, "").strip('"') for key in ("ID", "VERSION_ID", "PRETTY_NAME")},
        "processor": processor[1] if processor else "",
        "cpus": os.cpu_count(),
        "is_virtual": "hypervisor" in machine.read_or_error("/proc/cpuinfo"),
        "memory_bytes": int(memory[1]) * 1024 if memory else None,
        "is_root": os.geteuid() == 0,
        "capabilities": {name: status.get(name, "").strip() for name in _STATUS_FIELDS},
        "namespaces": {
            name: _link(machine.root / "proc/self/ns" / name) for name in ("pid", "mnt", "user", "net", "cgroup")
        },
        "open_files": resource.getrlimit(resource.RLIMIT_NOFILE),
        "locked_memory_bytes": resource.getrlimit(resource.RLIMIT_MEMLOCK),
    }


def _link(path: Path) -> str:
    try:
        return str(path.readlink())
    except OSError as error:
        return f"cannot be read: {error.strerror}"


def cgroups(machine: Machine) -> dict[str, Any]:
    """Mounted hierarchies, and the path of this process in them without ids and names."""
    mounts = []
    for line in machine.read("/proc/self/mountinfo").splitlines():
        before, _, after = line.partition(" - ")
        if after.startswith(("cgroup ", "cgroup2 ")):
            mounts.append({"at": before.split()[4], "type": after.split()[0], "options": after.split()[2]})
    own = _IDS.sub("<id>", machine.read("/proc/self/cgroup")).splitlines()
    return {
        "mounts": mounts,
        "controllers": machine.read_or_error("/sys/fs/cgroup/cgroup.controllers"),
        # A unit or a pod may bear the name of a person or a project: only words of container runtimes are kept.
        "own": [_without_names(line) for line in own],
    }


def _without_names(line: str) -> str:
    """`0::/system.slice/train.service` -> `0::/system.slice/….service`."""
    number, _, rest = line.partition(":")
    controllers, _, path = rest.partition(":")
    pieces = (
        piece
        if _RUNTIME_WORDS.fullmatch(piece) or not piece
        else "…" + (re.search(r"\.(slice|scope|service)$", piece) or [""])[0]
        for piece in path.split("/")
    )
    return f"{number}:{controllers}:{'/'.join(pieces)}"


def environment(variables: Mapping[str, str]) -> dict[str, Any]:
    """Names of variables; values only of those that cannot hold a secret."""
    return {name: variables[name] if name in SHOWN_VARIABLES else "set" for name in sorted(variables)}
