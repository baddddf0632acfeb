"""Records of the history as they are read: runs of the exporter, their chain events and windows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from exporter.chains.event import ChainEvent
from exporter.history.window import Window


class Run(NamedTuple):
    """From a start of the exporter to its end.

    seen_unix_ns: the last write. ended_unix_ns: None while it runs, or if it was killed. has_chains: whether it detects chains.
    window_seconds: length of its windows, 0 before the first one.
    """

    id: int
    began_unix_ns: int
    seen_unix_ns: int
    ended_unix_ns: int | None
    version: str
    has_chains: bool
    window_seconds: float


class RecordedEvent(NamedTuple):
    """run: id of the run that recorded it."""

    run: int
    event: ChainEvent


class RecordedWindows(NamedTuple):
    """The windows of all processes for one interval; empty if no process did anything."""

    run: int
    began_unix_ns: int
    ended_unix_ns: int
    windows: Sequence[Window]
