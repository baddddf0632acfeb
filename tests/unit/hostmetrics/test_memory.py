"""memory: rows and files of cgroups to totals by container."""

from __future__ import annotations

from dataclasses import dataclass, field
from mmap import PAGESIZE

from exporter import catalog
from exporter.catalog import Metric
from exporter.hostmetrics.memory import Memory
from exporter.kernel.share_rows import Shares
from exporter.model import Identity
from exporter.series.host_totals import TotalsByIdentity
from exporter.totals import HistogramTotal, Series, Total
from tests.support.cgroups import FakeCgroups, traced
from tests.support.tables import FakeTables

MACHINE = Identity("n")
CONTAINER = Identity("n", container="c")
TTL_NS = 1_000
KIB = 1024


@dataclass
class FakeLabels:
    """`/c` and everything below it is the container c. gone: ids of removed cgroups."""

    gone: set[int] = field(default_factory=set)

    def identity_of_path(self, path: str) -> Identity:
        return CONTAINER if path.split("/")[1] == "c" else MACHINE

    def is_gone(self, number: int) -> bool:
        return number in self.gone


@dataclass
class FakeSwap:
    """by_tgid: bytes. read: tgids that were read, in order."""

    by_tgid: dict[int, int] = field(default_factory=dict)
    read: list[int] = field(default_factory=list)
    is_there: bool = True

    def has_any(self) -> bool:
        return self.is_there

    def bytes_of(self, tgid: int) -> int | None:
        self.read.append(tgid)
        return self.by_tgid.get(tgid)


def made(
    kernel: FakeTables | None = None,
    labels: FakeLabels | None = None,
    groups: FakeCgroups | None = None,
    swap: FakeSwap | None = None,
) -> Memory:
    """A collector that reads these, else nothing."""
    tables = kernel.maps if kernel else {}
    return Memory(
        tables,
        labels or FakeLabels(),
        groups or FakeCgroups(),
        swap or FakeSwap(is_there=False),
        TTL_NS,
        shares=Shares(tables),
    )


def of(totals: TotalsByIdentity, metric: Metric, place: Identity = CONTAINER) -> Total | None:
    """A metric without labels of its own."""
    return totals.get(place, {}).get(Series(metric, ()))


class TestRows:
    """Rows of the kernel, of any task on the node."""

    def test_cgroups_of_a_container_are_added_up(self) -> None:
        """A process may be in a cgroup of its own."""
        kernel = FakeTables()
        kernel.memory_group(7, path=("c",), reclaims_ns=[1, 1], reclaimed_pages=2)
        kernel.memory_group(8, path=("c", "init.scope"), reclaims_ns=[1], reclaimed_pages=3, oom_kills=1)
        totals = made(kernel).collect(1, [])
        reclaims = of(totals, catalog.memory.RECLAIM_DURATION)

        assert isinstance(reclaims, HistogramTotal)
        assert (reclaims.counts.total, reclaims.sum_ns) == (3, 3)
        assert of(totals, catalog.memory.RECLAIMED) == 5 * PAGESIZE
        assert of(totals, catalog.memory.OOM_KILLS) == 1

    def test_cgroup_in_no_container_counts_for_the_node(self) -> None:
        """The name of the root is empty."""
        kernel = FakeTables()
        kernel.memory_group(1, path=(), oom_kills=2)

        assert of(made(kernel).collect(1, []), catalog.memory.OOM_KILLS, MACHINE) == 2

    def test_row_of_a_removed_cgroup_is_deleted_and_its_totals_stay(self) -> None:
        """Only when the row was there before: a new cgroup may not be found yet."""
        kernel, labels = FakeTables(), FakeLabels()
        kernel.memory_group(7, path=("c",), oom_kills=3)
        memory = made(kernel, labels)
        labels.gone.add(7)
        memory.collect(1, [])
        rows_before = len(kernel.maps["memory_groups"].rows)
        memory.collect(2, [])

        assert (rows_before, len(kernel.maps["memory_groups"].rows)) == (1, 0)
        assert of(memory.collect(3, []), catalog.memory.OOM_KILLS) == 3
        assert memory.resets == 0

    def test_row_that_comes_again_is_a_new_source(self) -> None:
        """A cgroup that is not visible from here looks as if it were removed."""
        kernel, labels = FakeTables(), FakeLabels({7})
        kernel.memory_group(7, path=("c",), oom_kills=1)
        memory = made(kernel, labels)
        memory.collect(1, [])
        memory.collect(2, [])
        kernel.memory_group(7, path=("c",), oom_kills=1)

        assert of(memory.collect(3, []), catalog.memory.OOM_KILLS) == 2
        assert memory.resets == 0

    def test_lower_count_is_a_reset(self) -> None:
        """It is added."""
        kernel = FakeTables()
        kernel.memory_group(7, path=("c",), oom_kills=3)
        memory = made(kernel)
        memory.collect(1, [])
        kernel.memory_group(7, path=("c",), oom_kills=1)

        assert of(memory.collect(2, []), catalog.memory.OOM_KILLS) == 4
        assert memory.resets == 1

    def test_oom_kills_of_a_job_start_at_0(self) -> None:
        """So that increase() sees the first one."""
        groups = FakeCgroups(by_tgid={10: "/c"})

        assert of(made(FakeTables(), groups=groups).collect(1, [traced(10)]), catalog.memory.OOM_KILLS) == 0


