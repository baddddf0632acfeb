"""The arithmetic of the truth, on runs written by hand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tests.faults.job import Result, Step, Window
from tests.faults.truth import baselines, met, pair


def result(walls_ns: Mapping[int, int], rank: int = 0) -> Result:
    """A run of one rank with steps of these lengths."""
    steps, start_ns = [], 0
    for number, wall_ns in walls_ns.items():
        steps.append(Step(rank, number, start_ns, start_ns + wall_ns, 0, 0, 0, 0))
        start_ns += wall_ns
    return Result(tuple(steps), (), 0, "")


class TestBaselines:
    """What a step takes without the fault."""

    def test_the_nearest_steps_outvote_an_outlier(self) -> None:
        """Step 6 took 900 once; its neighbours took 10."""
        assert baselines([{number: 900 if number == 6 else 10 for number in range(1, 20)}])[6] == 10

    def test_steps_of_different_kinds_are_not_mixed(self) -> None:
        """Every fourth step waits for the GPU: 40, the others 1."""
        walls = {number: 40 if number % 4 == 0 else 1 for number in range(1, 60)}

        found = baselines([walls], period=4)

        assert found == walls

    def test_all_clean_runs_have_a_say(self) -> None:
        """One step in three runs: the one in the middle."""
        assert baselines([{1: 10}, {1: 30}, {1: 20}]) == {1: 20}


class TestPair:
    """Two runs side by side."""

    CLEAN = result(dict.fromkeys(range(1, 41), 10))
    WINDOW = Window(21, 31)

    def test_what_the_window_lost_is_summed(self) -> None:
        """Ten steps of 30 instead of 10."""
        faulty = result({number: 30 if number in self.WINDOW else 10 for number in range(1, 41)})
        truth = pair([self.CLEAN], faulty, self.WINDOW, [0])

        assert (truth.lost_ns(), truth.typical_ns(), truth.clean_ns()) == (200, 20, 150)
        assert truth.noise_ns() == 0

    def test_what_is_paid_behind_the_window_counts(self) -> None:
        """Step 31 is behind the window, and 7 late; step 36 is too far behind."""
        faulty = result({number: {31: 17, 36: 99}.get(number, 10) for number in range(1, 41)})

        assert pair([self.CLEAN], faulty, self.WINDOW, [0]).lost_ns() == 7

    def test_a_faster_step_is_a_negative_loss(self) -> None:
        """What one step won, another one lost."""
        faulty = result({number: {25: 4, 26: 16}.get(number, 10) for number in range(1, 41)})

        assert pair([self.CLEAN], faulty, self.WINDOW, [0]).lost_ns() == 0

    def test_one_slow_step_does_not_move_the_typical_loss(self) -> None:
        """1,000 in one of ten."""
        faulty = result({number: 1000 if number == 25 else 10 for number in range(1, 41)})
        truth = pair([self.CLEAN], faulty, self.WINDOW, [0])

        assert (truth.typical_ns(), truth.lost_ns()) == (0, 990)

    def test_noise_is_summed_over_as_many_steps_as_the_window_has(self) -> None:
        """15 steps before the window, the settling ones left out, each 3 late: 30 for ten steps."""
        faulty = result({number: 13 if 5 < number < 21 else 10 for number in range(1, 41)})
        truth = pair([self.CLEAN], faulty, self.WINDOW, [0])

        assert (truth.noise_ns(), truth.lost_ns()) == (30, 0)

    def test_steps_never_made_are_counted(self) -> None:
        """The faulty run ends after 25 of 40."""
        truth = pair([self.CLEAN], result(dict.fromkeys(range(1, 26), 10)), self.WINDOW, [0])

        assert truth.missing == {0: 15}
        assert truth.lost_ns() == 0

    def test_the_window_is_where_the_injector_was(self) -> None:
        """At work from 255 to 310 ns: steps 26 to 31 of 10 ns each, late for the window that was planned."""
        faulty = replace(self.CLEAN, injections_ns=((255, 310),))

        assert met(faulty, self.WINDOW) == Window(26, 32)
        assert pair([self.CLEAN], faulty, self.WINDOW, [0]).window == Window(26, 32)

    def test_without_an_injector_the_window_is_the_planned_one(self) -> None:
        """The trainer's own fault knows its steps."""
        assert met(self.CLEAN, self.WINDOW) == self.WINDOW

    def test_an_injector_after_the_last_step_met_nothing(self) -> None:
        """The planned window stays: it will show no loss."""
        assert met(replace(self.CLEAN, injections_ns=((500, 600),)), self.WINDOW) == self.WINDOW

    def test_ranks_are_paired_with_themselves(self) -> None:
        """Rank 1 is slower in both runs."""
        clean = Result(self.CLEAN.steps + result(dict.fromkeys(range(1, 41), 50), rank=1).steps, (), 0, "")
        truth = pair([clean], clean, self.WINDOW, [0, 1])

        assert [truth.lost_ns(rank) for rank in truth.ranks()] == [0, 0]
        assert truth.of(1)[0].base_ns == 50
