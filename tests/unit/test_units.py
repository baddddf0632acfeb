"""units: slot edges, and the classic buckets that are a subset of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter import units
from exporter.kernel import abi


class TestSlots:
    """Which slot a duration falls into."""

    def test_number_of_slots_is_that_of_the_kernel(self) -> None:
        """units and abi each define it, so that units needs nothing of the kernel."""
        assert units.SLOTS == abi.HIST_SLOTS == 338

    @pytest.mark.parametrize(
        ("duration_ns", "slot"),
        [
            (0, 0),  # 0 units
            (1, 0),  # 1.07 units, cut to 1: the upper edge of slot 0
            (2, 8),  # 2.15 -> 2 units: the upper edge of slot 8
            (3, 13),  # 3.22 -> 3 units; 2^(12/8) = 2.83 < 3 <= 2^(13/8) = 3.08
            (4, 16),  # 4.29 -> 4 units, a power of 2
            (1_000, 81),  # 1,073 units; 2^10 = 1,024 < 1,073 <= 2^(81/8) = 1,116.7
            (1_000_000, 161),  # 1.0737e6 units; 2^20 = 1.0486e6 < 1.0737e6 <= 2^(161/8) = 1.1435e6
            (999_999_900, 240),  # just below 1 s, 2^30 units: the upper edge of slot 240
        ],
    )
    def test_duration_falls_into_its_slot(self, duration_ns: int, slot: int) -> None:
        """Slot k holds (2^((k-1)/8), 2^(k/8)] units of 2^-30 s."""
        assert units.slot_of(duration_ns) == slot

    @pytest.mark.parametrize(("exponent", "slot"), [(-19, 88), (-9, 168), (-3, 216), (0, 240)])
    def test_edge_of_a_slot_is_exact(self, exponent: int, slot: int) -> None:
        """2^e s ends slot 8 * (30 + e), up to the 8e-8 of the conversion and the ns that is cut."""
        edge_ns = 10**9 * 2.0**exponent
        below_ns, beyond_ns = int(edge_ns * (1 - 1e-7)), int(edge_ns * (1 + 1e-7)) + 2

        assert (units.slot_of(below_ns), units.slot_of(beyond_ns)) == (slot, slot + 1)

    def test_longer_than_top_edge_counts_only_in_the_overflow_slot(self) -> None:
        """The top edge is 2^42 units, 4,096 s."""
        assert units.slot_of(4_095 * 10**9) == 336
        assert units.slot_of(4_097 * 10**9) == 337

    def test_absurdly_long_duration_is_overflow(self) -> None:
        """A u64 of ns, clamped before it is multiplied."""
        assert units.slot_of(2**64 - 1) == 337

    def test_slots_ascend_with_durations(self) -> None:
        slots = [units.slot_of(duration_ns) for duration_ns in range(5_000)]

        assert slots == sorted(slots)


class TestUpperEdges:
    """The number written as `le`."""

    @pytest.mark.parametrize(
        ("slot", "edge_seconds"), [(0, 2.0**-30), (8, 2.0**-29), (240, 1.0), (244, 2.0**0.5), (336, 4096.0)]
    )
    def test_upper_edge_is_in_seconds(self, slot: int, edge_seconds: float) -> None:
        """2^(k/8) units of 2^-30 s."""
        assert units.upper_edge_seconds(slot) == edge_seconds

    def test_overflow_has_no_edge(self) -> None:
        """It counts in le="+Inf" only."""
        assert units.upper_edge_seconds(337) == float("inf")


class TestClassicBuckets:
    """Eight cumulative buckets out of 338 slots."""

    def test_classic_slots_have_the_classic_edges(self) -> None:
        """Each `le` is the upper edge of a slot, so that nothing is interpolated."""
        edges = [units.upper_edge_seconds(slot) for slot in units.CLASSIC_SLOTS]

        assert edges == list(units.CLASSIC_EDGES_SECONDS)

    def test_edges_are_powers_of_two_from_2_microseconds_to_1_second(self) -> None:
        """Those in the documentation."""
        expected = (2**-19, 2**-16, 2**-13, 2**-10, 2**-7, 2**-5, 2**-3, 1)

        assert expected == units.CLASSIC_EDGES_SECONDS


class TestBucketOfADuration:
    """The bucket of an exemplar."""

    @pytest.mark.parametrize(
        ("duration_seconds", "bucket"),
        [
            (0.0, 0),
            (1e-9, 0),
            (2.0**-19, 0),  # an edge belongs to the bucket that it ends
            (2.0**-19 * 1.0001, 1),
            (0.001, 4),  # 2^-10 = 0.000977 < 0.001 <= 2^-7 = 0.00781
            (0.8, 7),  # 2^-3 = 0.125 < 0.8 <= 1
            (1.0, 7),
            (1.2, 8),
            (9_223_372_036.0, 8),
        ],
    )
    def test_bucket_is_the_first_whose_edge_is_not_below(self, duration_seconds: float, bucket: int) -> None:
        """The ninth is that of +Inf."""
        assert units.classic_bucket(duration_seconds) == bucket


class TestSeconds:
    def test_nanoseconds_become_seconds(self) -> None:
        """1.5 s."""
        assert units.seconds(1_500_000_000) == 1.5

    @given(st.integers(0, 2**70), st.integers(0, 2**70))
    def test_sum_that_grows_never_goes_back_in_seconds(self, one: int, other: int) -> None:
        """A sum over 100 threads exceeds 2^53 ns after a day, and what a float holds exactly."""
        first, second = sorted((one, other))

        assert units.seconds(first) <= units.seconds(second)

    def test_length_is_exact_to_the_float_for_400_days(self) -> None:
        assert units.seconds(34_560_000_000_000_001) == 34_560_000.000000001
