"""Adds the outcome of a confirmation to the history, as an event of the chain."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

from exporter.chains.chain import Change
from exporter.chains.event import ChainEvent
from exporter.confirm.experiment import HELD_SECONDS, Chosen, names
from exporter.confirm.outcome import ConfirmOutcome, Proof
from exporter.history.append import stamp


def record(path: Path, run: int, event: ChainEvent, chosen: Chosen, proof: Proof) -> None:
    """Does nothing for an undecided outcome. run: of the history. Raises NotPossibleHere."""
    if proof.outcome is ConfirmOutcome.UNDECIDED:
        return
    evidence = f"{names(chosen.subjects)} paused by {chosen.how.value} for {HELD_SECONDS:g} s: {proof.told}"
    change = Change(proof.outcome.value)
    stamp(path, run, replace(event, change=change, at_unix_ns=time.time_ns(), evidence=(evidence,)))
