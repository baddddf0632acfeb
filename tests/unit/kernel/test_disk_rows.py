"""kernel.disk_rows: disks, their users and waits for them, byte by byte."""

from __future__ import annotations

import struct

from exporter.kernel.abi import DiskDirection
from exporter.kernel.disk_rows import (
    DiskKey,
    DiskUse,
    DiskUser,
    DiskUserKey,
    DiskWait,
    DiskWaitKey,
    device_name_of,
    read_disk_users,
    read_disk_waits,
    read_disks,
)
from exporter.units import SLOTS
from tests.support.tables import FakeMap

NVME = 259 << 20 | 3


def table(key: bytes, value: bytes) -> FakeMap:
    found = FakeMap()
    found.rows[key] = value
    return found


class TestDisks:
    def test_sums_and_both_histograms(self) -> None:
        """Time in the queue comes first, then time on the disk."""
        queue, device = [0] * SLOTS, [0] * SLOTS
        queue[3], device[5] = 7, 11
        value = struct.pack(f"<II5Q{2 * SLOTS}Q", 300, 0, 18, 1, 4096, 500, 900, *queue, *device)
        ((key, row),) = read_disks(table(struct.pack("<QII", 42, NVME, DiskDirection.WRITE), value)).items()

        assert key == DiskKey(42, NVME, DiskDirection.WRITE)
        assert row[:5] == (18, 1, 4096, 500, 900)
        assert (list(row.queue_slots), list(row.device_slots)) == (queue, device)

    def test_map_that_is_not_loaded_has_no_rows(self) -> None:
        assert (read_disks(None), read_disk_users(None), read_disk_waits(None)) == ({}, {}, {})

    def test_device_has_the_name_of_the_kernel(self) -> None:
        """12 bits of major number, 20 of minor."""
        assert device_name_of(NVME) == "259:3"


class TestUsers:
    def test_comm_ends_at_its_nul(self) -> None:
        key = struct.pack("<IIIIQ16s", NVME, 0, 7, 0, 9, b"fio\0old")
        found = read_disk_users(table(key, struct.pack("<QQ", 3, 900)))

        assert found == {DiskUserKey(NVME, DiskUser(7, 0, 9, b"fio")): DiskUse(3, 900)}


class TestWaits:
    def test_wait_of_a_process_for_a_disk(self) -> None:
        found = read_disk_waits(table(struct.pack("<II", 7, NVME), struct.pack("<QQ", 2, 800)))

        assert found == {DiskWaitKey(7, NVME): DiskWait(2, 800)}
