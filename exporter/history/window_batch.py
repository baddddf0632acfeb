"""The windows of one interval, and what takes them: a history that writes them, receivers to which they are pushed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from exporter.history.collective_mark import CollectiveMark
from exporter.history.membership import Membership
from exporter.history.window import Window


class WindowBatch(NamedTuple):
    """The windows of all processes for one interval. Empty if no process did anything, but the exporter was running.

    collectives: the last ones before its end, of communicators that other nodes share. memberships: at its end.
    dropped: windows of processes beyond the limit, which no sink gets.
    """

    began_unix_ns: int
    ended_unix_ns: int
    windows: Sequence[Window]
    collectives: Sequence[CollectiveMark] = ()
    memberships: Sequence[Membership] = ()
    dropped: int = 0


class WindowSink(Protocol):
    """Gets every batch. Its methods are called from any thread, one at a time, and never wait."""

    @property
    def wants_windows(self) -> bool:
        """Whether windows are built for it; may change at any time."""

    def on_windows(self, batch: WindowBatch) -> None:
        """Takes the windows that have just ended."""
