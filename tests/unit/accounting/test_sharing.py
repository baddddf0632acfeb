"""sharing: amounts divided without a rest, weights that are remembered, growth of sums."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from exporter.accounting.sharing import Growth, Weights, shared

SECOND = 1_000_000_000


class TestShared:
    """Largest remainder."""

    def test_parts_are_in_proportion(self) -> None:
        """A third and two thirds."""
        assert shared(300, {"a": 5, "b": 10}) == {"a": 100, "b": 200}

    def test_largest_remainder_gets_what_is_left(self) -> None:
        """10 in shares of 3, 3, 1: 4.29, 4.29, 1.43."""
        assert shared(10, {"a": 3, "b": 3, "c": 1}) == {"a": 4, "b": 4, "c": 2}

    def test_of_equal_remainders_the_first_gets_it(self) -> None:
        """Halves of 1."""
        assert shared(1, {"a": 1, "b": 1}) == {"a": 1, "b": 0}

    @given(st.integers(0, 2**63), st.dictionaries(st.text(max_size=3), st.integers(0, 2**63), min_size=1))
    def test_parts_add_up(self, amount: int, weights: dict[str, int]) -> None:
        """To the nanosecond, whatever the weights are; and none is more than one away from its share."""
        whole = sum(weights.values())
        if not whole:
            return
        parts = shared(amount, weights)

        assert sum(parts.values()) == amount
        assert all(abs(parts[key] * whole - amount * weight) <= whole for key, weight in weights.items())


class TestWeights:
    """The latest ones."""

    def test_zeros_do_not_replace_what_is_known(self) -> None:
        """A tick without charges."""
        weights: Weights[str] = Weights()
        weights.update({"a": 3, "b": 0}, 0)
        weights.update({"a": 0}, 1 * SECOND)

        assert weights.current() == {"a": 3}

    def test_new_ones_replace_the_old(self) -> None:
        """They are not added."""
        weights: Weights[str] = Weights()
        weights.update({"a": 3}, 0)
        weights.update({"b": 1}, 1 * SECOND)

        assert weights.current() == {"b": 1}

    def test_they_are_forgotten_after_five_seconds(self) -> None:
        """What was five seconds ago explains nothing."""
        weights: Weights[str] = Weights()
        weights.update({"a": 3}, 0)
        weights.update({}, 5 * SECOND)
        at_five = dict(weights.current())
        weights.update({}, 5 * SECOND + 1)

        assert (at_five, weights.current()) == ({"a": 3}, {})


class TestGrowth:
    """Growth of cumulative sums."""

    def test_first_sums_have_grown_from_nothing(self) -> None:
        """Zeros are left out."""
        growth: Growth[str] = Growth()

        assert growth.since({"a": 3, "b": 0}) == {"a": 3}

    def test_only_sums_that_have_grown_are_returned(self) -> None:
        """By how much."""
        growth: Growth[str] = Growth()
        growth.since({"a": 3, "b": 2})

        assert growth.since({"a": 7, "b": 2, "c": 1}) == {"a": 4, "c": 1}

    def test_sum_that_went_back_has_grown_by_nothing(self) -> None:
        """And counts from there."""
        growth: Growth[str] = Growth()
        growth.since({"a": 3})

        assert growth.since({"a": 1}) == {}
        assert growth.since({"a": 2}) == {"a": 1}

    def test_the_very_sums_of_the_last_time_have_not_grown(self) -> None:
        """They are not compared again."""
        growth, sums = Growth[str](), {"a": 3}
        growth.since(sums)

        assert growth.since(sums) == {}