class TestContainers:
    """Files of the cgroups that traced processes are in."""

    def test_major_faults_of_version_1_are_those_of_the_whole_tree(self) -> None:
        """`total_` includes the cgroups below."""
        groups = FakeCgroups(1, {("/c", "memory.stat"): "pgmajfault 3\ntotal_pgmajfault 23\n"}, {10: "/c"})

        assert of(made(groups=groups).collect(1, [traced(10)]), catalog.memory.MAJOR_FAULTS) == 23

    def test_major_faults_of_version_2_include_the_cgroups_below(self) -> None:
        groups = FakeCgroups(2, {("/c", "memory.stat"): "anon 1\npgmajfault 23\n"}, {10: "/c"})

        assert of(made(groups=groups).collect(1, [traced(10)]), catalog.memory.MAJOR_FAULTS) == 23

    def test_cgroup_within_another_is_not_counted_twice(self) -> None:
        """Both have traced processes of one container."""
        files = {("/c", "memory.stat"): "pgmajfault 23", ("/c/a", "memory.stat"): "pgmajfault 20"}
        groups = FakeCgroups(2, files, {10: "/c", 11: "/c/a"})

        assert of(made(groups=groups).collect(1, [traced(10), traced(11)]), catalog.memory.MAJOR_FAULTS) == 23

    def test_smallest_limit_of_a_cgroup_and_its_ancestors_applies(self) -> None:
        """Here the pod's."""
        files = {
            ("/pod/c", "memory.current"): "100",
            ("/pod/c", "memory.max"): "max",
            ("/pod", "memory.max"): "500",
        }
        totals = made(groups=FakeCgroups(2, files, {10: "/pod/c"})).collect(1, [traced(10)])

        assert (of(totals, catalog.memory.USED), of(totals, catalog.memory.LIMIT)) == (100, 500)

    def test_huge_limit_of_version_1_is_no_limit(self) -> None:
        files = {("/c", "memory.usage_in_bytes"): "100", ("/c", "memory.limit_in_bytes"): "9223372036854771712"}
        totals = made(groups=FakeCgroups(1, files, {10: "/c"})).collect(1, [traced(10)])

        assert (of(totals, catalog.memory.USED), of(totals, catalog.memory.LIMIT)) == (100, None)

    def test_counts_of_a_removed_cgroup_stay(self) -> None:
        groups = FakeCgroups(2, {("/c", "memory.stat"): "pgmajfault 23"}, {10: "/c"})
        memory = made(groups=groups)
        memory.collect(1, [traced(10)])
        groups.files.clear()

        assert of(memory.collect(2, [traced(10)]), catalog.memory.MAJOR_FAULTS) == 23


class TestSwap:
    """By workload."""

    def test_processes_of_a_rank_are_added_up(self) -> None:
        swap = FakeSwap({10: KIB, 11: 2 * KIB})
        totals = made(swap=swap).collect(1, [traced(10), traced(11)])

        assert of(totals, catalog.memory.SWAP, Identity("n", rank="0", container="c")) == 3 * KIB

    def test_without_swap_no_process_is_read(self) -> None:
        """And there is no series."""
        swap = FakeSwap({10: 0}, is_there=False)
        totals = made(swap=swap).collect(1, [traced(10)])

        assert of(totals, catalog.memory.SWAP, Identity("n", rank="0", container="c")) is None
        assert swap.read == []

    def test_ended_process_and_tgid_0_are_skipped(self) -> None:
        swap = FakeSwap({10: KIB})
        totals = made(swap=swap).collect(1, [traced(10), traced(11), traced(0)])

        assert of(totals, catalog.memory.SWAP, Identity("n", rank="0", container="c")) == KIB
        assert swap.read == [10, 11]

    def test_at_most_256_processes_are_read(self) -> None:
        """For one scrape."""
        swap = FakeSwap(dict.fromkeys(range(1, 301), KIB))
        made(swap=swap).collect(1, [traced(tgid) for tgid in range(1, 301)])

        assert len(swap.read) == 256


class TestPages:
    """Page allocations of processes, where they are counted."""

    def test_pages_are_bytes_of_the_rank(self) -> None:
        """Its processes together."""
        kernel = FakeTables()
        kernel.page_allocations(10, 20)
        kernel.page_allocations(11, 3)
        totals = made(kernel).collect(1, [traced(10), traced(11)])

        assert of(totals, catalog.memory.PAGE_ALLOCATED, Identity("n", rank="0", container="c")) == 23 * PAGESIZE

    def test_last_pages_of_an_ended_process_count(self) -> None:
        """Then its row is deleted."""
        kernel = FakeTables()
        kernel.page_allocations(10, 20)
        memory = made(kernel)
        memory.collect(1, [traced(10)])
        kernel.page_allocations(10, 23)
        found = [memory.collect(now, []) for now in (2, 3, 4)]

        rank = Identity("n", rank="0", container="c")
        assert [of(totals, catalog.memory.PAGE_ALLOCATED, rank) for totals in found] == [23 * PAGESIZE] * 3
        assert kernel.maps["page_allocations"].rows == {}

    def test_pages_before_the_identity_is_known_count_later(self) -> None:
        kernel = FakeTables()
        kernel.page_allocations(10, 23)
        memory = made(kernel)

        assert memory.collect(1, []) == {}
        assert (
            of(memory.collect(2, [traced(10)]), catalog.memory.PAGE_ALLOCATED, Identity("n", "0", "c")) == 23 * PAGESIZE
        )
