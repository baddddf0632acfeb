"""memory: rows and files of control groups to totals by container."""

from __future__ import annotations

from dataclasses import dataclass, field
from mmap import PAGESIZE

from exporter import catalog
from exporter.catalog import Metric
from exporter.hostmetrics.memory import Memory
from exporter.model import Identity
from exporter.series.host_totals import TotalsByIdentity
from exporter.totals import HistogramTotal, Series, Total
from tests.support.groups import FakeGroups, traced
from tests.support.tables import FakeTables

MACHINE = Identity("n")
CONTAINER = Identity("n", container="c")
TTL_NS = 1_000
KIB = 1024


@dataclass
class FakePlaces:
    """`/c` and what is in it is the container c. gone: numbers of groups that are."""

    gone: set[int] = field(default_factory=set)

    def identity_of_path(self, path: str) -> Identity:
        """By the first folder."""
        return CONTAINER if path.split("/")[1] == "c" else MACHINE

    def is_gone(self, number: int) -> bool:
        """As it is told."""
        return number in self.gone


@dataclass
class FakeSwap:
    """by_tgid: bytes; asked: whom it was asked about."""

    by_tgid: dict[int, int] = field(default_factory=dict)
    asked: list[int] = field(default_factory=list)
    is_there: bool = True

    def has_any(self) -> bool:
        """As it is told."""
        return self.is_there

    def bytes_of(self, tgid: int) -> int | None:
        """None for one that has ended."""
        self.asked.append(tgid)
        return self.by_tgid.get(tgid)


def made(
    kernel: FakeTables | None = None,
    places: FakePlaces | None = None,
    groups: FakeGroups | None = None,
    swap: FakeSwap | None = None,
) -> Memory:
    """A collector in which nothing happens unless it is given."""
    tables = kernel.maps if kernel else {}
    return Memory(tables, places or FakePlaces(), groups or FakeGroups(), swap or FakeSwap(is_there=False), TTL_NS)


def of(totals: TotalsByIdentity, metric: Metric, place: Identity = CONTAINER) -> Total | None:
    """Of a metric without labels of its own."""
    return totals.get(place, {}).get(Series(metric, ()))


class TestGroups:
    """Rows that the kernel keeps, of any task of the machine."""

    def test_groups_of_a_container_are_added_up(self) -> None:
        """A process may be in one of its own."""
        kernel = FakeTables()
        kernel.memory_group(7, path=("c",), reclaims_ns=[1, 1], reclaimed_pages=2)
        kernel.memory_group(8, path=("c", "init.scope"), reclaims_ns=[1], reclaimed_pages=3, oom_kills=1)
        totals = made(kernel).collect(1, [])
        reclaims = of(totals, catalog.memory.RECLAIM_DURATION)

        assert isinstance(reclaims, HistogramTotal)
        assert (reclaims.counts.total, reclaims.sum_ns) == (3, 3)
        assert of(totals, catalog.memory.RECLAIMED) == 5 * PAGESIZE
        assert of(totals, catalog.memory.OOM_KILLS) == 1

    def test_what_is_in_no_container_is_the_machine_s(self) -> None:
        """The root's name is empty."""
        kernel = FakeTables()
        kernel.memory_group(1, path=(), oom_kills=2)

        assert of(made(kernel).collect(1, []), catalog.memory.OOM_KILLS, MACHINE) == 2

    def test_row_of_a_group_that_is_gone_is_deleted_and_its_totals_stay(self) -> None:
        """It is looked for when its row has been there before: a new one may not have been found yet."""
        kernel, places = FakeTables(), FakePlaces()
        kernel.memory_group(7, path=("c",), oom_kills=3)
        memory = made(kernel, places)
        places.gone.add(7)
        memory.collect(1, [])
        rows_before = len(kernel.maps["memory_groups"].rows)
        memory.collect(2, [])

        assert (rows_before, len(kernel.maps["memory_groups"].rows)) == (1, 0)
        assert of(memory.collect(3, []), catalog.memory.OOM_KILLS) == 3
        assert memory.resets == 0

    def test_a_row_that_comes_again_is_another_one(self) -> None:
        """A group that cannot be seen from here looks as if it were gone."""
        kernel, places = FakeTables(), FakePlaces({7})
        kernel.memory_group(7, path=("c",), oom_kills=1)
        memory = made(kernel, places)
        memory.collect(1, [])
        memory.collect(2, [])
        kernel.memory_group(7, path=("c",), oom_kills=1)

        assert of(memory.collect(3, []), catalog.memory.OOM_KILLS) == 2
        assert memory.resets == 0

    def test_a_count_that_goes_back_takes_nothing_back(self) -> None:
        """Counted as a new beginning."""
        kernel = FakeTables()
        kernel.memory_group(7, path=("c",), oom_kills=3)
        memory = made(kernel)
        memory.collect(1, [])
        kernel.memory_group(7, path=("c",), oom_kills=1)

        assert of(memory.collect(2, []), catalog.memory.OOM_KILLS) == 4
        assert memory.resets == 1

    def test_first_kill_of_a_job_s_container_is_one_more_than_none(self) -> None:
        """A series that begins with 1 has not grown."""
        groups = FakeGroups(by_tgid={10: "/c"})

        assert of(made(FakeTables(), groups=groups).collect(1, [traced(10)]), catalog.memory.OOM_KILLS) == 0


