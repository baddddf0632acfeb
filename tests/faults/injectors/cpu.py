"""Neighbours that use the CPU, in a control group of their own, under a name by which they can be found."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from gpustall_standin.job import SPIN
from tests.faults.injectors import NotPossible, cgroups

HOG = "fault-hog"


@contextmanager
def named_shell(
    comm: str, script: str, *, count: int = 1, cpus: str = "", nice: int = 0, groups: Sequence[Path] = ()
) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Shells that carry out a script under a name of their own ($1 is the tgid of this process); killed at the end.

    comm: at most 15 characters. cpus: a list as taskset takes it. groups: where they are put before they start.
    """
    shell = shutil.which("sh")
    if shell is None:
        raise NotPossible("there is no sh")
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        link = Path(folder) / comm
        link.symlink_to(shell)
        line = ["taskset", "-c", cpus] if cpus else []
        line += ["nice", "-n", str(nice)] if nice else []
        started = []
        for _ in range(count):
            process = subprocess.Popen(
                [*in_groups(groups), *line, str(link), "-c", script, comm, str(os.getpid())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
            stack.callback(_end, process)
            started.append(process)
        yield started


def in_groups(groups: Sequence[Path]) -> list[str]:
    """The beginning of a command line that starts what follows in these control groups."""
    if not groups:
        return []
    enter = 'while [ "$1" != -- ]; do echo $$ >"$1/cgroup.procs" || exit 125; shift; done; shift; exec "$@"'
    return ["sh", "-c", enter, "sh", *map(str, groups), "--"]


@contextmanager
def hogs(count: int, *, cpus: str = "", nice: int = 0) -> Iterator[None]:
    """Processes in another control group that never stop using the CPU."""
    with (
        cgroups.group("cpu", "hogs") as others,
        named_shell(HOG, SPIN, count=count, cpus=cpus, nice=nice, groups=[others.path]),
    ):
        yield


def _end(process: subprocess.Popen[bytes]) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        process.kill()
    process.wait()
