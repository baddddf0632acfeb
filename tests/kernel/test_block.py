"""Disks by cgroup and process, and waits for them: requests of known number and size to private loop devices."""

from __future__ import annotations

import os
import subprocess
from collections import Counter
from collections.abc import Iterator, Sequence
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
    """A private loop device."""
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
    """Rows of `disks`."""
    found = device.stat().st_rdev
    return os.major(found) << 20 | os.minor(found)


# What a program does before it becomes `dd`, as one that is read from a cold disk.
READ_FIRST = ["sh", "-c", 'read -r _ <"$0" || exit; exec "$@"']
WRITE_FIRST = ["sh", "-c", 'printf %4096s >"$0"; exec "$@"']


def copy(
    *words: str | Path,
    group: cgroups.Group | None = None,
    size_bytes: int = PAGE_BYTES,
    before: Sequence[str | Path] = (),
) -> None:
    """`dd`, a page at a time, in a control group."""
    command = [*before, "dd", *words, f"bs={size_bytes}", f"count={CALLS}", "status=none"]
    subprocess.run([*(in_groups([group.path]) if group else ()), *map(str, command)], check=True)


def rows_of(tracer: Tracer, device: Path, direction: DiskDirection) -> dict[int, DiskRow]:
    """Cgroup -> row."""
    rows = read_disks(tracer.kernel.maps["disks"])
    wanted = (number_of(device), direction)
    return {key.cgroup_id: row for key, row in rows.items() if (key.device, key.direction) == wanted}


def _requests_by_name(tracer: Tracer, device: Path) -> dict[bytes, int]:
    users = read_disk_users(tracer.kernel.maps["disk_users"])
    by_name: Counter[bytes] = Counter()
    for key, use in users.items():
        if key.device == number_of(device):
            by_name[key.user.comm] += use.requests
    return by_name


class TestRequests:
    """Exact counts."""

    def test_23_reads_of_a_page_are_23_requests_of_their_control_group(
        self, account_tracer: Tracer, device: Path, disk_group: cgroups.Group
    ) -> None:
        """Each has a time in the queue and one on the device."""
        copy(f"if={device}", "of=/dev/null", "iflag=direct", group=disk_group)
        rows = rows_of(account_tracer, device, DiskDirection.READ)
        row = rows[disk_group.path.stat().st_ino]

        assert (row.requests, row.bytes, row.errors) == (23, 23 * 4096, 0)
        assert row.queue_slots.total == row.device_slots.total == 23
        assert row.device_ns > 0

    def test_writes_and_reads_are_separate(self, account_tracer: Tracer, device: Path) -> None:
        """There are no reads."""
        copy("if=/dev/zero", f"of={device}", "oflag=direct")
        rows = rows_of(account_tracer, device, DiskDirection.WRITE)

        assert sum(row.requests for row in rows.values()) == 23
        assert sum(row.bytes for row in rows.values()) == 23 * 4096
        assert rows_of(account_tracer, device, DiskDirection.READ) == {}

    def test_user_of_the_disk_is_the_process_that_made_the_request(self, account_tracer: Tracer, device: Path) -> None:
        """Whichever task executes it."""
        copy(f"if={device}", "of=/dev/null", "iflag=direct")

        assert _requests_by_name(account_tracer, device) == {b"dd": 23}

    def test_user_of_pages_that_are_written_back_is_the_process_that_made_them_dirty(
        self, account_tracer: Tracer, device: Path
    ) -> None:
        """They are written at the request of this process: `dd` has ended by then, and another process has the disk open."""
        with device.open("rb") as held:
            copy("if=/dev/zero", f"of={device}", "conv=notrunc")
            written = _requests_by_name(account_tracer, device)
            os.sync()
            os.fsync(held.fileno())
        by_name = _requests_by_name(account_tracer, device)

        assert (written, by_name.keys()) == ({}, {b"dd"})

    def test_user_of_requests_over_a_limit_is_the_process_that_made_them_or_its_group(
        self, account_tracer: Tracer, device: Path, disk_group: cgroups.Group
    ) -> None:
        """A kernel thread makes them as soon as the limit allows it, and never is the user."""
        with disk.slow_reads(disk_group, device, MIB // 4):
            copy(f"if={device}", "of=/dev/null", "iflag=direct", group=disk_group, size_bytes=32 * 1024)
        users = read_disk_users(account_tracer.kernel.maps["disk_users"])
        of_device = {key.user: use for key, use in users.items() if key.device == number_of(device)}

        assert sum(use.requests for use in of_device.values()) == 23
        assert all(user.comm == b"dd" or user.cgroup_id == disk_group.path.stat().st_ino for user in of_device)

    def test_user_of_requests_over_a_limit_has_the_name_of_the_program_that_it_has_become(
        self, account_tracer: Tracer, device: Path, disk_group: cgroups.Group
    ) -> None:
        """The same process read from the disk before, as another program."""
        device.write_bytes(b"\n" * PAGE_BYTES)
        with device.open("rb") as held:
            os.posix_fadvise(held.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        with disk.slow_reads(disk_group, device, MIB // 4):
            copy(
                f"if={device}",
                "of=/dev/null",
                "iflag=direct",
                group=disk_group,
                size_bytes=32 * 1024,
                before=[*READ_FIRST, device],
            )

        by_name = _requests_by_name(account_tracer, device)

        assert by_name[b"sh"] > 0
        assert by_name[b"dd"] == CALLS

    def test_writer_of_pages_has_the_name_of_the_program_that_it_has_become(
        self, account_tracer: Tracer, device: Path
    ) -> None:
        """The same process wrote to the disk before, as another program."""
        with device.open("rb") as held:
            copy("if=/dev/zero", f"of={device}", "conv=notrunc", before=[*WRITE_FIRST, device])
            os.fsync(held.fileno())

        assert _requests_by_name(account_tracer, device).keys() == {b"dd"}

    def test_no_record_is_dropped(self, account_tracer: Tracer, device: Path) -> None:
        """No drops, and no runs that the kernel skipped."""
        copy(f"if={device}", "of=/dev/null", "iflag=direct")

        assert account_tracer.drops() == {}

    def test_full_map_is_counted(self, account_tracer: Tracer, device: Path) -> None:
        """All rows are taken by other devices."""
        table = account_tracer.kernel.maps["disks"]
        empty = bytes(abi.DISK_ROW.size)
        with suppress(KernelRefused):
            for number in range(table.capacity + 1):
                table.put(abi.DISK_KEY.pack(number, 1, 0), empty)
        copy(f"if={device}", "of=/dev/null", "iflag=direct")

        assert account_tracer.drops()["block disks_full"] >= 23


class TestWaits:
    def test_sleep_is_tied_to_the_device(
        self, account_tracer: Tracer, waits_program: Path, device: Path, disk_group: cgroups.Group
    ) -> None:
        """23 reads of 1 MiB from a disk limited to 128 MiB/s: to the nanosecond, unless an event was missed."""
        accounts.probe(account_tracer, waits_program)
        command = [*in_groups([disk_group.path]), waits_program, "call", "reads", str(CALLS)]
        with disk.slow_reads(disk_group, device, 128 * MIB):
            account = accounts.run(account_tracer, *command, environment={"WAITS_FILE": str(device)})
        waits = read_disk_waits(account_tracer.kernel.maps["disk_waits"])
        by_device = {key.device: wait for key, wait in waits.items()}
        slept_ns = account.call_ns("cudaEventRecord")[ThreadState.IO]

        assert by_device[number_of(device)].wait_ns > 0
        assert by_device[number_of(device)].wait_ns == slept_ns or account.healed