class TestContainers:
    """Files of the groups that traced processes are in."""

    def test_major_faults_of_version_1_are_those_of_the_whole_tree(self) -> None:
        """`total_` holds the groups in it as well."""
        groups = FakeGroups(1, {("/c", "memory.stat"): "pgmajfault 3\ntotal_pgmajfault 23\n"}, {10: "/c"})

        assert of(made(groups=groups).collect(1, [traced(10)]), catalog.memory.MAJOR_FAULTS) == 23

    def test_major_faults_of_version_2(self) -> None:
        """They hold the groups in it anyway."""
        groups = FakeGroups(2, {("/c", "memory.stat"): "anon 1\npgmajfault 23\n"}, {10: "/c"})

        assert of(made(groups=groups).collect(1, [traced(10)]), catalog.memory.MAJOR_FAULTS) == 23

    def test_a_group_within_another_one_is_not_counted_twice(self) -> None:
        """Both have traced processes of the same container."""
        files = {("/c", "memory.stat"): "pgmajfault 23", ("/c/a", "memory.stat"): "pgmajfault 20"}
        groups = FakeGroups(2, files, {10: "/c", 11: "/c/a"})

        assert of(made(groups=groups).collect(1, [traced(10), traced(11)]), catalog.memory.MAJOR_FAULTS) == 23

    def test_the_smallest_limit_on_the_way_up_holds(self) -> None:
        """The pod's, here."""
        files = {
            ("/pod/c", "memory.current"): "100",
            ("/pod/c", "memory.max"): "max",
            ("/pod", "memory.max"): "500",
        }
        totals = made(groups=FakeGroups(2, files, {10: "/pod/c"})).collect(1, [traced(10)])

        assert (of(totals, catalog.memory.USED), of(totals, catalog.memory.LIMIT)) == (100, 500)

    def test_version_1_tells_no_limit_as_a_large_number(self) -> None:
        """Of pages."""
        files = {("/c", "memory.usage_in_bytes"): "100", ("/c", "memory.limit_in_bytes"): "9223372036854771712"}
        totals = made(groups=FakeGroups(1, files, {10: "/c"})).collect(1, [traced(10)])

        assert (of(totals, catalog.memory.USED), of(totals, catalog.memory.LIMIT)) == (100, None)

    def test_a_group_that_vanishes_between_two_reads_is_left_out(self) -> None:
        """Its counts stay as they were."""
        groups = FakeGroups(2, {("/c", "memory.stat"): "pgmajfault 23"}, {10: "/c"})
        memory = made(groups=groups)
        memory.collect(1, [traced(10)])
        groups.files.clear()

        assert of(memory.collect(2, [traced(10)]), catalog.memory.MAJOR_FAULTS) == 23


class TestSwap:
    """By workload."""

    def test_processes_of_a_rank_are_added_up(self) -> None:
        """Their labels are the rank's."""
        swap = FakeSwap({10: KIB, 11: 2 * KIB})
        totals = made(swap=swap).collect(1, [traced(10), traced(11)])

        assert of(totals, catalog.memory.SWAP, Identity("n", rank="0", container="c")) == 3 * KIB

    def test_without_swap_nobody_is_looked_at(self) -> None:
        """And nothing is told."""
        swap = FakeSwap({10: 0}, is_there=False)
        totals = made(swap=swap).collect(1, [traced(10)])

        assert of(totals, catalog.memory.SWAP, Identity("n", rank="0", container="c")) is None
        assert swap.asked == []

    def test_one_that_has_ended_and_one_out_of_sight_are_left_out(self) -> None:
        """A tgid of 0 is not asked about."""
        swap = FakeSwap({10: KIB})
        totals = made(swap=swap).collect(1, [traced(10), traced(11), traced(0)])

        assert of(totals, catalog.memory.SWAP, Identity("n", rank="0", container="c")) == KIB
        assert swap.asked == [10, 11]

    def test_no_more_than_256_are_read(self) -> None:
        """For one scrape."""
        swap = FakeSwap(dict.fromkeys(range(1, 301), KIB))
        made(swap=swap).collect(1, [traced(tgid) for tgid in range(1, 301)])

        assert len(swap.asked) == 256


class TestPages:
    """Allocated by the kernel for processes, where that is counted."""

    def test_they_are_told_as_bytes_of_the_rank(self) -> None:
        """Its processes together."""
        kernel = FakeTables()
        kernel.page_allocations(10, 20)
        kernel.page_allocations(11, 3)
        totals = made(kernel).collect(1, [traced(10), traced(11)])

        assert of(totals, catalog.memory.PAGE_ALLOCATED, Identity("n", rank="0", container="c")) == 23 * PAGESIZE

    def test_what_came_up_to_the_end_of_a_process_is_told(self) -> None:
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

    def test_one_that_has_no_name_yet_is_told_when_it_has_one(self) -> None:
        """Its rank may not be known at once."""
        kernel = FakeTables()
        kernel.page_allocations(10, 23)
        memory = made(kernel)

        assert memory.collect(1, []) == {}
        assert (
            of(memory.collect(2, [traced(10)]), catalog.memory.PAGE_ALLOCATED, Identity("n", "0", "c")) == 23 * PAGESIZE
        )
