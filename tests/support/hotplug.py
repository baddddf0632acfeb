"""The second CPU of the machine goes offline and online. Only for tests marked idle_machine.

The affinity of every program pinned to that CPU is lost, so no other test may run at the same time.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.faults.injectors import NotPossible, cgroups
from tests.support import sweep

CPU = 1
ONLINE = Path(f"/sys/devices/system/cpu/cpu{CPU}/online")


def switch(state: str) -> None:
    """0: offline; 1: online. Returns when it is done."""
    try:
        ONLINE.write_text(state)
    except OSError as error:
        pytest.skip(f"needs a CPU that can be switched off: {state} to {ONLINE}: {error.strerror}")


@contextmanager
def switchable() -> Iterator[None]:
    """A CPU that can go offline; it is online again at the end."""
    if not ONLINE.exists():
        pytest.skip(f"needs a CPU that can be switched off: there is no {ONLINE}")
    if (groups := _groups_of_cpus()) is not None:
        pytest.skip(f"{groups} is a cpuset of cgroup v1: it would lose the CPU for good")
    with sweep.changed(ONLINE, "1"):
        yield
    assert ONLINE.read_text().strip() == "1"


def _groups_of_cpus() -> Path | None:
    try:
        root, version = cgroups.hierarchy("cpuset")
    except NotPossible:
        return None
    return next((path for path in root.iterdir() if path.is_dir()), None) if version == 1 else None
