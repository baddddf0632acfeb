"""scrape.quantile: quantiles of given buckets. Slot 240 ends at 1 s, 232 at half a second: eight per doubling."""

from __future__ import annotations

import pytest

from exporter import units
from exporter.scrape.quantile import quantile_seconds


class TestQuantile:
    """Quantiles of durations."""

    def test_no_calls_have_no_quantile(self) -> None:
        """0 would mean a fast call."""
        assert quantile_seconds({}, 0.5) is None

    def test_all_calls_in_a_bucket_end_at_its_upper_edge(self) -> None:
        """The maximum."""
        assert quantile_seconds({240: 7}, 1.0) == pytest.approx(1.0)

    def test_within_a_bucket_it_is_interpolated_by_logarithm(self) -> None:
        """Half of the calls of a bucket from 2**-0.125 to 1 are below 2**-0.0625."""
        assert quantile_seconds({240: 10}, 0.5) == pytest.approx(2**-0.0625)

    def test_each_quantile_is_in_the_bucket_of_its_call(self) -> None:
        """98 of 100 calls take up to half a second, two up to 4 s."""
        counts = {232: 98, 256: 2}

        assert quantile_seconds(counts, 0.5) == pytest.approx(0.5 * 2 ** -(48 / 98 / 8))
        assert quantile_seconds(counts, 0.98) == pytest.approx(0.5)
        assert quantile_seconds(counts, 0.99) == pytest.approx(4 * 2**-0.0625)

    def test_first_bucket_has_no_lower_edge(self) -> None:
        """2**-30 s is the shortest duration."""
        assert quantile_seconds({0: 3}, 0.5) == 2**-30

    def test_beyond_the_last_edge_it_is_infinite(self) -> None:
        """Longer than 4,096 s, by an unknown time."""
        assert quantile_seconds({240: 1, units.SLOTS - 1: 9}, 0.5) == float("inf")
