"""totals: histograms of which only the occupied slots are stored."""

from __future__ import annotations

import pytest

from exporter.totals import Counts, HistogramTotal

ALL_ONES = Counts.of([1] * 338)


class TestStored:
    """From the first occupied slot to the last."""

    @pytest.mark.parametrize(
        ("counts", "begin", "held"),
        [
            ([0] * 338, 0, ()),
            ([], 0, ()),
            ([1] + [0] * 337, 0, (1,)),
            ([0] * 337 + [1], 337, (1,)),
            ([0] * 8 + [2, 0, 0, 3] + [0] * 326, 8, (2, 0, 0, 3)),
            ([1] * 338, 0, (1,) * 338),
        ],
        ids=["empty", "no slots", "first", "last", "some", "all"],
    )
    def test_zeros_on_either_side_are_not_stored(self, counts: list[int], begin: int, held: tuple[int, ...]) -> None:
        """Those in between are."""
        found = Counts.of(counts)

        assert (found.begin, found.held) == (begin, held)

    def test_counts_read_as_all_slots(self) -> None:
        """338, by index, by slice and by iteration."""
        counts = Counts(8, (2, 0, 3))

        assert (len(counts), counts[7], counts[8], counts[10], counts[11], counts[-1]) == (338, 0, 2, 3, 0, 0)
        assert counts[7:12] == (0, 2, 0, 3, 0)
        assert list(counts) == [0] * 8 + [2, 0, 3] + [0] * 327

    def test_total_is_of_all_calls(self) -> None:
        """2, 0 and 3."""
        assert (Counts(8, (2, 0, 3)).total, Counts().total) == (5, 0)

    def test_equal_counts_are_equal(self) -> None:
        """However they were created."""
        assert Counts.of([0, 1], begin=7) == Counts(8, (1,)) != Counts(9, (1,))
        assert len({Counts(8, (1,)), Counts.of([1, 0], begin=8)}) == 1


class TestArithmetic:
    @pytest.mark.parametrize(
        ("one", "other", "both"),
        [
            (Counts(8, (2, 3)), Counts(9, (4, 5)), Counts(8, (2, 7, 5))),
            (Counts(8, (2,)), Counts(11, (5,)), Counts(8, (2, 0, 0, 5))),
            (Counts(0, (1,)), Counts(337, (1,)), Counts(0, (1, *(0,) * 336, 1))),
            (Counts(8, (2,)), Counts(), Counts(8, (2,))),
            (Counts(), Counts(), Counts()),
        ],
        ids=["overlapping", "apart", "both ends", "one empty", "both empty"],
    )
    def test_sum_and_difference_undo_each_other(self, one: Counts, other: Counts, both: Counts) -> None:
        """In any order."""
        assert one.plus(other) == other.plus(one) == both
        assert both.minus(other) == one
        assert both.minus(one) == other

    def test_difference_may_be_below_zero(self) -> None:
        """The source has started over; the caller checks."""
        assert Counts().minus(Counts(8, (2,))) == Counts(8, (-2,))

    def test_histograms_add_counts_and_sums(self) -> None:
        """And subtract them."""
        one, other = HistogramTotal(Counts(8, (2,)), 20), HistogramTotal(Counts(9, (1,)), 15)
        both = HistogramTotal(Counts(8, (2, 1)), 35)

        assert one.plus(other) == both
        assert both.minus(one) == other


class TestCumulative:
    """At classic edges."""

    def test_one_count_in_each_slot_adds_up_exactly(self) -> None:
        """At or below 2^-19 s are slots 0 to 88; the last bucket has all."""
        assert ALL_ONES.cumulative() == [89, 113, 137, 161, 185, 201, 217, 241, 338]

    def test_count_at_an_edge_is_in_that_bucket_and_beyond_it_in_the_next(self) -> None:
        """Slot 240 ends at 1 s; slot 241 starts there."""
        assert Counts(240, (5, 7)).cumulative()[-2:] == [5, 12]

    def test_overflow_counts_only_in_inf(self) -> None:
        """In no finite bucket."""
        assert Counts(337, (3,)).cumulative() == [0] * 8 + [3]

    def test_empty_counts_are_0_in_every_bucket(self) -> None:
        assert Counts().cumulative() == [0] * 9

    def test_other_edges_can_be_given(self) -> None:
        """Any ascending slots."""
        assert ALL_ONES.cumulative((0, 8)) == [1, 9, 338]


class TestQuantiles:
    def test_quantile_is_the_upper_edge_of_its_bucket(self) -> None:
        """Bucket 160 ends at 2**-10 s, bucket 168 at twice that."""
        counts = Counts.of([98, *[0] * 7, 2], 160)

        assert counts.quantile_ns(0.5) == 976_562.5
        assert counts.quantile_ns(0.99) == 1_953_125

    def test_empty_histogram_has_no_quantile(self) -> None:
        assert Counts().quantile_ns(0.5) is None
