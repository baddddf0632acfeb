"""CPU time that containers lose to their quota, and the node to its hypervisor and to interrupts.

In: files of cgroups, /proc/stat. Out: totals by identity, in nanoseconds. What each of these took from a thread is counted by
exporter/accounting. Cost of a scrape: 16 us a traced process, and as much a cgroup with a quota.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from exporter import catalog
from exporter.host.cgroups import with_ancestors
from exporter.host.machine import CpuTimes
from exporter.hostmetrics.workload_cgroups import WorkloadCgroups
from exporter.model import Identity
from exporter.series.host_totals import HostTotals, TotalsByIdentity, TracedProcess
from exporter.totals import Series

_PERIODS = Series(catalog.cpu.QUOTA_PERIODS, ())
_THROTTLED_PERIODS = Series(catalog.cpu.QUOTA_THROTTLED_PERIODS, ())
_THROTTLED = Series(catalog.cpu.QUOTA_THROTTLED, ())
_NS_PER_US = 1_000


class _Throttling(NamedTuple):
    periods: int
    throttled_periods: int
    throttled_ns: int


class Cpu:
    """A HostCollector. node: the identity of what belongs to no container. read_times: None where they cannot be read."""

    def __init__(
        self, node: Identity, cgroups: WorkloadCgroups, read_times: Callable[[], CpuTimes | None], ttl_ns: int
    ) -> None:
        self._node = node
        self._cgroups = cgroups
        self._read_times = read_times
        self._totals = HostTotals(ttl_ns)
        self._highest: dict[Series, int] = {}
        self._throttling_of: dict[str, _Throttling | None] = {}  # as read in this collection

    @property
    def resets(self) -> int:
        return self._totals.resets

    def collect(self, now_ns: int, traced: Sequence[TracedProcess]) -> TotalsByIdentity:
        self._totals.begin(now_ns)
        self._throttling_of.clear()
        for identity, paths in self._cgroups.paths(traced).items():
            for path in {ancestor for own in paths for ancestor in with_ancestors(own)}:
                self._add_cgroup(identity, path)
        self._add_times()
        return self._totals.totals()

    def _add_cgroup(self, identity: Identity, path: str) -> None:
        if path not in self._throttling_of:
            self._throttling_of[path] = self._throttling(path) if self._has_quota(path) else None
        throttling = self._throttling_of[path]
        if throttling is None:
            return
        source = (path, identity)  # a cgroup above several containers is one source for each of them
        self._totals.add_counter(source, identity, _PERIODS, throttling.periods)
        self._totals.add_counter(source, identity, _THROTTLED_PERIODS, throttling.throttled_periods)
        self._totals.add_counter(source, identity, _THROTTLED, throttling.throttled_ns)

    def _has_quota(self, path: str) -> bool:
        if self._cgroups.version == 1:
            return self._cgroups.words(path, "cpu.cfs_quota_us")[:1] not in ([], ["-1"])
        return self._cgroups.words(path, "cpu.max")[:1] not in ([], ["max"])

    def _throttling(self, path: str) -> _Throttling | None:
        """None where the file is gone. Version 1 counts nanoseconds, version 2 microseconds."""
        stat = self._cgroups.numbers(path, "cpu.stat")
        throttled_ns = stat.get("throttled_time", stat.get("throttled_usec", 0) * _NS_PER_US)
        if "nr_periods" not in stat:
            return None
        return _Throttling(stat["nr_periods"], stat.get("nr_throttled", 0), throttled_ns)

    def _add_times(self) -> None:
        """The kernel's own sums go back by a tick now and then, which is no reset: the highest value counts."""
        times = self._read_times()
        if times is None:
            return
        by_metric = {
            catalog.cpu.STEAL: times.steal_ns,
            catalog.cpu.IRQ: times.irq_ns,
            catalog.cpu.SOFTIRQ: times.softirq_ns,
        }
        for metric, ns in by_metric.items():
            series = Series(metric, ())
            self._highest[series] = max(ns, self._highest.get(series, 0))
            self._totals.add_counter("node", self._node, series, self._highest[series])
