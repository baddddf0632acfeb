"""What the experiment shows, from the job's steps before, during and after the pause of the culprit. Pure."""

from __future__ import annotations

import enum
from typing import NamedTuple

MIN_STEPS = 3
"""Needed before and during the pause for a meaningful mean."""
SLOW = 0.05
"""A job that is slower than its baseline by less than this share has nothing to recover."""
RECOVERED, NOT_RECOVERED = 0.5, 0.2
"""Share of the slowdown that must disappear during the pause to confirm, and that must stay below to refute."""


class ConfirmOutcome(enum.StrEnum):
    CONFIRMED = "confirmed"
    REFUTED = "refuted"
    UNDECIDED = "undecided"


class Steps(NamedTuple):
    """Steps that ended in one of the three periods. mean_seconds: None if none ended."""

    ended: int
    mean_seconds: float | None


class ConfirmResult(NamedTuple):
    """measured: a sentence with the durations of steps."""

    outcome: ConfirmOutcome
    measured: str


def judge(before: Steps, paused: Steps, after: Steps, baseline_seconds: float) -> ConfirmResult:
    """baseline_seconds: duration of a step without the chain."""
    measured = (
        f"steps took {_ms(before)} before, {_ms(paused)} during the pause, {_ms(after)} after it;"
        f" baseline {baseline_seconds * 1000:.3g} ms"
    )
    if before.mean_seconds is None or paused.mean_seconds is None:
        return ConfirmResult(ConfirmOutcome.UNDECIDED, f"no step ended in time: {measured}")
    if min(before.ended, paused.ended) < MIN_STEPS:
        return ConfirmResult(ConfirmOutcome.UNDECIDED, f"too few steps ended: {measured}")
    excess_seconds = before.mean_seconds - baseline_seconds
    if excess_seconds < SLOW * baseline_seconds:
        return ConfirmResult(ConfirmOutcome.UNDECIDED, f"the job is not slow now: {measured}")
    gained_seconds = before.mean_seconds - paused.mean_seconds
    if gained_seconds <= NOT_RECOVERED * excess_seconds:
        return ConfirmResult(ConfirmOutcome.REFUTED, measured)
    if gained_seconds < RECOVERED * excess_seconds:
        return ConfirmResult(ConfirmOutcome.UNDECIDED, f"the job recovered only in part: {measured}")
    if after.mean_seconds is None or after.mean_seconds - paused.mean_seconds < gained_seconds / 2:
        return ConfirmResult(ConfirmOutcome.UNDECIDED, f"the job stayed fast after the pause: {measured}")
    return ConfirmResult(ConfirmOutcome.CONFIRMED, measured)


def _ms(steps: Steps) -> str:
    return "none ended" if steps.mean_seconds is None else f"{steps.mean_seconds * 1000:.3g} ms"
