"""Control groups of version 1 or 2, whichever has the controller: made for one fault, removed with it."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.faults.injectors import NotPossible
from tests.support import sweep

MOUNTS = Path("/proc/self/mounts")
PREFIX = "gpu-stall-fault"
PATIENCE_SECONDS = 10.0
_NAME_IN_VERSION_2 = {"blkio": "io", "freezer": "cpu"}  # every group of version 2 can be frozen


@dataclass(frozen=True)
class Group:
    """A control group with one controller: its folder, and the version of the hierarchy it is in."""

    path: Path
    version: int

    def write(self, name: str, value: str | int) -> None:
        """Set a file of the controller."""
        try:
            (self.path / name).write_text(str(value))
        except OSError as error:
            raise NotPossible(f"{self.path.name}: cannot write {value} to {name}: {error.strerror}") from error

    def read(self, name: str) -> str:
        """What a file of the controller says."""
        return (self.path / name).read_text().strip()

    def tgids(self) -> list[int]:
        """Processes that are in it."""
        return [int(word) for word in self.read("cgroup.procs").split()]


def hierarchy(controller: str, mounts: Path = MOUNTS) -> tuple[Path, int]:
    """The root folder and version of the mounted hierarchy that has this controller.

    Raises NotPossible when none has.
    """
    for line in mounts.read_text().splitlines():
        _, folder, kind, options, *_ = line.split()
        if kind == "cgroup" and controller in options.split(","):
            return Path(folder), 1
        if kind == "cgroup2" and controller in _words(Path(folder) / "cgroup.controllers"):
            return Path(folder), 2
    raise NotPossible(f"no mounted cgroup hierarchy has the controller {controller!r}")


@contextmanager
def group(controller: str, purpose: str) -> Iterator[Group]:
    """A new, empty group; at the end its processes move back to the root, and it is removed.

    controller: the name of version 1; `blkio` is `io` in version 2.
    """
    with groups((controller,), purpose) as found:
        yield found[controller]


@contextmanager
def groups(controllers: Sequence[str], purpose: str) -> Iterator[dict[str, Group]]:
    """A new, empty group for each controller, or one for all of those that are in one hierarchy; see group()."""
    if os.geteuid() != 0:
        raise NotPossible("control groups are made by root")
    roots = {controller: root_of(controller) for controller in controllers}
    with ExitStack() as stack:
        for controller, (root, version) in roots.items():
            stack.enter_context(delegated(root, version, controller))
        paths = {root: root / f"{own_prefix()}-{purpose}" for root, _ in roots.values()}
        for root, path in paths.items():
            try:
                path.mkdir()
            except OSError as error:
                raise NotPossible(f"cannot make {path}: {error.strerror}") from error
            sweep.mark(path)
            stack.callback(_remove, path, root)
        yield {controller: Group(paths[root], version) for controller, (root, version) in roots.items()}


def left_behind() -> list[Path]:
    """Groups of this process that were not removed."""
    found = []
    for line in MOUNTS.read_text().splitlines():
        _, folder, kind, *_ = line.split()
        if kind in ("cgroup", "cgroup2"):
            found += list(Path(folder).glob(f"{own_prefix()}-*"))
    return found


def own_prefix() -> str:
    """Names of this process alone: its number may be that of another process in another PID namespace."""
    namespace = Path("/proc/self/ns/pid").stat().st_ino
    return f"{PREFIX}-{namespace}-{os.getpid()}"


def root_of(controller: str) -> tuple[Path, int]:
    """The root of the hierarchy with this controller, by its name in version 1, and its version. Raises NotPossible."""
    try:
        return hierarchy(controller)
    except NotPossible:
        if controller not in _NAME_IN_VERSION_2:
            raise
        return hierarchy(_NAME_IN_VERSION_2[controller])


def _words(path: Path) -> list[str]:
    return path.read_text().split() if path.is_file() else []


@contextmanager
def delegated(root: Path, version: int, controller: str) -> Iterator[None]:
    """In version 2 the root, or another group, must hand the controller down to its children."""
    controller = _NAME_IN_VERSION_2.get(controller, controller)
    switch = root / "cgroup.subtree_control"
    if version == 1 or controller in _words(switch):
        yield
        return
    try:
        switch.write_text(f"+{controller}")
    except OSError as error:
        raise NotPossible(f"cannot enable {controller} in {switch}: {error.strerror}") from error
    try:
        yield
    finally:
        if not any(root.glob(f"{PREFIX}-*")):  # a test beside this one may need it
            switch.write_text(f"-{controller}")


def _remove(path: Path, root: Path) -> None:
    """Removes the group; a process that has just ended leaves it a moment later."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        for tgid in _words(path / "cgroup.procs"):
            _move(int(tgid), root)
        try:
            path.rmdir()
        except FileNotFoundError:
            return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)
        else:
            return


def _move(tgid: int, root: Path) -> None:
    try:
        (root / "cgroup.procs").write_text(str(tgid))
    except OSError as error:
        if not isinstance(error, ProcessLookupError):
            raise
