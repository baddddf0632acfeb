"""owner_places: what the kernel programs are given about owners, and what they have refused."""

from __future__ import annotations

from exporter.kernel import abi
from exporter.kernel.abi import ShareRequest
from exporter.kernel.share_rows import PLACES, TABLES, ProcessShare, Shares
from exporter.workloads.owner import Owner
from exporter.workloads.owner_places import OwnerPlaces
from exporter.workloads.refusals import Refusals
from tests.support.tables import FakeMap

USER, CONTAINER = Owner("uid 1000", "uid 1000"), Owner("container aaa", "aaa")
NONE = (0,) * len(TABLES)
FIRST = PLACES[0]


class Bench:
    """Maps and the requests made."""

    def __init__(self) -> None:
        self.owners, self.expected = FakeMap(), FakeMap()
        self.requests: list[tuple[int, ...]] = []
        shares = Shares(
            {"owners": self.owners, "owner_places": self.expected}, lambda *arguments: self.requests.append(arguments)
        )
        self.refused = Refusals()
        self.places = OwnerPlaces(shares, self.refused)

    def add(self, process: int, owner: Owner, uid: int = 1000, group: int = 77) -> None:
        self.places.add(process, owner, ProcessShare(0, uid, group, 1 << 63 | uid, NONE))

    def refuse(self, place: int, user: int = 0, **rows: int) -> None:
        """What the kernel has refused to an owner so far. user: who made the control group."""
        refused = (rows.get(name, 0) for name in TABLES)
        self.owners.put(abi.NUMBER.pack(place), abi.OWNER_ROW.pack(*NONE, *refused, user, 0))


class TestPlaces:
    def test_processes_of_one_owner_have_one_place(self) -> None:
        bench = Bench()
        for process, owner in ((1, USER), (2, CONTAINER), (3, USER)):
            bench.add(process, owner)

        assert bench.requests == [
            (ShareRequest.OWNER, 1, FIRST),
            (ShareRequest.OWNER, 2, FIRST + 1),
            (ShareRequest.OWNER, 3, FIRST),
        ]

    def test_next_processes_are_expected_by_user_or_by_cgroup(self) -> None:
        """The cgroup of a user is one that it has made itself."""
        bench = Bench()
        bench.add(1, USER)
        bench.add(2, CONTAINER)

        assert {int.from_bytes(key, "little") for key in bench.expected.rows} == {1 << 63 | 1000, 77}

    def test_root_and_the_root_cgroup_are_not_expected(self) -> None:
        """Containers of other owners run as root as well; on cgroup v1 all are in the root."""
        bench = Bench()
        bench.add(1, Owner("uid 0", "uid 0"), uid=0)
        bench.add(2, CONTAINER, group=1)

        assert bench.expected.rows == {}

    def test_one_owner_has_few_keys(self) -> None:
        """A container may have many cgroups."""
        bench = Bench()
        for process in range(20):
            bench.add(process, CONTAINER, group=100 + process)

        assert len(bench.expected.rows) == 8

    def test_place_of_an_owner_without_processes_is_used_again(self) -> None:
        """When all places are taken. What its former owner was refused stays counted."""
        bench = Bench()
        for at, _ in enumerate(PLACES):
            bench.add(at, Owner(f"container {at}", f"c{at}"), group=1000 + at)
        bench.add(9999, USER)  # no place is free
        bench.refuse(FIRST, errors=3)
        bench.places.remove(0)
        bench.add(10_000, USER)

        assert bench.requests[-3:] == [
            (ShareRequest.CLEAR, FIRST),
            (ShareRequest.OWNER, 9999, FIRST),
            (ShareRequest.OWNER, 10_000, FIRST),
        ]
        assert bench.refused.sums() == {("errors", "c0"): 3}

    def test_owner_that_found_no_place_gets_the_next_free_one(self) -> None:
        """With all of its processes; the kernel's place for newcomers is shared."""
        bench = Bench()
        for at, _ in enumerate(PLACES):
            bench.add(at, Owner(f"container {at}", f"c{at}"), group=1000 + at)
        for process, owner in ((9997, USER), (9998, CONTAINER), (9999, USER)):
            bench.add(process, owner)
        bench.places.remove(9997)
        bench.places.remove(3)
        bench.places.remove(7)

        assert bench.requests[-4:] == [
            (ShareRequest.CLEAR, FIRST + 3),
            (ShareRequest.OWNER, 9998, FIRST + 3),
            (ShareRequest.CLEAR, FIRST + 7),
            (ShareRequest.OWNER, 9999, FIRST + 7),
        ]


class TestRefused:
    def test_refusals_are_counted_by_owner(self) -> None:
        """What was refused since the last time."""
        bench = Bench()
        bench.add(1, USER)
        bench.refuse(FIRST, errors=3)
        bench.places.count_refusals()
        bench.refuse(FIRST, errors=5, graphs=2)
        bench.places.count_refusals()

        assert bench.refused.sums() == {("errors", "uid 1000"): 5, ("graphs", "uid 1000"): 2}

    def test_refusals_before_the_owner_is_known_are_unnamed(self) -> None:
        """Places below the first are chosen by the kernel."""
        bench = Bench()
        bench.refuse(17, processes=4)
        bench.places.count_refusals()

        assert bench.refused.sums() == {("processes", "unnamed"): 4}

    def test_owner_of_control_groups_without_traced_processes_is_the_user_who_made_them(self) -> None:
        """There is no process to ask."""
        bench = Bench()
        bench.refuse(17, user=1001, disks=4, errors=1)
        bench.places.count_refusals()

        assert bench.refused.sums() == {("disks", "uid 1001"): 4, ("errors", "unnamed"): 1}
