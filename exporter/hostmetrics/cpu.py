"""Who takes CPUs from the jobs beside other programs: their containers' quota, the hypervisor, interrupts?

In: the files of control groups, /proc/stat. Out: totals by place, in nanoseconds. What it took from a thread while that ran or
waited is told by the accounting. Cost: 16 us a traced process for a scrape, and as much a control group with a quota.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple, Protocol

from exporter import catalog
from exporter.model import Identity
from exporter.series.host_totals import HostTotals, TotalsByIdentity, TracedProcess
from exporter.totals import Series

_PERIODS = Series(catalog.cpu.QUOTA_PERIODS, ())
_THROTTLED_PERIODS = Series(catalog.cpu.QUOTA_THROTTLED_PERIODS, ())
_THROTTLED = Series(catalog.cpu.QUOTA_THROTTLED, ())
_NS_PER_US = 1_000


class Groups(Protocol):
    """The control groups of traced processes."""

    @property
    def version(self) -> int:
        """Of the hierarchy; 0 where there is none."""
        ...

    def paths(self, traced: Sequence[TracedProcess]) -> Mapping[Identity, Collection[str]]:
        """By place."""
        ...

    def numbers(self, path: str, name: str) -> Mapping[str, int]:
        """Of a file with a name and a number in each line."""
        ...

    def words(self, path: str, name: str) -> list[str]:
        """Of a file with one line."""
        ...


class Times(Protocol):
    """Of all CPUs, since the machine was started."""

    @property
    def irq_ns(self) -> int:
        """Of hard interrupts."""
        ...

    @property
    def softirq_ns(self) -> int:
        """Of soft interrupts."""
        ...

    @property
    def steal_ns(self) -> int:
        """Of the hypervisor."""
        ...


class _Throttling(NamedTuple):
    periods: int
    throttled_periods: int
    throttled_ns: int


class Cpu:
    """machine: the place of what belongs to no container. read_times: None where they cannot be read."""

    def __init__(self, machine: Identity, groups: Groups, read_times: Callable[[], Times | None], ttl_ns: int) -> None:
        self._machine = machine
        self._groups = groups
        self._read_times = read_times
        self._books = HostTotals(ttl_ns)
        self._highest: dict[Series, int] = {}

    @property
    def resets(self) -> int:
        """Counts of its sources that went back so far."""
        return self._books.resets

    def collect(self, now_ns: int, traced: Sequence[TracedProcess]) -> TotalsByIdentity:
        """Everything it knows."""
        self._books.begin(now_ns)
        for place, paths in self._groups.paths(traced).items():
            for path in {above for own in paths for above in _with_those_above(own)}:
                self._add_group(place, path)
        self._add_times()
        return self._books.totals()

    def _add_group(self, place: Identity, path: str) -> None:
        throttling = self._throttling(path) if self._has_quota(path) else None
        if throttling is None:
            return
        source = (path, place)  # a group above several containers is one source for each of them
        self._books.count(source, place, _PERIODS, throttling.periods)
        self._books.count(source, place, _THROTTLED_PERIODS, throttling.throttled_periods)
        self._books.count(source, place, _THROTTLED, throttling.throttled_ns)

    def _has_quota(self, path: str) -> bool:
        if self._groups.version == 1:
            return self._groups.words(path, "cpu.cfs_quota_us")[:1] not in ([], ["-1"])
        return self._groups.words(path, "cpu.max")[:1] not in ([], ["max"])

    def _throttling(self, path: str) -> _Throttling | None:
        """Version 1 tells nanoseconds, version 2 microseconds."""
        stat = self._groups.numbers(path, "cpu.stat")
        throttled_ns = stat.get("throttled_time", stat.get("throttled_usec", 0) * _NS_PER_US)
        if "nr_periods" not in stat:
            return None
        return _Throttling(stat["nr_periods"], stat.get("nr_throttled", 0), throttled_ns)

    def _add_times(self) -> None:
        """The kernel's own sums go back by a tick now and then; that is no new beginning."""
        times = self._read_times()
        if times is None:
            return
        of_metric = {
            catalog.cpu.STEAL: times.steal_ns,
            catalog.cpu.IRQ: times.irq_ns,
            catalog.cpu.SOFTIRQ: times.softirq_ns,
        }
        for metric, ns in of_metric.items():
            series = Series(metric, ())
            self._highest[series] = max(ns, self._highest.get(series, 0))
            self._books.count("machine", self._machine, series, self._highest[series])


def _with_those_above(path: str) -> list[str]:
    """`/a/b` -> `/a/b`, `/a`: without the root, which has no quota."""
    parts = path.strip("/").split("/")
    return ["/" + "/".join(parts[:count]) for count in range(len(parts), 0, -1)]
