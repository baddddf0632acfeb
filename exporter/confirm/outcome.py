"""Did it help? The job's steps before, while the culprit was held, and after it went on again. Pure."""

from __future__ import annotations

import enum
from typing import NamedTuple

LEAST_STEPS = 3
"""In each of the three times, or a mean says nothing."""
SLOW = 0.05
"""Slower than usual by less than this, there is nothing to recover from."""
RECOVERED, NOT_RECOVERED = 0.5, 0.2
"""Of what steps take longer than usual: so much must be gone while the culprit is held, or so little."""


class ConfirmOutcome(enum.StrEnum):
    """What the intervention has shown."""

    CONFIRMED = "confirmed"
    REFUTED = "refuted"
    UNDECIDED = "undecided"


class Steps(NamedTuple):
    """That ended in one of the three times. mean_seconds: None where none ended."""

    ended: int
    mean_seconds: float | None


class Proof(NamedTuple):
    """told: in a sentence, with the numbers."""

    outcome: ConfirmOutcome
    told: str


def judge(before: Steps, held: Steps, after: Steps, usual_seconds: float) -> Proof:
    """usual_seconds: of a step when nothing is wrong."""
    usual = f"{usual_seconds * 1000:.3g} ms"
    measured = f"steps took {_ms(before)} before, {_ms(held)} meanwhile, {_ms(after)} afterwards; usually {usual}"
    if before.mean_seconds is None or held.mean_seconds is None:
        return Proof(ConfirmOutcome.UNDECIDED, f"no step ended in time: {measured}")
    if min(before.ended, held.ended) < LEAST_STEPS:
        return Proof(ConfirmOutcome.UNDECIDED, f"too few steps ended: {measured}")
    excess_seconds = before.mean_seconds - usual_seconds
    if excess_seconds < SLOW * usual_seconds:
        return Proof(ConfirmOutcome.UNDECIDED, f"the job is not slow now: {measured}")
    gained_seconds = before.mean_seconds - held.mean_seconds
    if gained_seconds <= NOT_RECOVERED * excess_seconds:
        return Proof(ConfirmOutcome.REFUTED, measured)
    if gained_seconds < RECOVERED * excess_seconds:
        return Proof(ConfirmOutcome.UNDECIDED, f"it helped a little: {measured}")
    if after.mean_seconds is None or after.mean_seconds - held.mean_seconds < gained_seconds / 2:
        return Proof(ConfirmOutcome.UNDECIDED, f"the job stayed fast when the culprit went on: {measured}")
    return Proof(ConfirmOutcome.CONFIRMED, measured)


def _ms(steps: Steps) -> str:
    return "none ended" if steps.mean_seconds is None else f"{steps.mean_seconds * 1000:.3g} ms"
