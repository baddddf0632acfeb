"""culprit_names: names as label values, by recent time, and bounded."""

from __future__ import annotations

import pytest

from exporter.accounting.culprit_names import CulpritNames

SECOND = 1_000_000_000
MUCH_NS = 10_000_000


class Bench:
    """The names of rank 0; a second goes by with every update."""

    def __init__(self) -> None:
        self.names = CulpritNames()
        self.now_ns = 0

    def update(self, charged: dict[str, int], *, after: float = 1.0, owner: str = "rank 0") -> dict[str, str]:
        """Labels of the names that are charged."""
        self.now_ns += int(after * SECOND)
        return self.names.labels(owner, charged, self.now_ns)

    def label(self, name: str, charged_ns: int, *, after: float = 1.0, owner: str = "rank 0") -> str:
        """Label of the only name that is charged."""
        return self.update({name: charged_ns}, after=after, owner=owner)[name]


@pytest.fixture
def bench() -> Bench:
    """Nothing was charged yet."""
    return Bench()


@pytest.fixture
def full(bench: Bench) -> Bench:
    """Sixteen programs have held CPUs for 100 ms each."""
    bench.update({f"hog{number}": 100_000_000 for number in range(16)})
    return bench


class TestAdmission:
    """A name that has no series yet."""

    def test_name_that_did_little_is_other(self, bench: Bench) -> None:
        """Below 10 ms in one update; once it does more it has a series."""
        found = [bench.label("kworker", charged_ns) for charged_ns in (9_999_999, 10_000_000, 1)]

        assert found == ["other", "kworker", "kworker"]

    @pytest.mark.parametrize("name", ["outside", "hypervisor", "gpu-stall-exporter", "other"])
    def test_reserved_names_need_no_room(self, full: Bench, name: str) -> None:
        """Nor 10 ms."""
        assert full.label(name, 1) == name

    def test_owners_do_not_share_their_room(self, full: Bench) -> None:
        """Sixteen each."""
        assert full.label("late", MUCH_NS, owner="rank 1") == "late"

    def test_owner_that_has_not_asked_for_longest_is_forgotten(self, full: Bench) -> None:
        """1,000 are remembered."""
        for number in range(1, 1_001):
            full.label("stress", MUCH_NS, owner=f"rank {number}", after=0)

        assert full.label("late", MUCH_NS, after=0) == "late"


class TestRecentTime:
    """The sixteen with the largest sums, which halve every 10 s."""

    def test_seventeenth_that_did_less_than_all_others_is_other(self, full: Bench) -> None:
        """90 ms against 100 ms."""
        assert full.label("late", 90_000_000, after=0) == "other"

    def test_name_that_matters_now_takes_the_place_of_one_that_mattered(self, full: Bench) -> None:
        """After 10 s each of the others counts 50 ms."""
        assert full.label("dd", 400_000_000, after=10) == "dd"

    def test_name_that_lost_its_place_has_it_again_as_soon_as_it_matters(self, full: Bench) -> None:
        """Each of the others did 2 ns more than hog9."""
        full.label("dd", 400_000_000, after=10)
        lost = full.update({f"hog{number}": 1 if number == 9 else 3 for number in range(16)}, after=0)["hog9"]

        assert (lost, full.label("hog9", 60_000_000, after=0)) == ("other", "hog9")


class TestAttack:
    """Two hundred new names a minute, each 30 ms."""

    def test_real_culprit_is_named_at_once(self, bench: Bench) -> None:
        """Though all sixteen places are taken, and no new name is due."""
        for second in range(300):
            bench.update({f"spam{second}-{number}": 30_000_000 for number in range(3)})

        assert bench.label("stress-ng", 400_000_000) == "stress-ng"

    def test_few_new_names_have_a_series(self, bench: Bench) -> None:
        """Sixteen at once, then one a minute: in ten minutes at most 26."""
        series = set()
        for second in range(600):
            series |= set(bench.update({f"spam{second}-{number}": 30_000_000 for number in range(3)}).values())

        assert 16 <= len(series - {"other"}) <= 26


class TestEndOfSeries:
    """At most 64 names of one owner have one."""

    def test_smallest_total_ends(self, bench: Bench) -> None:
        """Every ten minutes another program holds CPUs alone; the third one did least, all others do ever more."""
        for number in range(64):
            bench.label(f"job{number}", 20_000_000 if number == 2 else (100 + number) * 1_000_000, after=600)
        before = bench.names.take_ended()
        bench.label("job64", 500_000_000, after=600)

        assert (before, bench.names.take_ended()) == ([], [("rank 0", "job2")])
        assert bench.names.take_ended() == []
