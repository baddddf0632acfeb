"""Memory pressure of containers: direct reclaim, major faults, OOM kills, swap, and how near the limit is.

In: the tables of bpf/memory.bpf.c and, where page allocations are counted, of bpf/pages.bpf.c; files of cgroups; /proc. Out:
totals by identity. Cost of a scrape: 16 us a traced process, twice that with swap, and 30 us a row of the first table.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from mmap import PAGESIZE

from exporter import catalog
from exporter.host.cgroups import with_ancestors
from exporter.hostmetrics.cgroup_labels import CgroupLabels
from exporter.hostmetrics.swap import SwapReader
from exporter.hostmetrics.workload_cgroups import WorkloadCgroups
from exporter.kernel.maps import MapReader
from exporter.kernel.memory_rows import forget_group, forget_pages, read_memory, read_pages
from exporter.kernel.share_rows import Shares
from exporter.model import Identity
from exporter.series.host_totals import HostTotals, TotalsByIdentity, TracedProcess
from exporter.totals import Series

MAX_SWAP_READS = 256
"""Processes whose swap is read for one scrape."""

MAX_IDENTITIES = 512
"""Containers and ranks at a time: swap and page allocations have a rank."""

NO_LIMIT_BYTES = 1 << 60
"""Version 1 shows "no limit" as the largest number of pages that it knows."""

_RECLAIMS = Series(catalog.memory.RECLAIM_DURATION, ())
_RECLAIMED = Series(catalog.memory.RECLAIMED, ())
_OOM_KILLS = Series(catalog.memory.OOM_KILLS, ())
_MAJOR_FAULTS = Series(catalog.memory.MAJOR_FAULTS, ())
_SWAP = Series(catalog.memory.SWAP, ())
_USED = Series(catalog.memory.USED, ())
_LIMIT = Series(catalog.memory.LIMIT, ())
_ALLOCATED = Series(catalog.memory.PAGE_ALLOCATED, ())

_FILES = {1: ("memory.usage_in_bytes", "memory.limit_in_bytes"), 2: ("memory.current", "memory.max")}
"""Version of the hierarchy -> files with a cgroup's use and limit."""


class Memory:
    """A HostCollector. maps: of the kernel, by name; a missing one is a program that is not loaded. shares: of these maps."""

    def __init__(
        self,
        maps: Mapping[str, MapReader],
        labels: CgroupLabels,
        cgroups: WorkloadCgroups,
        swap: SwapReader,
        ttl_ns: int,
        *,
        shares: Shares,
    ) -> None:
        self._table = maps.get("memory_groups")
        self._pages = maps.get("page_allocations")
        self._shares = shares
        self._labels = labels
        self._cgroups = cgroups
        self._swap = swap
        self._totals = HostTotals(ttl_ns, MAX_IDENTITIES)
        self._limit_of: dict[str, int | None] = {}  # as read in this collection
        # Cgroup id of each row at the last collection -> number of the row, never used again.
        self._rows: dict[int, int] = {}
        self._rows_seen = 0
        self._identities: dict[int, Identity] = {}  # of processes with page allocations, at the last collection
        self._absent: set[int] = set()  # those of them that were not traced at the last collection

    @property
    def resets(self) -> int:
        return self._totals.resets

    def collect(self, now_ns: int, traced: Sequence[TracedProcess]) -> TotalsByIdentity:
        self._totals.begin(now_ns)
        self._limit_of.clear()
        for identity, paths in self._cgroups.paths(traced).items():
            self._add_container(identity, paths)
        self._add_rows()
        self._add_swap(traced)
        self._add_pages(traced)
        return self._totals.totals()

    def _add_container(self, identity: Identity, paths: Collection[str]) -> None:
        """The counts of a cgroup include those of the cgroups below it."""
        if self._table is not None:
            # The series starts at 0, so that increase() sees the first OOM kill.
            self._totals.add_counter("traced", identity, _OOM_KILLS, 0)
        used_file, limit_file = _FILES.get(self._cgroups.version, ("", ""))
        for path in _outermost(paths):
            stat = self._cgroups.numbers(path, "memory.stat")
            faults = stat.get("total_pgmajfault", stat.get("pgmajfault"))
            if faults is not None:
                self._totals.add_counter(path, identity, _MAJOR_FAULTS, faults)
            if path == "/":  # the node has no limit
                continue
            used, limits = self._cgroups.number(path, used_file), self._limits(path, limit_file)
            if used is not None:
                self._totals.add_gauge(identity, _USED, used)
            if limits:
                self._totals.add_gauge(identity, _LIMIT, min(limits))

    def _limits(self, path: str, limit_file: str) -> list[int]:
        """Limits of a cgroup and its ancestors; the smallest one applies."""
        groups = with_ancestors(path)
        for one in groups:
            if one not in self._limit_of:
                self._limit_of[one] = self._cgroups.number(one, limit_file)
        limits = (self._limit_of[one] for one in groups)
        return [limit for limit in limits if limit is not None and limit < NO_LIMIT_BYTES]

    def _add_rows(self) -> None:
        rows: dict[int, int] = {}
        for cgroup_id, row in read_memory(self._table):
            is_new = cgroup_id not in self._rows
            self._rows_seen += is_new
            source = self._rows_seen if is_new else self._rows[cgroup_id]
            identity = self._labels.identity_of_path(row.path)
            if row.reclaims.counts.total:
                self._totals.add_counter(source, identity, _RECLAIMS, row.reclaims)
                self._totals.add_counter(source, identity, _RECLAIMED, row.reclaimed_pages * PAGESIZE)
            self._totals.add_counter(source, identity, _OOM_KILLS, row.oom_kills)
            # A new cgroup may be younger than the last walk through the hierarchy, and only look as if it were gone.
            if not is_new and self._labels.is_gone(cgroup_id):
                forget_group(self._shares, cgroup_id)
            else:
                rows[cgroup_id] = source
        self._rows = rows

    def _add_swap(self, traced: Sequence[TracedProcess]) -> None:
        if not self._swap.has_any():
            return
        for one in traced[:MAX_SWAP_READS]:
            swapped = self._swap.bytes_of(one.tgid) if one.tgid else None
            if swapped is not None:
                self._totals.add_gauge(one.identity, _SWAP, swapped)

    def _add_pages(self, traced: Sequence[TracedProcess]) -> None:
        """The row of a process that has ended is read at two more collections before it is deleted, to have its last pages."""
        identities = {one.process: one.identity for one in traced}
        absent: set[int] = set()
        for process, pages in read_pages(self._pages):
            identity = identities.get(process) or self._identities.get(process)
            if identity is not None:
                self._totals.add_counter(("pages", process), identity, _ALLOCATED, pages * PAGESIZE)
            if process not in identities and process in self._absent and self._pages is not None:
                forget_pages(self._pages, process)
            elif process not in identities:
                absent.add(process)
        kept = {process: self._identities[process] for process in absent & self._identities.keys()}
        self._identities, self._absent = identities | kept, absent


def _outermost(paths: Collection[str]) -> list[str]:
    """The paths that are below none of the others."""
    kept: list[str] = []
    # So that a cgroup comes right before those below it.
    for path in sorted(paths, key=lambda one: one.replace("/", "\0")):
        if not kept or not path.startswith(kept[-1].rstrip("/") + "/"):
            kept.append(path)
    return kept
