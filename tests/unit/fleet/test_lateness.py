"""How much later ranks are than before, by what they wait."""

from __future__ import annotations

import pytest

from exporter.fleet.jobs import Member
from exporter.fleet.lateness import change_point, comparison_of
from exporter.fleet.rank_report import RankReport
from tests.support.rank_reports import a_rank, slices

BEFORE = [(0.5, 0.1)] * 10


def members(*ranks: RankReport) -> list[Member]:
    return [Member(f"node{number}", one) for number, one in enumerate(ranks)]


class TestChange:
    def test_longer_steps_begin_where_they_become_longer(self) -> None:
        assert change_point([0.5] * 6 + [0.9] * 4) == 6

    def test_scatter_is_no_change(self) -> None:
        assert change_point([0.5, 0.56, 0.49, 0.55, 0.5, 0.57, 0.51, 0.56]) == 0

    def test_shorter_steps_are_no_change(self) -> None:
        assert change_point([0.9] * 6 + [0.5] * 4) == 0

    def test_few_percent_are_no_change(self) -> None:
        assert change_point([0.5] * 6 + [0.53] * 4) == 0

    @pytest.mark.parametrize("steps", [[0.5], [0.5, 0.9]])
    def test_little_is_known_of_few(self, steps: list[float]) -> None:
        assert change_point(steps) == 0


class TestComparison:
    def test_rank_that_waits_no_longer_is_late(self) -> None:
        """Steps take 0.9 s instead of 0.5 s: rank 0 waits 0.1 s as before, rank 1 waits for 0.4 s more."""
        found = comparison_of(
            members(
                a_rank(0, slices=slices(BEFORE + [(0.9, 0.1)] * 5)), a_rank(1, slices=slices(BEFORE + [(0.9, 0.5)] * 5))
            ),
            300.0,
        )

        assert found is not None
        assert (found.before_seconds, found.step_seconds) == (pytest.approx(0.5), pytest.approx(0.9))
        assert [one.seconds for one in found.ranks] == [pytest.approx(0.4), pytest.approx(0.0, abs=1e-9)]
        assert 60 <= found.since_seconds <= 90

    def test_ranks_that_always_waited_differently_are_compared_with_themselves(self) -> None:
        """Rank 0 waits least, as it did before; rank 1 is the late one."""
        first = slices([(0.5, 0.0)] * 10 + [(0.9, 0.4)] * 5)
        second = slices([(0.5, 0.3)] * 10 + [(0.9, 0.3)] * 5)
        found = comparison_of(members(a_rank(0, slices=first), a_rank(1, slices=second)), 300.0)

        assert found is not None
        assert [one.seconds for one in found.ranks] == [pytest.approx(0.0, abs=1e-9), pytest.approx(0.4)]

    def test_without_a_change_ranks_are_compared_with_each_other(self) -> None:
        """Three wait for 0.4 s of a step, the first for 0.1 s."""
        ranks = [a_rank(rank, slices=slices([(0.5, 0.4 if rank else 0.1)] * 10)) for rank in range(4)]
        found = comparison_of(members(*ranks), 300.0)

        assert found is not None
        assert (found.slower_seconds, found.before_seconds) == (0.0, 0.0)
        assert [round(one.seconds, 6) for one in found.ranks] == [0.3, 0.0, 0.0, 0.0]

    def test_lost_time_is_compared_as_well(self) -> None:
        """A fifth of a second of each step is lost since the change."""
        rank = a_rank(0, slices=slices(BEFORE + [(0.9, 0.1)] * 5, {"lock": 0.2}))
        found = comparison_of(members(rank), 300.0)

        assert found is not None
        assert found.ranks[0].grown() == {"lock": pytest.approx(0.2)}

    def test_rank_that_is_new_is_not_late(self) -> None:
        """Nothing is known of it from before."""
        ranks = [a_rank(rank, slices=slices(BEFORE + [(0.9, 0.5)] * 5)) for rank in range(2)]
        found = comparison_of(members(*ranks, a_rank(2, slices=slices([(0.9, 0.0)] * 4))), 300.0)

        assert found is not None
        assert found.ranks[2].seconds == 0.0

    def test_without_steps_nothing_is_compared(self) -> None:
        assert comparison_of(members(a_rank(0, slices=())), 300.0) is None
