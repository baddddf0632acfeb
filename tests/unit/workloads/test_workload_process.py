"""workload_process: infos of traced processes."""

from __future__ import annotations

from dataclasses import replace

from exporter.kernel.process_rows import ProcessRow
from exporter.model import Identity
from exporter.workloads.refusals import Refusals
from exporter.workloads.workload_process import INFOS_MAX, WorkloadProcess, infos, unread_process


def made(uid: int, identity: Identity | None = None) -> WorkloadProcess:
    """A process of a user."""
    process = unread_process(ProcessRow(100, 1, 7, (0,) * 6, *(0,) * 10, b"python"), uid)
    return replace(process, identity=identity)


class TestInfos:
    def test_owner_has_a_limited_number(self) -> None:
        """A user with thousands of processes leaves those of others theirs. Each that has none is counted once."""
        refused = Refusals()
        processes = {number: made(uid=65534) for number in range(INFOS_MAX + 3)} | {9999: made(uid=1000)}
        for _ in range(2):
            found = infos(processes, refused)

        assert found.keys() == {*range(INFOS_MAX), 9999}
        assert refused.sums() == {("infos", "uid 65534"): 3}

    def test_processes_without_series_of_their_own_have_none(self) -> None:
        assert infos({1: made(0, Identity(rank="other", container="other"))}, Refusals()) == {}
