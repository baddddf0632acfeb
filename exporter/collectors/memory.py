"""What do containers suffer for want of memory: direct reclaim, major faults, OOM kills, swap, a limit that is near?

In: the table that bpf/memory.bpf.c fills, the files of control groups, /proc. Out: totals by place. Cost: 60 us a traced process
for a scrape, and 15 us a row of the table.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from mmap import PAGESIZE
from typing import Protocol

from exporter import catalog
from exporter.kernel.maps import MapReader
from exporter.kernel.memory_rows import forget_group, read_memory
from exporter.model import Identity
from exporter.place_books import PlaceBooks, PlaceTotals, TracedProcess
from exporter.totals import Series

MAX_SWAP_READS = 256
"""Processes whose swap is looked up for one scrape."""

NO_LIMIT_BYTES = 1 << 60
"""Version 1 tells "no limit" as the largest number of pages that it knows."""

_RECLAIMS = Series(catalog.MEMORY_RECLAIM_DURATION, ())
_RECLAIMED = Series(catalog.MEMORY_RECLAIMED, ())
_OOM_KILLS = Series(catalog.MEMORY_OOM_KILLS, ())
_MAJOR_FAULTS = Series(catalog.MEMORY_MAJOR_FAULTS, ())
_SWAP = Series(catalog.MEMORY_SWAP, ())
_USED = Series(catalog.MEMORY_USED, ())
_LIMIT = Series(catalog.MEMORY_LIMIT, ())

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
    """table: None where the kernel programs did not load. ttl_ns: how long totals of a container outlive it."""

    def __init__(self, table: MapReader | None, places: Places, groups: Groups, swap: Swap, ttl_ns: int) -> None:
        self._table = table
        self._places = places
        self._groups = groups
        self._swap = swap
        self._books = PlaceBooks(ttl_ns)
        self._numbers: set[int] = set()  # of groups that had a row the last time

    @property
    def resets(self) -> int:
        """Counts of its sources that went back so far."""
        return self._books.resets

    def collect(self, now_ns: int, traced: Sequence[TracedProcess]) -> PlaceTotals:
        """Everything it knows."""
        self._books.begin(now_ns)
        for place, paths in self._groups.paths(traced).items():
            self._add_container(place, paths)
        self._add_rows()
        self._add_swap(traced)
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
        numbers: set[int] = set()
        for number, row in read_memory(self._table):
            place = self._places.of_path(row.path)
            if row.reclaims.counts.total:
                self._books.count(number, place, _RECLAIMS, row.reclaims)
                self._books.count(number, place, _RECLAIMED, row.reclaimed_pages * PAGESIZE)
            self._books.count(number, place, _OOM_KILLS, row.oom_kills)
            # One that is new may not have been looked for yet.
            if number in self._numbers and self._table is not None and self._places.is_gone(number):
                forget_group(self._table, number)
            else:
                numbers.add(number)
        self._numbers = numbers

    def _add_swap(self, traced: Sequence[TracedProcess]) -> None:
        if not self._swap.has_any():
            return
        for one in traced[:MAX_SWAP_READS]:
            swapped = self._swap.bytes_of(one.tgid) if one.tgid else None
            if swapped is not None:
                self._books.level(one.identity, _SWAP, swapped)


def _outermost(paths: Collection[str]) -> list[str]:
    """Those that are in none of the others."""
    return [path for path in paths if not any(above in paths for above in _with_those_above(path) if above != path)]


def _with_those_above(path: str) -> list[str]:
    """`/a/b` -> `/a/b`, `/a`: without the root, which has no limits."""
    parts = path.strip("/").split("/")
    return ["/" + "/".join(parts[:count]) for count in range(len(parts), 0, -1)]
