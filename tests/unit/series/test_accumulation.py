"""accumulation: sums, differences and the TTL of totals."""

from __future__ import annotations

from exporter import catalog
from exporter.series.accumulation import LastSeen, add, has_reset, minus
from exporter.totals import Counts, HistogramTotal, Series, Total

CALLS = Series(catalog.cuda.OPERATIONS, ("runtime", "cudaMalloc"))
DURATION = Series(catalog.cuda.OPERATION_DURATION, ("runtime", "cudaMalloc"))
ACTIVE = Series(catalog.chains.ACTIVE, ("cpu_contention",))


def histogram(*counts: int) -> HistogramTotal:
    """Counts from slot 8 on; 10 ns a call."""
    return HistogramTotal(Counts.of(counts, 8), 10 * sum(counts))


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


class TestDifference:
    def test_counter_gained_what_was_added(self) -> None:
        assert minus(10, 7) == 3

    def test_histogram_gained_the_calls_that_were_added(self) -> None:
        assert minus(histogram(4, 5), histogram(1, 5)) == histogram(3)

    def test_equal_totals_are_no_reset(self) -> None:
        assert not has_reset(7, 7)
        assert not has_reset(histogram(7), histogram(7))

    def test_lower_total_is_a_reset(self) -> None:
        assert has_reset(6, 7)
        assert has_reset(histogram(0, 6), histogram(3, 4))


class TestLastSeen:
    def test_key_expires_after_its_ttl(self) -> None:
        seen: LastSeen[str] = LastSeen()
        seen.see("a", 100)

        assert seen.expire(110, ttl_ns=10) == []
        assert seen.expire(111, ttl_ns=10) == ["a"]
        assert "a" not in seen

    def test_key_that_is_seen_again_lives_on(self) -> None:
        seen: LastSeen[str] = LastSeen()
        seen.see("a", 100)
        seen.see("a", 105)

        assert seen.expire(111, ttl_ns=10) == []

    def test_given_key_that_was_never_seen_counts_as_seen_now(self) -> None:
        seen: LastSeen[str] = LastSeen()

        assert seen.expire(100, 10, ["a"]) == []
        assert seen.expire(111, 10, ["a"]) == ["a"]

    def test_only_given_keys_expire(self) -> None:
        seen: LastSeen[str] = LastSeen()
        seen.see("a", 100)
        seen.see("b", 100)

        assert seen.expire(200, 10, ["b"]) == ["b"]
        assert len(seen) == 1

    def test_forgotten_key_is_not_returned(self) -> None:
        seen: LastSeen[str] = LastSeen()
        seen.see("a", 100)
        seen.forget("a")

        assert seen.expire(200, ttl_ns=10) == []
