"""Records of the history as they are read: runs of the exporter, and what was said of chains in each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from exporter.chains.event import ChainEvent
from exporter.history.window import Window


class Run(NamedTuple):
    """From a start of the exporter to its end. seen_unix_ns: when it wrote last. ended_unix_ns: None while it runs, or where it
    was killed. cut_seconds: the length of its windows, 0 before the first.
    """

    id: int
    began_unix_ns: int
    seen_unix_ns: int
    ended_unix_ns: int | None
    version: str
    has_chains: bool
    cut_seconds: float


class RecordedEvent(NamedTuple):
    """What was said in a run."""

    run: int
    report: ChainEvent


class RecordedWindows(NamedTuple):
    """What was recorded between two moments; without windows where no process did anything."""

    run: int
    began_unix_ns: int
    ended_unix_ns: int
    windows: Sequence[Window]
