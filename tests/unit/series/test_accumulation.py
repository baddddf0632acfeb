"""accumulation: sums, differences and the TTL of totals."""

from __future__ import annotations

from exporter import catalog
from exporter.series.accumulation import LastSeen, add, end_surplus_culprits, growth
from exporter.totals import Counts, HistogramTotal, Series, Total

CALLS = Series(catalog.cuda.OPERATIONS, ("runtime", "cudaMalloc"))
DURATION = Series(catalog.cuda.OPERATION_DURATION, ("runtime", "cudaMalloc"))
ACTIVE = Series(catalog.chains.ACTIVE, ("cpu_contention",))


def histogram(*counts: int) -> HistogramTotal:
    """Counts from slot 8 on; 10 ns a call."""
    return HistogramTotal(Counts.of(counts, 8), 10 * sum(counts))


def culprit(cause: str, name: str) -> Series:
    """Lost time by culprit."""
    return Series(catalog.sched.CULPRIT, (cause, name))


class TestAdd:
    def test_first_total_is_the_sum(self) -> None:
        into: dict[Series, Total] = {}
        add(into, CALLS, 3)

        assert into == {CALLS: 3}

    def test_counters_add_up(self) -> None:
        into: dict[Series, Total] = {CALLS: 3}
        add(into, CALLS, 4)

        assert into == {CALLS: 7}

    def test_histograms_add_up_slot_by_slot(self) -> None:
        into: dict[Series, Total] = {DURATION: histogram(1, 2)}
        add(into, DURATION, histogram(0, 3))

        assert into == {DURATION: histogram(1, 5)}

    def test_of_levels_the_highest_counts(self) -> None:
        """Two processes of one rank with an open chain are one rank with an open chain."""
        assert ACTIVE.metric in catalog.chains.LEVELS
        into: dict[Series, Total] = {ACTIVE: 1}
        add(into, ACTIVE, 1)

        assert into == {ACTIVE: 1}


class TestCulprits:
    """At most 64 have a series."""

    def test_smallest_ones_become_other(self) -> None:
        """There are 66 culprits with 1 to 66 ns, by cause; the time without a culprit is none."""
        of_identity: dict[Series, Total] = {culprit("cpu_contention", ""): 1, culprit("block_io", "hog1"): 3}
        of_identity |= {culprit("cpu_contention", f"hog{number}"): number for number in range(1, 67)}
        end_surplus_culprits(of_identity)

        assert len(of_identity) == 64 + 1 + 2
        assert of_identity[culprit("cpu_contention", "")] == 1
        assert of_identity[culprit("cpu_contention", "other")] == 2 + 3
        assert culprit("block_io", "hog1") in of_identity

    def test_sixty_four_stay(self) -> None:
        of_identity: dict[Series, Total] = {culprit("cpu_contention", f"hog{number}"): 1 for number in range(64)}
        before = dict(of_identity)
        end_surplus_culprits(of_identity)

        assert of_identity == before


class TestDifference:
    def test_growth_is_the_difference(self) -> None:
        assert growth(10, 7) == 3
        assert growth(histogram(4, 5), histogram(1, 5)) == histogram(3)

    def test_equal_totals_have_grown_by_nothing(self) -> None:
        assert growth(7, 7) == 0
        assert growth(histogram(7), histogram(7)) == HistogramTotal(Counts(), 0)

    def test_lower_total_has_no_growth(self) -> None:
        """Its source has started over."""
        assert growth(6, 7) is None
        assert growth(histogram(0, 6), histogram(3, 4)) is None


class TestLastSeen:
    def test_key_expires_after_its_ttl(self) -> None:
        """A TTL exactly is not over."""
        seen = LastSeen({"a": 100})

        assert seen.expire(110, ttl_ns=10) == []
        assert seen.expire(111, ttl_ns=10) == ["a"]
        assert "a" not in seen

    def test_key_that_is_seen_again_stays(self) -> None:
        seen = LastSeen({"a": 100, "b": 100})
        seen["a"] = 105

        assert seen.expire(111, ttl_ns=10) == ["b"]
        assert seen == {"a": 105}
