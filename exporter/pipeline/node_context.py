"""What a node has that commands of a remedy may use: programs, systemd, schedulers of its disks.

In: the root of the node's first process, which in a container is not the exporter's. Out: a NodeContext, read once.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from exporter.chains.remedies.context import NodeContext
from exporter.kernel.facts import PID_NAMESPACE_OF_MACHINE

EXPORTER: Final = "gpu-stall-exporter"
FOLDERS: Final = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
"""The PATH of root, and of sudo."""
PROGRAMS: Final = (
    "cat chrt coredumpctl crictl dmesg docker gdb grep head ionice iostat journalctl kubectl ls mpstat nerdctl nsenter nstat "
    "nvidia-smi perf pidstat podman ps py-spy renice scontrol sed sleep ss systemctl tail taskset tr vmstat"
)
"""What remedies use."""
OWN_PROGRAM: Final = Path(sys.executable).with_name(EXPORTER)
_CLASSES: Final = ("[bfq]", "[mq-deadline]")


def node_context(
    proc: Path = Path("/proc"),
    sys_root: Path = Path("/sys"),
    *,
    folders: Sequence[str] = FOLDERS,
    own_program: Path = OWN_PROGRAM,
) -> NodeContext:
    """folders: of programs, below the node's root. own_program: how this program can be called by its path."""
    root = node_root(proc)
    return NodeContext(
        commands=frozenset(name for name in PROGRAMS.split() if _has(root, folders, name)),
        exporter=_exporter(root, folders, own_program),
        has_systemd=Path(f"{root}/run/systemd/system").is_dir(),
        has_io_classes=any(one in _text(file) for file in sys_root.glob("block/*/queue/scheduler") for one in _CLASSES),
        has_autogroups=_text(proc / "sys/kernel/sched_autogroup_enabled").strip() == "1",
        has_pressure=_text(proc / "pressure/io") != "",
        has_machine_ids=_pid_namespace(proc) == PID_NAMESPACE_OF_MACHINE,
    )


def node_root(proc: Path) -> str:
    """The folder that the paths of the node begin in; "" if they are those of this process, or others cannot be read."""
    root = f"{proc}/1/root"
    try:
        return "" if Path(f"{root}/.").samefile("/") else root
    except OSError:
        return ""


def _has(root: str, folders: Sequence[str], name: str) -> bool:
    """An absolute link leads elsewhere in another root: it counts."""
    paths = [f"{root}{folder}/{name}" for folder in folders]
    return any(os.access(path, os.X_OK) or os.path.islink(path) for path in paths)  # noqa: PTH114


def _exporter(root: str, folders: Sequence[str], own_program: Path) -> str:
    if _has(root, folders, EXPORTER):
        return EXPORTER
    return str(own_program) if not root and os.access(own_program, os.X_OK) else ""


def _pid_namespace(proc: Path) -> int:
    """Its inode; 0 if it is not known."""
    try:
        return (proc / "self/ns/pid").stat().st_ino
    except OSError:
        return 0


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""
