"""What a disk did, for whom, and who waited for it: requests of known number and size to loop devices of our own."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from exporter.errors import KernelRefused
from exporter.kernel import abi
from exporter.kernel.abi import DiskDirection, ThreadState
from exporter.kernel.disk_rows import DiskRow, read_disk_users, read_disk_waits, read_disks
from tests.faults.injectors import NotPossible, cgroups, disk
from tests.faults.injectors.cpu import in_groups
from tests.support import accounts
from tests.support.traced import Tracer

CALLS = 23
PAGE_BYTES = 4096
MIB = 1 << 20


@pytest.fixture
def device() -> Iterator[Path]:
    """A disk of our own."""
    try:
        with disk.loop_device(8 * MIB) as found:
            yield found
    except NotPossible as reason:
        pytest.skip(str(reason))


@pytest.fixture
def disk_group() -> Iterator[cgroups.Group]:
    """A group of the controller of disks."""
    try:
        with cgroups.group("blkio", "block") as found:
            yield found
    except NotPossible as reason:
        pytest.skip(str(reason))


def number_of(device: Path) -> int:
    """As the kernel's programs tell it."""
    found = device.stat().st_rdev
    return os.major(found) << 20 | os.minor(found)


def copy(*words: str | Path, group: cgroups.Group | None = None) -> None:
    """`dd`, a page at a time, past the page cache, in a control group."""
    command = ["dd", *map(str, words), f"bs={PAGE_BYTES}", f"count={CALLS}", "status=none"]
    subprocess.run([*(in_groups([group.path]) if group else ()), *command], check=True)


def rows_of(tracer: Tracer, device: Path, direction: DiskDirection) -> dict[int, DiskRow]:
    """Control group -> what the disk did for it."""
    rows = read_disks(tracer.kernel.maps["disks"])
    wanted = (number_of(device), direction)
    return {key.cgroup_id: row for key, row in rows.items() if (key.device, key.direction) == wanted}


class TestRequests:
    """Counted to the unit."""

    def test_23_reads_of_a_page_are_23_requests_of_their_control_group(
        self, account_tracer: Tracer, device: Path, disk_group: cgroups.Group
    ) -> None:
        """And each has a time in the queue and one on the device."""
        copy(f"if={device}", "of=/dev/null", "iflag=direct", group=disk_group)
        rows = rows_of(account_tracer, device, DiskDirection.READ)
        row = rows[disk_group.path.stat().st_ino]

        assert (row.requests, row.bytes, row.errors) == (23, 23 * 4096, 0)
        assert row.queue_slots.total == row.device_slots.total == 23
        assert row.device_ns > 0

    def test_writes_are_told_from_reads(self, account_tracer: Tracer, device: Path) -> None:
        """Nobody reads."""
        copy("if=/dev/zero", f"of={device}", "oflag=direct")
        rows = rows_of(account_tracer, device, DiskDirection.WRITE)

        assert sum(row.requests for row in rows.values()) == 23
        assert sum(row.bytes for row in rows.values()) == 23 * 4096
        assert rows_of(account_tracer, device, DiskDirection.READ) == {}

    def test_who_asks_is_the_user_of_the_disk(self, account_tracer: Tracer, device: Path) -> None:
        """Whoever carries it out."""
        copy(f"if={device}", "of=/dev/null", "iflag=direct")
        users = read_disk_users(account_tracer.kernel.maps["disk_users"])
        of_device = {key.user.comm: use for key, use in users.items() if key.device == number_of(device)}

        assert {comm: use.requests for comm, use in of_device.items()} == {b"dd": 23}
        assert of_device[b"dd"].device_ns > 0

    def test_nothing_is_lost(self, account_tracer: Tracer, device: Path) -> None:
        """Without losses, and without requests that the programs did not see because they were busy."""
        copy(f"if={device}", "of=/dev/null", "iflag=direct")

        assert account_tracer.losses() == {}

    def test_a_full_table_is_counted(self, account_tracer: Tracer, device: Path) -> None:
        """Every row is taken by somebody else's device."""
        table = account_tracer.kernel.maps["disks"]
        empty = bytes(abi.DISK_SUMS.size + abi.DISK_SLOTS.size)
        with suppress(KernelRefused):
            for number in range(table.capacity + 1):
                table.put(abi.DISK_KEY.pack(number, 1, 0), empty)
        copy(f"if={device}", "of=/dev/null", "iflag=direct")

        assert account_tracer.losses()["block disks_full"] >= 23


class TestWaits:
    """A traced thread that reads."""

    def test_sleep_is_tied_to_the_device(
        self, account_tracer: Tracer, waits_program: Path, device: Path, disk_group: cgroups.Group
    ) -> None:
        """23 reads of a MiB, of a disk that gives it 128 MiB a second: it sleeps for nothing but this disk."""
        accounts.probe(account_tracer, waits_program)
        command = [*in_groups([disk_group.path]), waits_program, "call", "reads", str(CALLS)]
        with disk.slow_reads(disk_group, device, 128 * MIB):
            account = accounts.run(account_tracer, *command, environment={"WAITS_FILE": str(device)})
        waits = read_disk_waits(account_tracer.kernel.maps["disk_waits"])
        by_device = {key.device: wait for key, wait in waits.items()}
        slept_ns = account.call_ns("cudaEventRecord")[ThreadState.IO]

        assert by_device[number_of(device)].wait_ns == pytest.approx(slept_ns, rel=0.02)
        assert by_device[number_of(device)].wait_ns >= 0.98 * sum(wait.wait_ns for wait in by_device.values())
