"""bursts: batches that a job makes at once, and then waits for, are one step."""

from __future__ import annotations

import pytest

from exporter.accounting.bursts import KNOWN_MAX, Bursts

MS = 1_000_000
BURST = [490, 2, 2, 2, 2, 2]
"""Milliseconds: the wait for the step before, and six batches in a burst."""


def size_after(lengths_ms: list[int]) -> int:
    bursts = Bursts()
    bursts.add(length_ms * MS for length_ms in lengths_ms)
    return bursts.size


class TestSize:
    @pytest.mark.parametrize(
        ("lengths_ms", "size"),
        [
            ([40] * 3, 1),
            ([2] * 5, 0),
            ([2] * 5 + BURST * 2, 0),
            ([2] * 5 + BURST * 4, 6),
            ([40] * 10 + [400] + [40] * 10, 1),
        ],
    )
    def test_size_is_the_distance_of_those_that_take_most_of_the_time(self, lengths_ms: list[int], size: int) -> None:
        """0 until it is known: after a tenth of a second without a long one, or three times the same distance."""
        assert size_after(lengths_ms) == size

    def test_long_ones_at_random_are_no_bursts(self) -> None:
        """Loads of data that are late now and then."""
        late = ([300] + [10] * 4 + [300] + [10] * 9) * 20

        assert size_after(late[: KNOWN_MAX - 1]) == 0
        assert size_after(late[:KNOWN_MAX]) == 1

    def test_size_stays_as_it_is(self) -> None:
        """Pauses that begin later, one in every 20 batches, are no bursts."""
        bursts = Bursts()
        bursts.add([40 * MS] * 10)
        bursts.add(([900 * MS] + [40 * MS] * 19) * 10)

        assert bursts.size == 1


class TestSplit:
    """Batches that went unseen together."""

    def test_they_are_as_long_as_each_other(self) -> None:
        bursts = Bursts()
        bursts.add([2 * MS] * 3)

        assert bursts.split(4, 9 * MS) == [9 * MS // 4] * 4

    def test_a_wait_comes_before_a_burst(self) -> None:
        bursts = Bursts()
        bursts.add([490 * MS, 2 * MS, 2 * MS])

        assert bursts.split(3, 494 * MS) == [490 * MS, 2 * MS, 2 * MS]
