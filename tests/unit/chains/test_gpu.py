"""gpu: whether the GPU itself is slower, from samples of it and of its other users."""

from __future__ import annotations

import pytest

from exporter.causes import Cause
from exporter.chains.gpu import UNSEEN, DeviceSide, Neighbour


class TestNeighbour:
    @pytest.mark.parametrize(
        ("kernels", "before", "has_come"),
        [(9.0, 0.0, False), (10.0, 0.0, True), (299.0, 100.0, False), (300.0, 100.0, True)],
    )
    def test_it_has_come_when_it_launches_three_times_as_many(
        self, kernels: float, before: float, *, has_come: bool
    ) -> None:
        """And ten a second at the least."""
        assert Neighbour("x", kernels, before).has_come is has_come


class TestCause:
    @pytest.mark.parametrize(("share", "before", "cause"), [(0.3, 0.0, Cause.GPU_THROTTLED), (0.6, 0.4, None)])
    def test_throttling_counts_when_it_takes_a_third_more_of_the_time(
        self, share: float, before: float, cause: Cause | None
    ) -> None:
        """0.3, exactly."""
        assert DeviceSide(share, before, "power").cause is cause

    def test_throttling_comes_before_a_neighbour(self) -> None:
        """It is measured on this GPU."""
        assert DeviceSide(0.9, 0.0, "power", (Neighbour("x", 900.0, 0.0),)).cause is Cause.GPU_THROTTLED

    def test_neighbour_that_was_there_before_is_none(self) -> None:
        assert DeviceSide(neighbours=(Neighbour("x", 900.0, 880.0),)).cause is None

    def test_unknown_gpu_has_none(self) -> None:
        assert (UNSEEN.cause, UNSEEN.detail, UNSEEN.culprits) == (None, "", ())


class TestDetail:
    def test_it_says_by_what_and_how_much(self) -> None:
        side = DeviceSide(0.9, 0.12, "power")

        assert side.detail == "the GPU's clocks were held down by power for 90 % of the time, 12 % before"

    def test_neighbour_has_none(self) -> None:
        """It is a culprit."""
        assert DeviceSide(0.1, 0.1, "power", (Neighbour("x", 900.0, 0.0),)).detail == ""


class TestCulprits:
    def test_new_neighbours_have_their_shares_of_the_kernels(self) -> None:
        """The largest first; one that was there before is left out."""
        neighbours = (Neighbour("a", 100.0, 0.0), Neighbour("old", 500.0, 480.0), Neighbour("b", 300.0, 0.0))

        assert DeviceSide(neighbours=neighbours).culprits == (("b", 0.75), ("a", 0.25))
