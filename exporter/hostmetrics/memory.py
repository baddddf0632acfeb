"""What do containers suffer for want of memory: direct reclaim, major faults, OOM kills, swap, a limit that is near?

In: the tables that bpf/memory.bpf.c and, where it is asked for, bpf/pages.bpf.c fill, the files of control groups, /proc. Out:
totals by place. Cost: 16 us a traced process for a scrape, twice that on a machine with swap, and 30 us a row of the first table.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from mmap import PAGESIZE
from typing import Protocol

from exporter import catalog
from exporter.kernel.maps import MapReader
from exporter.kernel.memory_rows import forget_group, forget_pages, read_memory, read_pages
from exporter.model import Identity
from exporter.series.host_totals import HostTotals, TotalsByIdentity, TracedProcess
from exporter.totals import Series

MAX_SWAP_READS = 256
"""Processes whose swap is looked up for one scrape."""

MAX_CONTAINERS = 512
"""Containers and ranks told apart at a time: swap and pages are told by rank."""

NO_LIMIT_BYTES = 1 << 60
"""Version 1 tells "no limit" as the largest number of pages that it knows."""

_RECLAIMS = Series(catalog.memory.RECLAIM_DURATION, ())
_RECLAIMED = Series(catalog.memory.RECLAIMED, ())
_OOM_KILLS = Series(catalog.memory.OOM_KILLS, ())
_MAJOR_FAULTS = Series(catalog.memory.MAJOR_FAULTS, ())
_SWAP = Series(catalog.memory.SWAP, ())
_USED = Series(catalog.memory.USED, ())
_LIMIT = Series(catalog.memory.LIMIT, ())
_ALLOCATED = Series(catalog.memory.PAGE_ALLOCATED, ())

_FILES = {1: ("memory.usage_in_bytes", "memory.limit_in_bytes"), 2: ("memory.current", "memory.max")}
"""Version of the hierarchy -> what a group has, and may have."""


class Places(Protocol):
    """What control groups are called."""

    def of_path(self, path: str) -> Identity:
        """The innermost container on the way; the machine where there is none."""
        ...

    def is_gone(self, number: int) -> bool:
        """Whether no group has this number any more."""
        ...


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

    def number(self, path: str, name: str) -> int | None:
        """Of a file with one number."""
        ...


class Swap(Protocol):
    """What is swapped out."""

    def has_any(self) -> bool:
        """Whether the machine can swap at all."""
        ...

    def bytes_of(self, tgid: int) -> int | None:
        """Of a process."""
        ...


class Memory:
    """ttl_ns: how long totals of a container outlive it.

    tables: `memory_groups`, missing where the programs did not load, and `page_allocations`, where they are counted.
    """

    def __init__(
        self, tables: Mapping[str, MapReader], places: Places, groups: Groups, swap: Swap, ttl_ns: int
    ) -> None:
        self._table = tables.get("memory_groups")
        self._pages = tables.get("page_allocations")
        self._places = places
        self._groups = groups
        self._swap = swap
        self._books = HostTotals(ttl_ns, MAX_CONTAINERS)
        # Number of a group that had a row the last time -> of its row, never the same again.
        self._rows: dict[int, int] = {}
        self._rows_seen = 0
        self._identities: dict[int, Identity] = {}  # of processes with pages, as they were called last
        self._absent: set[int] = set()  # of those the ones that were not traced the last time

    @property
    def resets(self) -> int:
        """Counts of its sources that went back so far."""
        return self._books.resets

    def collect(self, now_ns: int, traced: Sequence[TracedProcess]) -> TotalsByIdentity:
        """Everything it knows."""
        self._books.begin(now_ns)
        for place, paths in self._groups.paths(traced).items():
            self._add_container(place, paths)
        self._add_rows()
        self._add_swap(traced)
        self._add_pages(traced)
        return self._books.totals()

    def _add_container(self, place: Identity, paths: Collection[str]) -> None:
        """The counts of a group hold those of the groups in it."""
        if self._table is not None:
            # So that the first one is seen as one more, and not as a series that begins with it.
            self._books.count("traced", place, _OOM_KILLS, 0)
        used_file, limit_file = _FILES.get(self._groups.version, ("", ""))
        for path in _outermost(paths):
            stat = self._groups.numbers(path, "memory.stat")
            faults = stat.get("total_pgmajfault", stat.get("pgmajfault"))
            if faults is not None:
                self._books.count(path, place, _MAJOR_FAULTS, faults)
            if path == "/":  # the machine: it may have what there is
                continue
            used, limits = self._groups.number(path, used_file), self._limits(path, limit_file)
            if used is not None:
                self._books.level(place, _USED, used)
            if limits:
                self._books.level(place, _LIMIT, min(limits))

    def _limits(self, path: str, limit_file: str) -> list[int]:
        """Of a group and those above it: the smallest one holds."""
        limits = (self._groups.number(one, limit_file) for one in _with_those_above(path))
        return [limit for limit in limits if limit is not None and limit < NO_LIMIT_BYTES]

    def _add_rows(self) -> None:
        rows: dict[int, int] = {}
        for number, row in read_memory(self._table):
            is_new = number not in self._rows
            self._rows_seen += is_new
            source = self._rows_seen if is_new else self._rows[number]
            place = self._places.of_path(row.path)
            if row.reclaims.counts.total:
                self._books.count(source, place, _RECLAIMS, row.reclaims)
                self._books.count(source, place, _RECLAIMED, row.reclaimed_pages * PAGESIZE)
            self._books.count(source, place, _OOM_KILLS, row.oom_kills)
            # One that is new may not have been looked for yet.
            if not is_new and self._table is not None and self._places.is_gone(number):
                forget_group(self._table, number)
            else:
                rows[number] = source
        self._rows = rows

    def _add_swap(self, traced: Sequence[TracedProcess]) -> None:
        if not self._swap.has_any():
            return
        for one in traced[:MAX_SWAP_READS]:
            swapped = self._swap.bytes_of(one.tgid) if one.tgid else None
            if swapped is not None:
                self._books.level(one.identity, _SWAP, swapped)

    def _add_pages(self, traced: Sequence[TracedProcess]) -> None:
        """What a process had up to its end is told before its row is deleted: it is looked at twice when it is gone."""
        identities = {one.process: one.identity for one in traced}
        absent: set[int] = set()
        for process, pages in read_pages(self._pages):
            identity = identities.get(process) or self._identities.get(process)
            if identity is not None:
                self._books.count(("pages", process), identity, _ALLOCATED, pages * PAGESIZE)
            if process not in identities and process in self._absent and self._pages is not None:
                forget_pages(self._pages, process)
            elif process not in identities:
                absent.add(process)
        kept = {process: self._identities[process] for process in absent & self._identities.keys()}
        self._identities, self._absent = identities | kept, absent


def _outermost(paths: Collection[str]) -> list[str]:
    """Those that are in none of the others."""
    return [path for path in paths if not any(above in paths for above in _with_those_above(path) if above != path)]


def _with_those_above(path: str) -> list[str]:
    """`/a/b` -> `/a/b`, `/a`: without the root, which has no limits."""
    parts = path.strip("/").split("/")
    return ["/" + "/".join(parts[:count]) for count in range(len(parts), 0, -1)]
