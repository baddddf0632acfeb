"""Too little memory in the job's own control group: reclaim on allocation, and pages that are gone when needed."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.faults.injectors import NotPossible
from tests.faults.injectors.cgroups import Group
from tests.faults.injectors.cpu import in_groups, named_shell
from tests.faults.injectors.disk import forget_pages

WRITER = "fault-writer"
OOM_SPARE_BYTES = 16 << 20
PATIENCE_SECONDS = 5.0
LOOKS, LOOK_SECONDS = 50, 0.002


def used_bytes(group: Group) -> int:
    """What the group has now, page cache included."""
    return int(group.read("memory.usage_in_bytes" if group.version == 1 else "memory.current"))


@contextmanager
def limit(group: Group, size_bytes: int) -> Iterator[None]:
    """No more than this for the group."""
    file = "memory.limit_in_bytes" if group.version == 1 else "memory.max"
    before = group.read(file)
    group.write(file, size_bytes)
    try:
        yield
    finally:
        # Version 1 shows "no limit" as a number that it accepts as well.
        group.write(file, before)


@contextmanager
def reclaim(group: Group, path: Path, spare_bytes: int) -> Iterator[None]:
    """A neighbour in the group fills it with pages to be written, so that a new page must wait for an old one's place.

    path: where it writes, up to twice spare_bytes, which is what the group may have beyond what it has now. What it wrote
    before is forgotten: the group could give those pages away, and no process would wait.
    """
    forget_pages(path)
    count = 2 * spare_bytes >> 20
    write = f"dd if=/dev/zero of={path} bs=1M count={count} conv=notrunc 2>/dev/null"
    script = f'while kill -0 "$1" 2>/dev/null; do {write}; done'
    with limit(group, used_bytes(group) + spare_bytes), named_shell(WRITER, script, groups=[group.path]):
        yield


@contextmanager
def oom_kill(group: Group, spare_bytes: int = OOM_SPARE_BYTES) -> Iterator[None]:
    """The kernel kills a process in the group that wants more than spare_bytes beyond the group's recent minimum.

    Page cache does not help: what the group has of it is given up first.
    """
    least_bytes = min(_used_bytes_of_late(group))
    deadline = time.monotonic() + PATIENCE_SECONDS
    with ExitStack() as limited:
        while True:  # version 1 refuses a limit that is below what cannot be given up just now
            try:
                limited.enter_context(limit(group, least_bytes + spare_bytes))
                break
            except NotPossible:
                if time.monotonic() > deadline:
                    raise
        yield


def oom_kills(group: Group) -> int:
    """Processes of the group that the kernel has ended, as it counts them itself."""
    file = "memory.oom_control" if group.version == 1 else "memory.events"
    return int(dict(line.split() for line in group.read(file).splitlines())["oom_kill"])


def _used_bytes_of_late(group: Group) -> Iterator[int]:
    for _ in range(LOOKS):
        yield used_bytes(group)
        time.sleep(LOOK_SECONDS)


def fill_cache(group: Group, path: Path) -> None:
    """Have the file in the page cache, at the group's expense."""
    subprocess.run([*in_groups([group.path]), "cat", path], stdout=subprocess.DEVNULL, check=True)
