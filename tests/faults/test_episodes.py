"""Episodes whose truth follows from arithmetic: what each fault costs, by a run without it and one with it.

Other work on the machine only makes steps longer, so what a step takes is the lower quartile of many, and the jobs run at a high
priority. A fault that meets a single step must be longer than what other work costs any step.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial
from statistics import quantiles

import pytest

from tests.faults import scenes
from tests.faults.episode import Episode
from tests.faults.injectors import NotPossible, cgroups, network
from tests.faults.job import Result, Window
from tests.faults.registry import EPISODES
from tests.faults.truth import Truth, make, measure, met
from tests.support.priority import high_priority
from tests.support.standin_gpu import MS, built

pytestmark = pytest.mark.end_to_end
WINDOW = Window(20, 40)


def shortened(name: str) -> Episode:
    """The episode with 20 faulty steps of 60."""
    return replace(EPISODES[name], steps=60, window=WINDOW, hang_seconds=4)


def truth_of(name: str) -> Truth:
    """Skips what is not possible here."""
    built()
    try:
        truth = measure(shortened(name))
    except NotPossible as reason:
        pytest.skip(str(reason))
    assert cgroups.left_behind() == network.left_behind() == []
    return truth


@dataclass(frozen=True)
class Costs:
    """What steps take, in ms. usual_ms: without the fault, by rank. faulty: the run with it."""

    usual_ms: dict[int, float]
    faulty: Result

    def of_each_step_ms(self, rank: int) -> float:
        """What the fault costs each step of its window."""
        return lower_quartile_ms(self._faulty_ns(rank)) - self.usual_ms[rank]

    def of_slowest_steps_ms(self) -> list[float]:
        """What it costs the steps of rank 0, the slowest first."""
        return sorted((ns / MS - self.usual_ms[0] for ns in self._faulty_ns(0)), reverse=True)

    def _faulty_ns(self, rank: int) -> list[int]:
        window = met(self.faulty, WINDOW)
        return [ns for number, ns in self.faulty.walls_ns(rank).items() if number in window]


def costs_of(episode: Episode) -> Costs:
    """By two runs of 120 steps: the injector may learn late that step 20 has come. Skips what is not possible here."""
    built()
    longer = replace(episode, steps=120)
    try:
        with high_priority():
            clean, faulty = make(longer, is_faulty=False), make(longer, is_faulty=True)
    except NotPossible as reason:
        pytest.skip(str(reason))
    usual_ms = {rank: lower_quartile_ms(clean.walls_ns(rank).values()) for rank in range(episode.ranks)}
    return Costs(usual_ms, faulty)


def lower_quartile_ms(walls_ns: Iterable[int]) -> float:
    return quantiles(walls_ns, n=4)[0] / MS


class TestFaults:
    """What a fault of known length costs."""

    @pytest.mark.parametrize("name", ["loader-sleeps", "lock-holder-sleeps", "slow-rank", "slow-peer"])
    def test_20_ms_in_each_step_are_20_ms_lost(self, name: str) -> None:
        """For all ranks alike. 10 at least, since work of up to 5 ms goes on; 40 at most, on a machine with other work."""
        episode = shortened(name)
        costs = costs_of(episode)

        assert [rank for rank in range(episode.ranks) if not 10 <= costs.of_each_step_ms(rank) <= 40] == []

    def test_tool_call_of_two_seconds_is_two_seconds_lost(self) -> None:
        """In one step, which takes 10 ms otherwise."""
        assert 1900 < costs_of(shortened("tool-call")).of_slowest_steps_ms()[0] < 3000

    def test_half_a_second_stopped_is_half_a_second_lost(self) -> None:
        """In one step, of which 14 ms would have passed anyway."""
        assert 450 < costs_of(shortened("stopped")).of_slowest_steps_ms()[0] < 1200

    def test_steps_under_a_small_quota_wait_for_the_next_period(self) -> None:
        """20 % of a CPU are used up after 20 ms, and the next 100 ms begin 80 ms later, or 40 with a third of a CPU."""
        episode = replace(shortened("own-quota"), scene=partial(scenes.own_quota, percent=20))
        _first, second, *_ = costs_of(episode).of_slowest_steps_ms()

        assert second > 25

    def test_pages_that_are_gone_are_major_faults(self) -> None:
        """Far more than one in each step of the window."""
        truth = truth_of("major-faults")

        assert truth.faulty.finals[0]["majflt"] > 10 * len(WINDOW)
        assert truth.ranks() == (0,)

    def test_out_of_memory_is_the_end(self) -> None:
        """Step 20 of 60 is never made; the steps before it are."""
        truth = truth_of("out-of-memory")

        assert truth.missing == {0: 41}
        assert truth.faulty.code == 1
        assert "CUDA out of memory" in truth.faulty.said

    def test_a_hang_is_the_end_for_all_ranks(self) -> None:
        """No rank makes step 20 of 60."""
        truth = truth_of("hung-rank")

        assert truth.missing == {0: 41, 1: 41}
        assert truth.faulty.code is None


class TestDecoys:
    """What a fault of no consequence costs: about nothing."""

    @pytest.mark.parametrize("name", ["quiet", "many-switches"])
    def test_the_job_loses_hardly_anything(self, name: str) -> None:
        """Less than a third of what a step takes."""
        costs = costs_of(shortened(name))

        assert costs.of_each_step_ms(0) < costs.usual_ms[0] / 3

    def test_an_allocation_that_is_retried_loses_no_step(self) -> None:
        """All are made, and one call failed."""
        truth = truth_of("out-of-memory-survived")

        assert truth.missing == {0: 0}
        assert truth.faulty.finals[0]["calls"]["runtime"]["cudaMalloc"]["errors"] == 1
