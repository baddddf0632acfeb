"""Disks, the processes that use them and the jobs that wait for them. Partners in C: bpf/block.bpf.c, bpf/lib/disk.bpf.h.

In: MapReaders, None for a map whose programs are not loaded. Out: rows by key, cumulative, in nanoseconds and bytes.
"""

from __future__ import annotations

from typing import NamedTuple

from exporter.kernel import abi
from exporter.kernel.abi import DiskDirection, ShareTable
from exporter.kernel.maps import MapReader
from exporter.kernel.share_rows import Shares
from exporter.totals import Counts
from exporter.units import SLOTS

MINOR_BITS = 20
UNKNOWN_DEVICE = 0
OUTSIDE = 0xFFFF_FFFF
"""Group of processes outside the exporter's pid namespace."""

_SUMS = abi.DISK_ROW.part("requests", "device_ns")
_SUMS_AT = abi.DISK_ROW.offset("requests")
_SLOTS = abi.DISK_ROW.part("queue_slots", "device_slots")
_SLOTS_AT = abi.DISK_ROW.offset("queue_slots")


class DiskKey(NamedTuple):
    """Key of `disks`. cgroup_id: that the request was made for, 0: unknown."""

    cgroup_id: int
    device: int
    direction: DiskDirection


class DiskRow(NamedTuple):
    """Value of `disks`. queue: until requests were dispatched to the disk; device: from then on."""

    requests: int
    errors: int
    bytes: int
    queue_ns: int
    device_ns: int
    queue_slots: Counts
    device_slots: Counts


class DiskUser(NamedTuple):
    """Who causes requests. group: number of the traced process it belongs to (tgid is then 0), or OUTSIDE without a name, or 0.

    cgroup_id: for which a kernel thread makes them, where the process is unknown; else 0.
    """

    group: int
    tgid: int
    cgroup_id: int
    comm: bytes


class DiskUserKey(NamedTuple):
    """Key of `disk_users`."""

    device: int
    user: DiskUser


class DiskUse(NamedTuple):
    """Value of `disk_users`. device_ns: time of the requests on the disk, concurrent ones added up."""

    requests: int
    device_ns: int


class DiskWaitKey(NamedTuple):
    """Key of `disk_waits`. device: UNKNOWN_DEVICE if no request ended the sleep."""

    process: int
    device: int


class DiskWait(NamedTuple):
    """Value of `disk_waits`."""

    waits: int
    wait_ns: int


def device_name_of(device: int) -> str:
    """The name in /sys/dev/block: `259:0`."""
    return f"{device >> MINOR_BITS}:{device & (1 << MINOR_BITS) - 1}"


def read_disks(table: MapReader | None) -> dict[DiskKey, DiskRow]:
    """Requests of every disk by control group and direction."""
    rows = {}
    for key, value in table.items() if table else ():
        cgroup_id, device, direction = abi.DISK_KEY.unpack(key)
        requests, errors, size_bytes, queue_ns, device_ns = _SUMS.unpack_from(value, _SUMS_AT)
        slots = _SLOTS.unpack_from(value, _SLOTS_AT)
        queue, device_time = Counts.of(slots[:SLOTS]), Counts.of(slots[SLOTS:])
        rows[DiskKey(cgroup_id, device, DiskDirection(direction))] = DiskRow(
            requests, errors, size_bytes, queue_ns, device_ns, queue, device_time
        )
    return rows


def forget_disk(shares: Shares, key: DiskKey) -> None:
    shares.delete_of_group(ShareTable.DISKS, abi.DISK_KEY.pack(*key))


def read_disk_users(table: MapReader | None) -> dict[DiskUserKey, DiskUse]:
    """Users of each disk. The kernel evicts rows not used for long; such a row begins again at zero."""
    rows = {}
    for key, value in table.items() if table else ():
        device, _, group, tgid, cgroup_id, comm = abi.DISK_USER_KEY.unpack(key)
        user = DiskUser(group, tgid, cgroup_id, comm.split(b"\0", 1)[0])
        rows[DiskUserKey(device, user)] = DiskUse(*abi.DISK_USE.unpack(value))
    return rows


def read_disk_waits(table: MapReader | None) -> dict[DiskWaitKey, DiskWait]:
    """How long the threads of each job have slept for each disk."""
    return {
        DiskWaitKey(*abi.DISK_WAIT_KEY.unpack(key)): DiskWait(*abi.DISK_WAIT.unpack(value))
        for key, value in (table.items() if table else ())
    }
