"""Shares of the tables of control groups: a user who makes more groups than there are rows takes no room from others."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from exporter.kernel.abi import DiskDirection, IpFamily, ShareTable
from exporter.kernel.disk_rows import DiskKey, forget_disk, read_disks
from exporter.kernel.memory_rows import read_memory
from exporter.kernel.retransmit_rows import RetransmitKey, RetransmitRow, read_retransmits
from exporter.kernel.share_rows import PLACES, Shares
from tests.faults.injectors import NotPossible, disk, network
from tests.support import crowds
from tests.support.crowds import Crowd
from tests.support.greedy import OTHER_USER
from tests.support.traced import Tracer, eventually, tracer

TIMES = 23
HALF = 16
"""Rows that one owner may have in these tests. Other programs of the machine have some as well."""
GROUPS = 2 * HALF
GREEDY = PLACES[0]
SILENT = "198.18.0.9"
"""An address of the network under test that no host has."""


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as found:
        yield found


@pytest.fixture
def small() -> Iterator[Tracer]:
    """Tables in which one owner may have HALF rows."""
    tables = (ShareTable.MEMORY_GROUPS, ShareTable.DISKS, ShareTable.RETRANSMITS)
    with tracer(capacities={table.name.lower(): HALF for table in tables}) as found:
        yield found


def made(stack: ExitStack, controller: str, name: str, user: int) -> Crowd:
    try:
        return stack.enter_context(crowds.crowd(controller, name, user))
    except NotPossible as reason:
        pytest.skip(str(reason))


def greedy_and_patient(small: Tracer, stack: ExitStack, controller: str) -> tuple[Crowd, Crowd]:
    """Groups of OTHER_USER, whose owner has the place GREEDY, and groups of root."""
    greedy = made(stack, controller, "greedy", OTHER_USER)
    small.tables.shares.expect(greedy.user_key, GREEDY)
    return greedy, made(stack, controller, "patient", 0)


def greedy_row(shares: Shares, table: ShareTable) -> tuple[int, int]:
    """Rows that it holds, and was refused."""
    row = shares.of_owner(GREEDY)
    return row.used[table], row.refused[table]


@pytest.fixture
def device(stack: ExitStack) -> Path:
    """A private loop device."""
    try:
        return stack.enter_context(disk.loop_device(1 << 20))
    except NotPossible as reason:
        pytest.skip(str(reason))


@pytest.fixture
def silence(stack: ExitStack) -> list[str]:
    """The beginning of a command line: it runs where packets to SILENT are sent, and never answered."""
    try:
        wire = stack.enter_context(network.wire())
    except NotPossible as reason:
        pytest.skip(str(reason))
    way = ["ip", "-n", wire.own]
    subprocess.run([*way, "route", "add", SILENT, "dev", "wire"], check=True)
    subprocess.run([*way, "neighbour", "add", SILENT, "lladdr", "02:00:00:00:00:01", "dev", "wire"], check=True)
    return network.inside(wire.own)


def key_of(device: Path, group: int) -> DiskKey:
    number = device.stat().st_rdev
    return DiskKey(group, os.major(number) << 20 | os.minor(number), DiskDirection.READ)


class TestDisks:
    def test_23_reads_are_23_beside_a_user_with_more_groups_than_rows(
        self, small: Tracer, stack: ExitStack, device: Path
    ) -> None:
        """What the user may not have is counted as its own."""
        greedy, patient = greedy_and_patient(small, stack, "blkio")
        with greedy.acting("reads", device, groups=GROUPS, times=1):
            held, refused = greedy_row(small.tables.shares, ShareTable.DISKS)
            with patient.acting("reads", device, groups=1, times=TIMES):
                row = read_disks(small.kernel.maps["disks"])[key_of(device, patient.number_of(0))]

        assert row.requests == 23
        assert held <= HALF
        assert held + refused >= GROUPS  # the file of the program itself may be read from another disk
        assert [*small.drops()] == ["block disks_full"]
        assert small.drops()["block disks_full"] >= refused > 0

    def test_row_that_is_deleted_is_given_back(self, small: Tracer, stack: ExitStack, device: Path) -> None:
        """To the owner who had it when it was made, though the user has another place by now."""
        greedy, _ = greedy_and_patient(small, stack, "blkio")
        shares = small.tables.shares
        with greedy.acting("reads", device, groups=5, times=1):
            held, _ = greedy_row(shares, ShareTable.DISKS)
            shares.expect(greedy.user_key, GREEDY + 1)
            for group in range(5):
                forget_disk(shares, key_of(device, greedy.number_of(group)))

        assert held >= 5  # as above
        assert greedy_row(shares, ShareTable.DISKS) == (held - 5, 0)
        assert shares.of_owner(GREEDY + 1).used[ShareTable.DISKS] == 0

    def test_groups_hold_their_rows_after_the_last_process_of_their_owner(
        self, small: Tracer, stack: ExitStack, device: Path
    ) -> None:
        """The place goes to another owner, who has what is left of it."""
        greedy, _ = greedy_and_patient(small, stack, "blkio")
        with greedy.acting("reads", device, groups=GROUPS, times=1):
            held, _ = greedy_row(small.tables.shares, ShareTable.DISKS)
            small.tables.shares.clear_owner(GREEDY)

        assert greedy_row(small.tables.shares, ShareTable.DISKS) == (held, 0)

    def test_user_is_named_whose_groups_are_refused(self, small: Tracer, stack: ExitStack, device: Path) -> None:
        """Also without traced processes: the kernel chooses a place for it."""
        greedy = made(stack, "blkio", "greedy", OTHER_USER)
        with greedy.acting("reads", device, groups=GROUPS, times=1):
            refused = small.tables.shares.refused()

        assert OTHER_USER in [row.user for row in refused.values()]


class TestMemoryGroups:
    def test_23_kills_are_23_beside_a_user_with_more_groups_than_rows(self, small: Tracer, stack: ExitStack) -> None:
        """Each group of the user has one process killed for lack of memory."""
        greedy, patient = greedy_and_patient(small, stack, "memory")
        with greedy.acting("kills", "", groups=GROUPS, times=1):
            held, refused = greedy_row(small.tables.shares, ShareTable.MEMORY_GROUPS)
            with patient.acting("kills", "", groups=1, times=TIMES):
                row = dict(read_memory(small.kernel.maps["memory_groups"]))[patient.number_of(0)]

        assert row.oom_kills == 23
        assert held <= HALF
        assert refused >= GROUPS - held


class TestRetransmits:
    def test_23_segments_are_23_beside_a_user_with_more_groups_than_rows(
        self, small: Tracer, stack: ExitStack, silence: list[str]
    ) -> None:
        """Rows are made by timers, on top of whatever runs: the socket knows its group."""
        greedy, patient = greedy_and_patient(small, stack, crowds.UNIFIED)
        table, shares = small.kernel.maps["retransmits"], small.tables.shares
        with greedy.acting("connects", SILENT, groups=GROUPS, times=1, before=silence):
            eventually(lambda: sum(greedy_row(shares, ShareTable.RETRANSMITS)) >= GROUPS, "all have sent again")
            held, _ = greedy_row(shares, ShareTable.RETRANSMITS)
            with patient.acting("connects", SILENT, groups=1, times=TIMES, before=silence):
                key = RetransmitKey(patient.number_of(0), IpFamily.IPV4)
                row = eventually(lambda: _of_23(read_retransmits(table).get(key)), "all have sent again once")

        assert row == RetransmitRow(23, 23)
        assert held <= HALF

    def test_groups_in_a_known_container_are_its_owner_s(
        self, small: Tracer, stack: ExitStack, silence: list[str]
    ) -> None:
        """Root in a container makes groups of root."""
        container = made(stack, crowds.UNIFIED, "container", 0)
        shares = small.tables.shares
        shares.expect(container.parent.stat().st_ino, GREEDY)
        with container.acting("connects", SILENT, groups=5, times=1, before=silence):
            eventually(lambda: greedy_row(shares, ShareTable.RETRANSMITS) == (5, 0), "all are the container's")

    def test_groups_below_a_deep_path_have_one_place(self, small: Tracer, stack: ExitStack, silence: list[str]) -> None:
        """Deeper than the kernel programs search: all who nest so deep share it, and take nothing from others."""
        greedy, _ = greedy_and_patient(small, stack, crowds.UNIFIED)
        shares = small.tables.shares
        with greedy.acting("connects", SILENT, groups=5, times=1, depth=40, before=silence):
            eventually(lambda: shares.of_owner(0).used[ShareTable.RETRANSMITS] == 5, "all have sent again")

        assert greedy_row(shares, ShareTable.RETRANSMITS) == (0, 0)


def _of_23(row: RetransmitRow | None) -> RetransmitRow | None:
    return row if row and row.segments >= TIMES else None
