"""Removes what earlier runs of the tests have left on this machine, since they were killed, and says what it was.

A run is named by its first process: PID namespace, process id and start time, in the environment of every process that it starts.
Control groups carry the name in an extended attribute, and a changed setting of the machine is recorded with it. Those of a run
that goes on are left alone. Other things have no owner; they are removed by their names when no other run goes on.
`python -m tests.support.sweep` does nothing else.
"""

from __future__ import annotations

import fcntl
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

VARIABLE = "TEST_RUN"
ATTRIBUTE = "trusted.test_run"
RECORDS = Path("/run/gpu-stall-exporter-tests")
"""A file for each changed setting: the run, the path and the value before, each in a line."""
EXPEDITED = Path("/sys/kernel/rcu_expedited")
SEGMENTS = ("standin-nccl-*", "gpustall-*")
NAMESPACES = "gpu-stall-*"
TEMPORARY = re.compile(r"/(?:var/)?tmp/(?:pytest-of-|gpu-stall-)")
PATIENCE_SECONDS = 20.0


def _name_of(process: int) -> str:
    """What names a run that this process has begun, or "" if there is no such process."""
    try:
        stat = Path(f"/proc/{process}/stat").read_text(encoding="utf-8", errors="replace")
        namespace = os.stat(f"/proc/{process}/ns/pid").st_ino  # noqa: PTH116
    except OSError:
        return ""
    return f"gpu-stall-exporter:{namespace}:{process}:{stat.rpartition(')')[2].split()[19]}"


def begin_run() -> str:
    """The name of the run that this process belongs to: it begins one, unless the environment has one."""
    return os.environ.setdefault(VARIABLE, _name_of(os.getpid()))


def is_over(run: str) -> bool:
    """Whether its first process is gone. One of another PID namespace cannot be seen, and counts as alive."""
    own = os.stat("/proc/self/ns/pid").st_ino  # noqa: PTH116
    match run.split(":"):
        case ["gpu-stall-exporter", namespace, process, _] if namespace == str(own):
            return _name_of(int(process)) != run
    return False


@contextmanager
def group_tree(hierarchy: Path, purpose: str) -> Iterator[Path]:
    """A new control group, removed at the end with all groups in it and their processes."""
    namespace = os.stat("/proc/self/ns/pid").st_ino  # noqa: PTH116
    group = hierarchy / f"gpu-stall-{purpose}-{namespace}-{os.getpid()}"
    group.mkdir()
    mark(group)
    try:
        yield group
    finally:
        for one in reversed(list(_folders(group))):
            _remove_group(one)


def mark(group: Path) -> None:
    """Note on a new control group which run has made it."""
    with suppress(OSError):
        os.setxattr(group, ATTRIBUTE, begin_run().encode())


@contextmanager
def changed(setting: Path, value: str) -> Iterator[None]:
    """A setting of the machine has this value inside the block, and its own after it, or after the next sweep."""
    before = setting.read_text(encoding="ascii")
    RECORDS.mkdir(parents=True, exist_ok=True)
    record = RECORDS / f"{os.stat('/proc/self/ns/pid').st_ino}-{os.getpid()}-{setting.name}"  # noqa: PTH116
    record.write_text(f"{begin_run()}\n{setting}\n{before}", encoding="ascii")
    setting.write_text(value, encoding="ascii")
    try:
        yield
    finally:
        _restore(record)


def _restore(record: Path) -> str:
    """A later run that has changed the same setting inherits the value before."""
    _, setting, before = record.read_text(encoding="ascii").split("\n", 2)
    record.unlink()
    for other in sorted(RECORDS.iterdir()):
        run, path, _ = other.read_text(encoding="ascii").split("\n", 2)
        if path == setting:
            other.write_text(f"{run}\n{path}\n{before}", encoding="ascii")
            return setting
    Path(setting).write_text(before, encoding="ascii")
    return setting


