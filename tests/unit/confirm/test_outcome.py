"""outcome: what three periods of two seconds show. The baseline is 10 ms a step; with the culprit a step takes 30 ms."""

from __future__ import annotations

import pytest

from exporter.confirm.outcome import ConfirmOutcome, Steps, judge

BASELINE_SECONDS = 0.010
SLOW = Steps(66, 0.030)
FAST = Steps(200, 0.010)
NONE = Steps(0, None)


class TestJudge:
    def test_fast_during_the_pause_and_slow_after_it_confirms(self) -> None:
        result = judge(SLOW, FAST, SLOW, BASELINE_SECONDS)

        assert result.outcome is ConfirmOutcome.CONFIRMED
        assert result.measured == "steps took 30 ms before, 10 ms during the pause, 30 ms after it; baseline 10 ms"

    def test_slow_during_the_pause_refutes(self) -> None:
        assert judge(SLOW, Steps(70, 0.028), SLOW, BASELINE_SECONDS).outcome is ConfirmOutcome.REFUTED

    @pytest.mark.parametrize(
        ("before", "paused", "after", "words"),
        [
            (SLOW, Steps(90, 0.023), SLOW, "the job recovered only in part"),
            (SLOW, FAST, FAST, "the job stayed fast after the pause"),
            (SLOW, FAST, NONE, "the job stayed fast after the pause"),
            (FAST, FAST, FAST, "the job is not slow now"),
            (NONE, FAST, SLOW, "no step ended in time"),
            (SLOW, NONE, SLOW, "no step ended in time"),
            (Steps(2, 1.0), FAST, SLOW, "too few steps ended"),
        ],
    )
    def test_everything_else_is_undecided(self, before: Steps, paused: Steps, after: Steps, words: str) -> None:
        result = judge(before, paused, after, BASELINE_SECONDS)

        assert result.outcome is ConfirmOutcome.UNDECIDED
        assert result.measured.startswith(words)
