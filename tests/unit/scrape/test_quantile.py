"""quantile: of buckets that are written down here. Slot 240 ends at 1 s, 232 at half a second: eight to a doubling."""

from __future__ import annotations

import pytest

from exporter import units
from exporter.scrape.quantile import quantile_seconds


class TestQuantile:
    """How long calls take."""

    def test_no_call_has_none(self) -> None:
        """Not 0, which would be fast."""
        assert quantile_seconds({}, 0.5) is None

    def test_all_calls_in_a_bucket_end_at_its_upper_edge(self) -> None:
        """The slowest of them."""
        assert quantile_seconds({240: 7}, 1.0) == pytest.approx(1.0)

    def test_within_a_bucket_it_is_interpolated_by_logarithm(self) -> None:
        """Half of the calls of a bucket from 2**-0.125 to 1 are below 2**-0.0625."""
        assert quantile_seconds({240: 10}, 0.5) == pytest.approx(2**-0.0625)

    def test_each_quantile_is_in_the_bucket_of_its_call(self) -> None:
        """Of 100 calls 98 take up to half a second, two up to 4 s."""
        counts = {232: 98, 256: 2}

        assert quantile_seconds(counts, 0.5) == pytest.approx(0.5 * 2 ** -(48 / 98 / 8))
        assert quantile_seconds(counts, 0.98) == pytest.approx(0.5)
        assert quantile_seconds(counts, 0.99) == pytest.approx(4 * 2**-0.0625)

    def test_first_bucket_has_no_lower_edge(self) -> None:
        """2**-30 s is the least that is told."""
        assert quantile_seconds({0: 3}, 0.5) == 2**-30

    def test_beyond_the_last_edge_it_is_infinite(self) -> None:
        """Nobody knows how much longer than 4,096 s."""
        assert quantile_seconds({240: 1, units.SLOTS - 1: 9}, 0.5) == float("inf")
