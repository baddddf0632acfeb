"""A limit on the CPU time of the job's own control group."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tests.faults.injectors.cgroups import Group

PERIOD_US = 100_000


@contextmanager
def quota(group: Group, percent: int) -> Iterator[None]:
    """At most this much of one CPU, in periods of 100 ms."""
    limit_us = PERIOD_US * percent // 100
    if group.version == 1:
        before = group.read("cpu.cfs_quota_us")
        group.write("cpu.cfs_period_us", PERIOD_US)
        group.write("cpu.cfs_quota_us", limit_us)
        try:
            yield
        finally:
            group.write("cpu.cfs_quota_us", before)
    else:
        before = group.read("cpu.max")
        group.write("cpu.max", f"{limit_us} {PERIOD_US}")
        try:
            yield
        finally:
            group.write("cpu.max", before)
