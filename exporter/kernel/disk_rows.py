"""Disks, who uses them and who waits for them, as rows: the tables that bpf/block.bpf.c and bpf/lib/disk.bpf.h fill.

In: MapReaders by map name. Out: rows by key, cumulative, in nanoseconds and bytes. A map that is not there is an empty one.
"""

from __future__ import annotations

from typing import NamedTuple

from exporter.kernel import abi
from exporter.kernel.abi import DiskDirection
from exporter.kernel.maps import MapReader
from exporter.totals import Counts
from exporter.units import SLOTS

MINOR_BITS = 20
UNKNOWN_DEVICE = 0
OUTSIDE = 0xFFFF_FFFF
"""Group of whoever does not belong to the exporter's pid namespace."""


class DiskKey(NamedTuple):
    """Key of `disks`. cgroup_id: whose request it was, 0 where that is not known."""

    cgroup_id: int
    device: int
    direction: DiskDirection


class DiskRow(NamedTuple):
    """Value of `disks`. queue: until requests were given to the device; device: from then on."""

    requests: int
    errors: int
    bytes: int
    queue_ns: int
    device_ns: int
    queue_slots: Counts
    device_slots: Counts


class DiskUser(NamedTuple):
    """Who makes requests. group: number of the traced process it belongs to, and then tgid is 0; or OUTSIDE, without a name."""

    group: int
    tgid: int
    comm: bytes


class DiskUserKey(NamedTuple):
    """Key of `disk_users`."""

    device: int
    user: DiskUser


class DiskUse(NamedTuple):
    """Value of `disk_users`. device_ns: what the device took for the requests, those beside each other added up."""

    requests: int
    device_ns: int


class DiskWaitKey(NamedTuple):
    """Key of `disk_waits`. device: UNKNOWN_DEVICE where no request ended the sleep."""

    process: int
    device: int


class DiskWait(NamedTuple):
    """Value of `disk_waits`."""

    waits: int
    wait_ns: int


def device_name_of(device: int) -> str:
    """As /sys/dev/block has it: `259:0`."""
    return f"{device >> MINOR_BITS}:{device & (1 << MINOR_BITS) - 1}"


def read_disks(table: MapReader | None) -> dict[DiskKey, DiskRow]:
    """What every disk did for every control group."""
    rows = {}
    for key, value in table.items() if table else ():
        cgroup_id, device, direction = abi.DISK_KEY.unpack(key)
        requests, errors, size_bytes, queue_ns, device_ns = abi.DISK_SUMS.unpack_from(value)
        slots = abi.DISK_SLOTS.unpack_from(value, abi.DISK_SUMS.size)
        queue, device_time = Counts.of(slots[:SLOTS]), Counts.of(slots[SLOTS:])
        rows[DiskKey(cgroup_id, device, DiskDirection(direction))] = DiskRow(
            requests, errors, size_bytes, queue_ns, device_ns, queue, device_time
        )
    return rows


def read_disk_users(table: MapReader | None) -> dict[DiskUserKey, DiskUse]:
    """Who used which device; who has not for long may be missing, and begins anew then."""
    rows = {}
    for key, value in table.items() if table else ():
        device, group, tgid, comm = abi.DISK_USER_KEY.unpack(key)
        rows[DiskUserKey(device, DiskUser(group, tgid, comm.split(b"\0", 1)[0]))] = DiskUse(*abi.DISK_USE.unpack(value))
    return rows


def read_disk_waits(table: MapReader | None) -> dict[DiskWaitKey, DiskWait]:
    """How long the threads of each job have slept for each device."""
    return {
        DiskWaitKey(*abi.DISK_WAIT_KEY.unpack(key)): DiskWait(*abi.DISK_WAIT.unpack(value))
        for key, value in (table.items() if table else ())
    }
