"""A wait for a disk is shared by those who use the disk."""

from __future__ import annotations

from exporter.accounting.culprits import NO_CULPRIT
from exporter.accounting.disks import DiskBlame
from exporter.kernel.disk_rows import OUTSIDE, DiskUse, DiskUser, DiskUserKey, DiskWait, DiskWaitKey

JOB, SDA, SDB = 1, 8 << 20, 8 << 20 | 16
OWN, DD, FIO = DiskUser(JOB, 0, 0, b"python"), DiskUser(0, 40, 0, b"dd"), DiskUser(0, 41, 0, b"fio")

Uses = dict[tuple[int, DiskUser], int]


def blamed(waits_ns: dict[int, int], uses_ns: Uses, before: DiskBlame | None = None) -> dict[str, int]:
    """Waits of the job by program. waits_ns: by disk."""
    blame = before or DiskBlame()
    waits = {DiskWaitKey(JOB, device): DiskWait(1, ns) for device, ns in waits_ns.items()}
    uses = {DiskUserKey(device, user): DiskUse(1, ns) for (device, user), ns in uses_ns.items()}
    return blame.update(waits, uses)[JOB]


class TestShares:
    """Waits within one interval."""

    def test_by_what_the_device_took_for_each(self) -> None:
        """Three quarters of it were for dd; the rest was for the job itself and has no culprit."""
        assert blamed({SDA: 100}, {(SDA, OWN): 10, (SDA, DD): 30}) == {NO_CULPRIT: 25, "dd": 75}

    def test_users_of_another_disk_are_not_to_blame(self) -> None:
        """However busy it is."""
        assert blamed({SDA: 100}, {(SDA, OWN): 10, (SDB, FIO): 1000}) == {NO_CULPRIT: 100}

    def test_each_disk_has_its_own_users(self) -> None:
        """The parts add up to what was waited for."""
        assert blamed({SDA: 100, SDB: 50}, {(SDA, DD): 7, (SDB, FIO): 9}) == {"dd": 100, "fio": 50}

    def test_wait_for_no_known_device_is_nobodys(self) -> None:
        """A file system's journal ended it."""
        assert blamed({0: 100}, {(SDA, DD): 7}) == {NO_CULPRIT: 100}

    def test_culprit_outside_of_the_namespace_has_no_name(self) -> None:
        """A process of another pod."""
        assert blamed({SDA: 100}, {(SDA, DiskUser(OUTSIDE, 0, 0, b"")): 7}) == {"outside": 100}

    def test_another_traced_job_has_its_program_s_name(self) -> None:
        """It is not this one."""
        assert blamed({SDA: 100}, {(SDA, DiskUser(2, 0, 0, b"trainer")): 7}) == {"trainer": 100}

    def test_unknown_process_has_the_name_of_its_cgroup(self) -> None:
        """A kernel thread makes the requests; without a name of the cgroup it is the kernel thread."""
        uses = {(SDA, DiskUser(0, 9, group, b"kworker/u8:1")): 50 for group in (7, 8)}
        blame = DiskBlame({7: "backup.service", 8: ""}.__getitem__)

        assert blamed({SDA: 100}, uses, blame) == {"backup.service": 50, "kworker": 50}


class TestTime:
    """From one reading to the next."""

    def test_only_what_has_grown_counts(self) -> None:
        """dd was busy before, and fio is now."""
        blame = DiskBlame()
        blamed({SDA: 100}, {(SDA, DD): 1000}, blame)

        assert blamed({SDA: 160}, {(SDA, DD): 1000, (SDA, FIO): 5}, blame) == {"fio": 60}

    def test_row_that_was_pushed_out_and_came_again_takes_nothing_back(self) -> None:
        """The table of users keeps the latest only."""
        blame = DiskBlame()
        blamed({SDA: 100}, {(SDA, DD): 1000}, blame)

        assert blamed({SDA: 160}, {(SDA, DD): 3}, blame) == {NO_CULPRIT: 60}
