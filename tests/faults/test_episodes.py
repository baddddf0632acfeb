"""Episodes whose truth follows from arithmetic. Bounds are wide, and a machine that was disturbed gets another try."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.faults.episode import Episode
from tests.faults.injectors import NotPossible, cgroups, network
from tests.faults.job import Window
from tests.faults.registry import EPISODES
from tests.faults.truth import Truth, measure
from tests.support.standin_gpu import MS, built

pytestmark = pytest.mark.end_to_end
TRIES = 3
WINDOW = Window(20, 40)


def shortened(name: str) -> Episode:
    """The episode with 20 faulty steps of 60."""
    return replace(EPISODES[name], steps=60, window=WINDOW, hang_seconds=4)


def truth_of(name: str, is_right: Callable[[Truth], bool] = lambda truth: True) -> Truth:
    """The first right truth of three tries, or the last one; skips what is not possible here."""
    built()
    try:
        for _ in range(TRIES):
            truth = measure(shortened(name))
            if is_right(truth):
                break
    except NotPossible as reason:
        pytest.skip(str(reason))
    assert cgroups.left_behind() == network.left_behind() == []
    return truth


def lies_between(low_ms: int, high_ms: int) -> Callable[[Truth], bool]:
    """Whether every rank lost something in between."""
    return lambda truth: all(low_ms * MS < truth.lost_ns(rank) < high_ms * MS for rank in truth.ranks())


class TestFaults:
    """What a fault of known length costs."""

    @pytest.mark.parametrize("name", ["loader-sleeps", "lock-holder-sleeps", "slow-rank", "slow-peer"])
    def test_20_ms_in_each_of_20_steps_are_400_ms(self, name: str) -> None:
        """For all ranks alike. Batches made ahead hide some of it, and a busy machine adds to it: 250 to 1,200 ms."""
        is_right = lies_between(250, 1200)

        assert is_right(truth_of(name, is_right))

    def test_tool_call_of_two_seconds_is_two_seconds_lost(self) -> None:
        """Between 1,700 ms and 3,000: in one step."""
        is_right = lies_between(1700, 3000)

        assert is_right(truth_of("tool-call", is_right))

    def test_half_a_second_stopped_is_half_a_second_lost(self) -> None:
        """Between 350 ms and 1,200."""
        is_right = lies_between(350, 1200)

        assert is_right(truth_of("stopped", is_right))

    def test_a_small_quota_costs_half_of_what_the_steps_take(self) -> None:
        """Host-bound steps need a CPU for most of their time, and get 40 % of one."""

        def is_right(truth: Truth) -> bool:
            return truth.lost_ns() > truth.clean_ns() // 2

        assert is_right(truth_of("own-quota", is_right))

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
        """Nobody makes step 20 of 60."""
        truth = truth_of("hung-rank")

        assert truth.missing == {0: 41, 1: 41}
        assert truth.faulty.code is None


class TestDecoys:
    """What a fault of no consequence costs: about nothing."""

    @pytest.mark.parametrize("name", ["quiet", "many-switches"])
    def test_the_job_loses_hardly_anything(self, name: str) -> None:
        """Less than a third of what the steps take: where something is lost, it is more than they take."""

        def is_right(truth: Truth) -> bool:
            return truth.lost_ns() < truth.clean_ns() // 3

        assert is_right(truth_of(name, is_right))

    def test_an_allocation_that_is_retried_loses_no_step(self) -> None:
        """All are made, and one call failed."""
        truth = truth_of("out-of-memory-survived")

        assert truth.missing == {0: 0}
        assert truth.faulty.finals[0]["calls"]["runtime"]["cudaMalloc"]["errors"] == 1
