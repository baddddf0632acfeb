"""registry: identities are shared by owner."""

from __future__ import annotations

from pathlib import Path

from exporter.host.processes import Processes
from exporter.kernel.abi import NUMBER, PROCESS_SHARE, SHARE_OF_GROUPS
from exporter.kernel.share_rows import Shares
from exporter.model import Identity
from exporter.workloads.registry import Rename, WorkloadRegistry
from tests.support.direct_reads import DirectReads
from tests.support.tables import FakeMap
from tests.unit.host.process_tree import process
from tests.unit.workloads.registries import row


class TestOwners:
    """Identities are shared by owner: here users, whose processes are in no container."""

    def registry(self, proc: Path, most: int) -> WorkloadRegistry:
        """Users by process: 65534 has 0, 1 and 2, root has 3, which claims the rank of 0."""
        table = FakeMap()
        for number, uid in enumerate((65534, 65534, 65534, 0)):
            process(proc, 100 + number, environ=b"RANK=%d\0" % (number % 3), cgroup=b"0::/\n")
            table.put(NUMBER.pack(number), PROCESS_SHARE.pack(0, uid, 1, 0, *(0,) * SHARE_OF_GROUPS, 0))
        registry = WorkloadRegistry(
            Processes(proc), DirectReads(Processes(proc)), "gpu7", most, shares=Shares({"process_shares": table})
        )
        registry.admit({number: row(tgid=100 + number) for number in range(3)})
        registry.update_identities({})
        registry.admit({number: row(tgid=100 + number) for number in range(4)})
        return registry

    def test_rank_of_another_user_has_the_user_as_container(self, tmp_path: Path) -> None:
        """The first one keeps its name."""
        registry = self.registry(tmp_path, 256)
        registry.update_identities({})

        assert registry.identities()[0] == Identity("gpu7", "0")
        assert registry.identities()[3] == Identity("gpu7", "0", container="uid 0")

    def test_user_with_all_places_gives_one_up(self, tmp_path: Path) -> None:
        """Its last process goes on as one of the others, and what it has counted stays behind."""
        registry = self.registry(tmp_path, 3)
        renames = registry.update_identities({})

        assert renames == [Rename(2, Identity("gpu7", "2"))]
        assert registry.identities()[2] == Identity("gpu7", "other", container="other")
        assert registry.identities()[3] == Identity("gpu7", "0", container="uid 0")
        assert registry.evicted == [Identity("gpu7", "2")]
        assert registry.update_identities({}) == []
        assert registry.evicted == []
