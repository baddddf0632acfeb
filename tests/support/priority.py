"""A priority that keeps a job's speed independent of other work on the machine."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

HIGHEST = -20  # 86 times the CPU time of a process of the usual priority


@contextmanager
def high_priority() -> Iterator[None]:
    """Programs that this thread starts in the block run before those of the usual priority, where root may do that."""
    before = os.getpriority(os.PRIO_PROCESS, 0)
    with suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, HIGHEST)
    try:
        yield
    finally:
        os.setpriority(os.PRIO_PROCESS, 0, before)


@contextmanager
def before_others() -> Iterator[None]:
    """Programs that this thread starts in the block run whenever they want a CPU, where root may do that.

    For those that mostly sleep: unlike a high priority, it also holds against programs of other sessions.
    """
    with suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    try:
        yield
    finally:
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
