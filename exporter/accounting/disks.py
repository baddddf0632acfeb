"""Attributes a job's waits for disks to the programs that used those disks.

In: how long threads of each job waited for each disk, and how long each disk worked for each user, both cumulative. Out: the
job's latest waits by program. A wait is divided in proportion to the time that the disk worked for each of its users; the job's
own part, and a wait for an unknown disk, have no culprit.
"""

from __future__ import annotations

from collections.abc import Mapping

from exporter.accounting.culprits import NO_CULPRIT, OUTSIDE, NameOfGroup, no_names, program_name
from exporter.accounting.sharing import Growth, shared
from exporter.kernel import disk_rows
from exporter.kernel.disk_rows import DiskUse, DiskUser, DiskUserKey, DiskWait, DiskWaitKey
from exporter.text.printable import printable


class DiskBlame:
    """Remembers the last sums. name_of_group: of a cgroup of the io controller."""

    def __init__(self, name_of_group: NameOfGroup = no_names) -> None:
        self._name_of_group = name_of_group
        self._waited: Growth[DiskWaitKey] = Growth()
        self._used: Growth[DiskUserKey] = Growth()

    def update(
        self, waits: Mapping[DiskWaitKey, DiskWait], uses: Mapping[DiskUserKey, DiskUse]
    ) -> dict[int, dict[str, int]]:
        """Process -> name of a program, "" for none -> nanoseconds that its threads have waited since the last update."""
        waited = self._waited.since({key: row.wait_ns for key, row in waits.items()})
        by_device: dict[int, dict[DiskUser, int]] = {}
        for used, device_ns in self._used.since({key: row.device_ns for key, row in uses.items()}).items():
            by_device.setdefault(used.device, {})[used.user] = device_ns
        blamed: dict[int, dict[str, int]] = {}
        for (process, device), wait_ns in waited.items():
            of_process = blamed.setdefault(process, {})
            weights: dict[str, int] = {}
            for user, device_ns in by_device.get(device, {}).items():
                name = self._name_of(user, process)
                weights[name] = weights.get(name, 0) + device_ns
            for name, part_ns in shared(wait_ns, weights or {NO_CULPRIT: 1}).items():
                of_process[name] = of_process.get(name, 0) + part_ns
        return blamed

    def _name_of(self, user: DiskUser, process: int) -> str:
        """Name of the program, or of the cgroup; "" for the job itself."""
        if user.group == process:
            return NO_CULPRIT
        if user.group == disk_rows.OUTSIDE:
            return OUTSIDE
        return (user.cgroup_id and printable(self._name_of_group(user.cgroup_id))) or program_name(user.comm)
