"""A program that makes control groups below its own, and in each of them something that the kernel programs keep a row for."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from exporter.host.cgroups import unified_hierarchy
from tests.faults.injectors import NotPossible, cgroups
from tests.faults.injectors.cpu import in_groups
from tests.support import sweep
from tests.support.patience import line_of
from tests.support.traced import eventually

UNIFIED = "unified"
"""For the network: sockets have the group of version 2, whichever controllers that has."""
_PROGRAM = r"""
import json, mmap, os, select, socket, sys
order = json.loads(sys.argv[1])
parent, act, times, target = order["parent"], order["act"], order["times"], order["target"]
held = []

def read_a_page():
    os.preadv(disk, [page], 0)

def need_more_than_there_is():
    child = os.fork()
    if not child:
        mmap.mmap(-1, 64 << 20).write(b"x" * (64 << 20))
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 9

def connect_in_vain():
    one = socket.socket()
    if times > 1:  # counted exactly: none sends a second time before the last has sent once
        one.setsockopt(socket.IPPROTO_TCP, socket.TCP_SYNCNT, 1)
    one.setblocking(False)
    one.connect_ex((target, 9))
    held.append(one)

if act == "reads":
    page, disk = mmap.mmap(-1, 4096), os.open(target, os.O_RDONLY | os.O_DIRECT)
do = {"reads": read_a_page, "kills": need_more_than_there_is, "connects": connect_in_vain}[act]
os.setgroups([])
os.setgid(order["user"])
os.setuid(order["user"])
for _ in range(order["depth"]):
    parent += "/below"
    os.mkdir(parent)
for number in range(order["groups"]):
    group = f"{parent}/{number}"
    os.mkdir(group)
    if act == "kills":
        with open(f"{group}/{order['limit_file']}", "w") as limit:
            limit.write(str(32 << 20))
    with open(f"{group}/cgroup.procs", "w") as members:
        members.write(str(os.getpid()))
    for _ in range(times):
        do()
print("done", flush=True)
sys.stdin.read()
"""


class Crowd:
    """One parent group, which a user may divide."""

    def __init__(self, parent: Path, version: int, user: int) -> None:
        self.parent = parent
        self._version = version
        self._user = user

    @property
    def user_key(self) -> int:
        """For Shares.expect(): its user, within the parent, which is the uppermost group."""
        return 1 << 63 | (self.parent.stat().st_ino & 0x7FFFFFFF) << 32 | self._user

    def number_of(self, group: int) -> int:
        """What the kernel programs call the group that was made as this one, from 0."""
        return (self.parent / str(group)).stat().st_ino

    @contextmanager
    def acting(
        self, act: str, target: str | Path, *, groups: int, times: int, depth: int = 0, before: Sequence[str] = ()
    ) -> Iterator[None]:
        """The program after it has done this so many times in each of so many groups, alive.

        act: reads of a page of the disk `target`, kills for lack of memory, or connects to `target`, which never answers.
        depth: groups between the parent and these. before: a command that starts it.
        """
        order = {
            "parent": str(self.parent),
            "act": act,
            "times": times,
            "target": str(target),
            "user": self._user,
            "groups": groups,
            "depth": depth,
            "limit_file": "memory.limit_in_bytes" if self._version == 1 else "memory.max",
        }
        line = [*in_groups([self.parent / "start"]), *before, sys.executable, "-S", "-c", _PROGRAM, json.dumps(order)]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        with subprocess.Popen(line, text=True, start_new_session=True, **pipes) as process:
            try:
                assert line_of(process) == "done\n"
                yield
            finally:
                process.kill()


@contextmanager
def crowd(controller: str, name: str, user: int) -> Iterator[Crowd]:
    """Below the root of a hierarchy. controller: by its name in version 1, or UNIFIED. Raises NotPossible."""
    root, version = _root_of(controller)
    with ExitStack() as stack:
        if controller != UNIFIED:
            stack.enter_context(cgroups.delegated(root, version, controller))
        parent = root / f"{cgroups.own_prefix()}-{name}"
        parent.mkdir()
        sweep.mark(parent)
        stack.callback(_remove, parent)
        (parent / "start").mkdir()
        if controller != UNIFIED:
            stack.enter_context(cgroups.delegated(parent, version, controller))
        for path in (parent, parent / "cgroup.procs"):
            subprocess.run(["chown", f"{user}:{user}", path], check=True)
        yield Crowd(parent, version, user)


def _root_of(controller: str) -> tuple[Path, int]:
    if controller != UNIFIED:
        return cgroups.root_of(controller)
    hierarchy = unified_hierarchy()
    if hierarchy is None:
        raise NotPossible("no mounted cgroup hierarchy of version 2")
    return hierarchy.root, 2


def _remove(parent: Path) -> None:
    """Each group, the innermost first, once its last process has left it."""
    for folder, _, _ in os.walk(parent, topdown=False):
        group = Path(folder)
        eventually(lambda group=group: _is_removed(group), f"{group} is empty")


def _is_removed(group: Path) -> bool:
    try:
        group.rmdir()
    except OSError:
        return False
    return True
