"""Records of the history as they are read: runs of the exporter, their chain events and windows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from exporter.chains.event import ChainEvent
from exporter.history.window import Window
from exporter.units import NANOSECONDS

GAP_NS = 25 * NANOSECONDS


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

    @property
    def max_gap_ns(self) -> int:
        """Without a window for so long, nothing was recorded: windows are 7.5 to 11 s long, or longer on a full node."""
        return max(GAP_NS, int(2.5 * self.window_seconds * NANOSECONDS))

    def as_of(self, unix_ns: int) -> Run:
        """The run as it was known then; it began before."""
        ended = self.ended_unix_ns
        has_window = unix_ns - self.began_unix_ns >= self.window_seconds * NANOSECONDS
        return self._replace(
            seen_unix_ns=min(self.seen_unix_ns, unix_ns),
            ended_unix_ns=ended if ended and ended <= unix_ns else None,
            window_seconds=self.window_seconds if has_window else 0.0,
        )

    def until(self, now_unix_ns: int) -> Run:
        """The run, none of whose times are later than now: they may be, if the clock has been set back."""
        ended = self.ended_unix_ns
        if ended is None and not self.is_live(now_unix_ns):
            ended = now_unix_ns if self.seen_unix_ns > now_unix_ns else None
        return self._replace(
            began_unix_ns=min(self.began_unix_ns, now_unix_ns),
            seen_unix_ns=min(self.seen_unix_ns, now_unix_ns),
            ended_unix_ns=None if ended is None else min(ended, now_unix_ns),
        )

    def is_live(self, now_unix_ns: int) -> bool:
        """Whether it goes on: it has just been seen, by a clock that may have been set since then."""
        return self.ended_unix_ns is None and abs(now_unix_ns - self.seen_unix_ns) <= self.max_gap_ns


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


class PackedWindows(NamedTuple):
    """The windows of an interval as the file holds them. blob: bytes, if the exporter wrote it."""

    run: int
    began_unix_ns: int
    ended_unix_ns: int
    blob: Any


class PackedStack(NamedTuple):
    """A stack of a call site as the file holds it, compressed."""

    number: int
    frames: bytes
