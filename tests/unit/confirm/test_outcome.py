"""recovery: what three times of two seconds say. Usually a step takes 10 ms; with the culprit it takes 30."""

from __future__ import annotations

import pytest

from exporter.confirm.outcome import ConfirmOutcome, Steps, judge

USUAL_SECONDS = 0.010
SLOW = Steps(66, 0.030)
FAST = Steps(200, 0.010)
NONE = Steps(0, None)


class TestJudge:
    """Before, meanwhile, afterwards."""

    def test_fast_while_it_is_held_and_slow_again_is_a_proof(self) -> None:
        """With the numbers."""
        proof = judge(SLOW, FAST, SLOW, USUAL_SECONDS)

        assert proof.outcome is ConfirmOutcome.CONFIRMED
        assert proof.told == "steps took 30 ms before, 10 ms meanwhile, 30 ms afterwards; usually 10 ms"

    def test_as_slow_without_the_culprit_refutes_it(self) -> None:
        """Whatever it does to the CPUs."""
        assert judge(SLOW, Steps(70, 0.028), SLOW, USUAL_SECONDS).outcome is ConfirmOutcome.REFUTED

    @pytest.mark.parametrize(
        ("before", "held", "after", "words"),
        [
            (SLOW, Steps(90, 0.023), SLOW, "it helped a little"),
            (SLOW, FAST, FAST, "the job stayed fast when the culprit went on"),
            (SLOW, FAST, NONE, "the job stayed fast when the culprit went on"),
            (FAST, FAST, FAST, "the job is not slow now"),
            (NONE, FAST, SLOW, "no step ended in time"),
            (SLOW, NONE, SLOW, "no step ended in time"),
            (Steps(2, 1.0), FAST, SLOW, "too few steps ended"),
        ],
    )
    def test_all_else_proves_nothing(self, before: Steps, held: Steps, after: Steps, words: str) -> None:
        """It may have recovered by itself."""
        proof = judge(before, held, after, USUAL_SECONDS)

        assert proof.outcome is ConfirmOutcome.UNDECIDED
        assert proof.told.startswith(words)