def sweep(say: Callable[[str], object], ending: str = "") -> None:
    """Remove what is left of runs that are over. say: called with a line for each thing. ending: a run that counts as over."""

    def is_gone(run: str) -> bool:
        return run == ending != "" or is_over(run)

    if os.geteuid() != 0:
        return
    groups = _groups(is_gone)
    for group in groups:  # a process may be frozen by a group in another hierarchy
        _thaw(group)
    for group in groups:
        _attempt(say, f"control group {group}", lambda group=group: _remove_group(group))  # type: ignore[misc]
    others = False
    for process, run in _marked_processes():
        if is_gone(run):
            say(f"swept: process {process}: {_command(process)}")
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        else:
            others = others or run != begin_run()
    for record in sorted(RECORDS.iterdir()) if RECORDS.is_dir() else []:
        if is_gone(record.read_text(encoding="ascii").partition("\n")[0]):
            _attempt(say, f"setting {record.name}", lambda record=record: _restore(record))  # type: ignore[misc]
    if not others:
        _sweep_by_name(say)


def _sweep_by_name(say: Callable[[str], object]) -> None:
    for line in reversed(Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines()):
        where = line.split()[1].encode().decode("unicode_escape")
        if TEMPORARY.match(where):
            _attempt(say, f"mount {where}", lambda where=where: _call("umount", "--lazy", where))  # type: ignore[misc]
    for backing in Path("/sys/block").glob("loop*/loop/backing_file"):
        name = f"/dev/{backing.parts[3]}"
        if TEMPORARY.match(backing.read_text(encoding="utf-8")):
            _attempt(say, f"loop device {name}", lambda name=name: _call("losetup", "--detach", name))  # type: ignore[misc]
    for namespace in Path("/run/netns").glob(NAMESPACES):
        name = namespace.name
        _attempt(say, f"network namespace {name}", lambda name=name: _call("ip", "netns", "delete", name))  # type: ignore[misc]
    for pattern in SEGMENTS:
        for segment in Path("/dev/shm").glob(pattern):
            if not _is_locked(segment):
                _attempt(say, f"shared memory {segment}", segment.unlink)


def _is_locked(segment: Path) -> bool:
    """Whether a rank has it: also of a job that belongs to no test."""
    with segment.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def _marked_processes() -> Iterator[tuple[int, str]]:
    """Processes that have the name of a run in their environment, other than this one and its ancestors."""
    mine = {os.getpid(), os.getppid()}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and int(entry.name) not in mine:
            with suppress(OSError):
                found = re.search(rf"(?:^|\0){VARIABLE}=([^\0]*)".encode(), (entry / "environ").read_bytes())
                if found:
                    yield int(entry.name), found[1].decode(errors="replace")


def _groups(is_gone: Callable[[str], bool]) -> list[Path]:
    """Control groups of such runs and all groups within them, the innermost first."""
    found: dict[Path, None] = {}
    for line in Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines():
        _, root, kind, *_ = line.split()
        for folder in _folders(Path(root)) if kind in ("cgroup", "cgroup2") else ():
            run = ""
            with suppress(OSError):
                run = os.getxattr(folder, ATTRIBUTE).decode()
            if is_gone(run) or folder.parent in found:
                found[folder] = None
    return [*reversed(found)]


def _folders(root: Path) -> Iterator[Path]:
    """This one and all below it, however deep, each before those that are in it."""
    waiting = [root]
    while waiting:
        folder = waiting.pop()
        yield folder
        with suppress(OSError), os.scandir(folder) as entries:
            waiting += [folder / entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]


def _thaw(group: Path) -> None:
    for name, value in (("freezer.state", "THAWED"), ("cgroup.freeze", "0")):
        with suppress(OSError):  # there is no freezer in this hierarchy, or it is the outermost group
            (group / name).write_text(value, encoding="ascii")


def _remove_group(group: Path) -> None:
    """Kill its processes, and remove it once they are gone."""
    until = time.monotonic() + PATIENCE_SECONDS
    while True:
        for process in (group / "cgroup.procs").read_text(encoding="ascii").split():
            with suppress(ProcessLookupError):
                if process != "0":  # in another PID namespace
                    os.kill(int(process), signal.SIGKILL)
        try:
            group.rmdir()
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.05)
        else:
            return


def _command(process: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{process}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")[:100]
    return ""


def _call(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)


def _attempt(say: Callable[[str], object], what: str, remove: Callable[[], object]) -> None:
    try:
        remove()
    except (OSError, subprocess.CalledProcessError) as error:
        say(f"cannot sweep {what}: {error}")
    else:
        say(f"swept: {what}")


if __name__ == "__main__":
    begin_run()
    sweep(print)
