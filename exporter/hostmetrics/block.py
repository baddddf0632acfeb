"""How slow each disk is for each container, and how long the threads of a job waited for it.

In: the tables of bpf/block.bpf.c, and disk_waits, which bpf/sched.bpf.c fills. Out: totals of containers by disk, and of traced
processes. Cost: bpf/README.md; a collection reads one row for each container, disk and direction.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from exporter import catalog
from exporter.hostmetrics.cgroup_labels import CgroupLabels
from exporter.kernel import abi
from exporter.kernel.disk_rows import (
    UNKNOWN_DEVICE,
    DiskKey,
    DiskRow,
    device_name_of,
    forget_disk,
    read_disk_waits,
    read_disks,
)
from exporter.kernel.maps import MapReader
from exporter.kernel.share_rows import Shares
from exporter.model import Identity
from exporter.series.host_totals import HostTotals, TotalsByIdentity, TracedProcess
from exporter.totals import HistogramTotal, Series
from exporter.units import NANOSECONDS

UNKNOWN = "unknown"
"""Disk of sleeps that no request ended, such as those for a file system's journal."""

PRUNE_NS = 30 * NANOSECONDS
_METRICS_OF_DISKS = (
    catalog.block.BYTES,
    catalog.block.ERRORS,
    catalog.block.QUEUE_DURATION,
    catalog.block.DEVICE_DURATION,
)


class Block:
    """A HostCollector. maps: of the kernel, by name; without them it has no totals. shares: of these maps.

    disk_name: `259:0` -> `nvme0n1`.
    """

    def __init__(
        self,
        maps: Mapping[str, MapReader],
        labels: CgroupLabels,
        disk_name: Callable[[str], str],
        ttl_ns: int,
        *,
        shares: Shares,
    ) -> None:
        self._maps = maps
        self._shares = shares
        self._labels = labels
        self._disk_name = disk_name
        self._totals = HostTotals(ttl_ns)
        self._identities: dict[int, Identity] = {}  # process number -> identity, at the last collection
        self._pruned_ns = 0
        self._at_prune: Mapping[DiskKey, DiskRow] = {}

    @property
    def resets(self) -> int:
        return self._totals.resets

    def collect(self, now_ns: int, traced: Sequence[TracedProcess]) -> TotalsByIdentity:
        self._totals.begin(now_ns)
        rows = read_disks(self._maps.get("disks"))
        for key, row in rows.items():
            self._add_row(key, row)
        if now_ns - self._pruned_ns >= PRUNE_NS:
            self._pruned_ns = now_ns
            self._prune(rows)
        self._add_waits(traced)
        return self._totals.totals()

    def _add_row(self, key: DiskKey, row: DiskRow) -> None:
        identity = self._labels.identity_of(key.cgroup_id)
        labels = self._labels_of(key)
        add = self._totals.add_counter
        add(key, identity, Series(catalog.block.BYTES, labels), row.bytes)
        add(key, identity, Series(catalog.block.ERRORS, labels), row.errors)
        if row.queue_slots.total:
            queue = HistogramTotal(row.queue_slots, row.queue_ns)
            device = HistogramTotal(row.device_slots, row.device_ns)
            add(key, identity, Series(catalog.block.QUEUE_DURATION, labels), queue)
            add(key, identity, Series(catalog.block.DEVICE_DURATION, labels), device)

    def _labels_of(self, key: DiskKey) -> tuple[str, str]:
        return self._disk(key.device), key.direction.name.lower()

    def _add_waits(self, traced: Sequence[TracedProcess]) -> None:
        """Waits of traced processes. The rows of one that has ended since the last collection count once more, then go."""
        alive = {one.process: one.identity for one in traced}
        self._identities |= alive
        for key, row in read_disk_waits(self._maps.get("disk_waits")).items():
            identity = self._identities.get(key.process)
            if identity is None:
                continue  # held back until its identity is known
            waited, waits = (
                Series(metric, (self._disk(key.device),)) for metric in (catalog.block.WAIT, catalog.block.WAITS)
            )
            self._totals.add_counter(key, identity, waited, row.wait_ns)
            self._totals.add_counter(key, identity, waits, row.waits)
            if key.process not in alive:
                self._maps["disk_waits"].delete(abi.DISK_WAIT_KEY.pack(*key))
                self._totals.end_source(key, (waited, waits))
        self._identities = alive

    def _disk(self, device: int) -> str:
        return UNKNOWN if device == UNKNOWN_DEVICE else self._disk_name(device_name_of(device))

    def _prune(self, rows: Mapping[DiskKey, DiskRow]) -> None:
        """Delete rows of removed cgroups once they stop growing: its writes may still be on their way to the disk."""
        gone = {number for number in {key.cgroup_id for key in rows} if number and self._labels.is_gone(number)}
        for key, row in rows.items():
            if key.cgroup_id in gone and row == self._at_prune.get(key):
                forget_disk(self._shares, key)
                labels = self._labels_of(key)
                self._totals.end_source(key, [Series(metric, labels) for metric in _METRICS_OF_DISKS])
        self._at_prune = rows
