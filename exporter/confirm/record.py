"""Adds the outcome of a confirmation to the history, as an event of the chain."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

from exporter.chains.chain import Change
from exporter.chains.event import ChainEvent
from exporter.confirm.experiment import PAUSE_SECONDS, Plan, names
from exporter.confirm.outcome import ConfirmOutcome, ConfirmResult
from exporter.history.append import append_event


def record(path: Path, run: int, event: ChainEvent, plan: Plan, result: ConfirmResult) -> None:
    """Does nothing for an undecided outcome. run: of the history. Raises NotPossibleHere."""
    if result.outcome is ConfirmOutcome.UNDECIDED:
        return
    evidence = f"{names(plan.processes)} paused by {plan.method.value} for {PAUSE_SECONDS:g} s: {result.measured}"
    change = Change(result.outcome.value)
    append_event(path, run, replace(event, change=change, at_unix_ns=time.time_ns(), evidence=(evidence,)))
