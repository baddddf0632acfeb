"""How slow is each disk, for whom, and how long did the threads of a job wait for it?

In: the tables of bpf/block.bpf.c, and disk_waits, which bpf/sched.bpf.c fills. Out: totals of containers by device, and of traced
processes. Cost: bpf/README.md; a collection reads one row for each container, device and direction.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from exporter import catalog
from exporter.kernel import abi
from exporter.kernel.disk_rows import (
    UNKNOWN_DEVICE,
    DiskKey,
    DiskRow,
    device_name_of,
    read_disk_waits,
    read_disks,
)
from exporter.kernel.maps import MapReader
from exporter.model import Identity
from exporter.series.host_totals import HostTotals, TotalsByIdentity, TracedProcess
from exporter.totals import HistogramTotal, Series
from exporter.units import NANOSECONDS

UNKNOWN = "unknown"
"""Device of sleeps that no request ended, such as those for a file system's journal."""

PRUNE_NS = 30 * NANOSECONDS
_OF_DISKS = (
    catalog.block.BYTES,
    catalog.block.ERRORS,
    catalog.block.QUEUE_DURATION,
    catalog.block.DEVICE_DURATION,
)


class PlacesOfGroups(Protocol):
    """What control groups are called."""

    def of_number(self, number: int) -> Identity:
        """Of the container that a group belongs to."""
        ...

    def is_gone(self, number: int) -> bool:
        """Whether the group has been removed."""
        ...


class Block:
    """A HostCollector. name_of: a device number such as `259:0` to its name."""

    def __init__(
        self, maps: Mapping[str, MapReader], places: PlacesOfGroups, name_of: Callable[[str], str], ttl_ns: int
    ) -> None:
        self._maps = maps
        self._places = places
        self._name_of = name_of
        self._books = HostTotals(ttl_ns)
        self._identities: dict[int, Identity] = {}
        self._pruned_ns = 0
        self._at_prune: Mapping[DiskKey, DiskRow] = {}  # the rows of the last time

    @property
    def resets(self) -> int:
        """See HostCollector."""
        return self._books.resets

    def collect(self, now_ns: int, traced: Sequence[TracedProcess]) -> TotalsByIdentity:
        """See HostCollector."""
        self._books.begin(now_ns)
        rows = read_disks(self._maps.get("disks"))
        for key, row in rows.items():
            self._count(key, row)
        if now_ns - self._pruned_ns >= PRUNE_NS:
            self._pruned_ns = now_ns
            self._forget_groups(rows)
        self._count_waits(traced)
        return self._books.totals()

    def _count(self, key: DiskKey, row: DiskRow) -> None:
        place = self._places.of_number(key.cgroup_id)
        labels = self._labels(key)
        count = self._books.count
        count(key, place, Series(catalog.block.BYTES, labels), row.bytes)
        count(key, place, Series(catalog.block.ERRORS, labels), row.errors)
        if row.queue_slots.total:
            queue = HistogramTotal(row.queue_slots, row.queue_ns)
            device = HistogramTotal(row.device_slots, row.device_ns)
            count(key, place, Series(catalog.block.QUEUE_DURATION, labels), queue)
            count(key, place, Series(catalog.block.DEVICE_DURATION, labels), device)

    def _labels(self, key: DiskKey) -> tuple[str, str]:
        return self._device(key.device), key.direction.name.lower()

    def _count_waits(self, traced: Sequence[TracedProcess]) -> None:
        """Those of processes that have ended meanwhile as well, whose rows are then deleted."""
        alive = {one.process: one.identity for one in traced}
        self._identities |= alive
        for key, row in read_disk_waits(self._maps.get("disk_waits")).items():
            identity = self._identities.get(key.process)
            if identity is None:
                continue  # held back
            waited, waits = (
                Series(one, (self._device(key.device),)) for one in (catalog.block.WAIT, catalog.block.WAITS)
            )
            self._books.count(key, identity, waited, row.wait_ns)
            self._books.count(key, identity, waits, row.waits)
            if key.process not in alive:
                self._maps["disk_waits"].delete(abi.DISK_WAIT_KEY.pack(*key))
                self._books.forget(key, (waited, waits))
        self._identities = alive

    def _device(self, device: int) -> str:
        return UNKNOWN if device == UNKNOWN_DEVICE else self._name_of(device_name_of(device))

    def _forget_groups(self, rows: Mapping[DiskKey, DiskRow]) -> None:
        """Delete rows of control groups that are gone, once they stand still: what a group has written may be on its way yet."""
        gone = {number for number in {key.cgroup_id for key in rows} if number and self._places.is_gone(number)}
        for key, row in rows.items():
            if key.cgroup_id in gone and row == self._at_prune.get(key):
                self._maps["disks"].delete(abi.DISK_KEY.pack(*key))
                labels = self._labels(key)
                self._books.forget(key, [Series(metric, labels) for metric in _OF_DISKS])
        self._at_prune = rows
