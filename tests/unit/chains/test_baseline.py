"""usual: what a job is like while nothing is wrong."""

from __future__ import annotations

import pytest

from exporter.accounting.culprits import NOBODY
from exporter.accounting.progress import WorkloadProgress
from exporter.causes import Cause
from exporter.chains.baseline import Baseline
from exporter.chains.span import ProcessState, Span
from tests.unit.chains.job import SECOND

DISK = (Cause.BLOCK_IO, NOBODY)


def learned(*step_ms: float, lost: float = 0.0) -> Baseline:
    """From a second each in which steps took so long; calls: 50 a step."""
    usual = Baseline()
    for took in step_ms:
        steps = round(1000 / took)
        now = WorkloadProgress(
            {DISK: round(lost * SECOND)}, steps=steps, steps_ns=round(steps * took * 1e6), calls=50 * steps
        )
        usual.add(Span(ProcessState(0, WorkloadProgress({})), ProcessState(SECOND, now)))
    return usual


class TestUsual:
    """Medians of quiet seconds."""

    def test_five_seconds_are_enough(self) -> None:
        """Four are not."""
        assert (learned(*[10.0] * 4).is_known, learned(*[10.0] * 5).is_known) == (False, True)

    def test_ten_steps_are_needed(self) -> None:
        """Five seconds of a step each say little."""
        assert (learned(*[1000.0] * 9).is_known, learned(*[1000.0] * 10).is_known) == (False, True)

    def test_one_slow_second_does_not_move_it(self) -> None:
        """The median is what it was."""
        usual = learned(10.0, 10.0, 40.0, 10.0, 10.0)

        assert (usual.step_ns, usual.calls_per_step, usual.spread) == (10e6, 50.0, 0.0)

    def test_spread_is_that_of_the_seconds(self) -> None:
        """10.0, 10.4 and 10.8 ms have a median deviation of 0.4 ms in a step of 10.8."""
        assert learned(*[10.0, 10.4, 10.8] * 4).spread == pytest.approx(1.4826 * 0.4 / 10.8)

    def test_losses_are_shares_of_the_time(self) -> None:
        """By cause."""
        usual = learned(*[10.0] * 5, lost=0.2)

        assert (usual.lost, usual.lost_of_all) == ({Cause.BLOCK_IO: 0.2}, 0.2)

    def test_faster_job_gets_a_new_baseline(self) -> None:
        """Its warm-up is over."""
        usual = learned(*[20.0] * 30, *[10.0] * 5)

        assert (usual.is_known, usual.step_ns) == (True, 10e6)

    def test_baseline_stays_known_during_an_episode(self) -> None:
        """The first faster second is one of five, the third one is in the middle of them."""
        first, third = learned(*[20.0] * 30, 10.0), learned(*[20.0] * 30, *[10.0] * 3)

        assert (first.is_known, first.step_ns, third.is_known, third.step_ns) == (True, 20e6, True, 10e6)

    def test_only_the_last_minute_counts(self) -> None:
        """A job that becomes slower by and by."""
        assert learned(*[10.0] * 100, *[10.9] * 60).step_ns == 10.9e6
