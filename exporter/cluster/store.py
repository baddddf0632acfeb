"""The store: one open segment that gets all rows, and sealed ones. Each row is stored once.

In: batches. Out: rows that are on the disk when add() returns. One thread uses it.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from exporter.cluster.errors import DamagedSegment, StoreUnavailable
from exporter.cluster.folder import StoreFolder
from exporter.cluster.new_rows import NewRows
from exporter.cluster.records import Batch, Stored
from exporter.cluster.schema import VERSION
from exporter.cluster.seen import WINDOWS_MAX, SeenIds, event_id, span_id
from exporter.cluster.segment import Segment
from exporter.cluster.segment_name import SegmentName, hour_of

log = logging.getLogger(__name__)

MIN_FREE_BYTES: Final = 64 << 20
SEGMENT_BYTES_MAX: Final = 256 << 20
_REMEMBERED_SEGMENTS: Final = 2
"""Sealed segments whose ids are known: what was stored in the last two to three hours is recognised when it is sent again."""


class StoreLimits(NamedTuple):
    """min_free_bytes: with less room on the disk, nothing is taken. segment_bytes: a larger segment is sealed."""

    min_free_bytes: int = MIN_FREE_BYTES
    segment_bytes: int = SEGMENT_BYTES_MAX


class ClusterStore:
    """Raises StoreUnavailable, after which the next call tries again; NotPossibleHere for segments of a newer program."""

    def __init__(self, folder: StoreFolder, limits: StoreLimits, now_unix_ns: int) -> None:
        self._folder = folder
        self._limits = limits
        self._open: tuple[SegmentName, Segment] | None = None
        self._seen: deque[SeenIds] = deque(maxlen=_REMEMBERED_SEGMENTS)
        self._current_seen = SeenIds()
        for name in [one for one in folder.segments() if not one.is_open][-_REMEMBERED_SEGMENTS:]:
            self._remember(name)
        try:
            self.tick(now_unix_ns)
        except StoreUnavailable as error:
            log.error("store writes paused: %s", error)

    def add(self, batches: Sequence[Batch], now_unix_ns: int) -> list[Stored]:
        """What became of each batch. Raises StoreUnavailable, and Unstorable if the tables cannot hold a row of them."""
        self.tick(now_unix_ns)
        new = NewRows((*self._seen, self._current_seen))
        found = [new.add(batch) for batch in batches]
        if not new.is_empty:
            segment = self._open[1] if self._open else self._begin(now_unix_ns)
            try:
                segment.add(new.windows, new.events, new.spans)
            except StoreUnavailable:
                self._abandon()
                raise
            new.remember(self._current_seen)
        return found

    def tick(self, now_unix_ns: int) -> None:
        """Seals the open segment if its hour is over, in either direction, or if it is large."""
        self._refuse_full_disk()
        if self._open is None:
            self._reopen()
        if self._open is not None and self._is_complete(self._open[0], self._open[1], now_unix_ns):
            self._seal()

    def seal(self) -> None:
        """Seals the open segment, if there is one, before its hour is over."""
        if self._open is not None:
            self._seal()

    def copy_open_to(self, target: Path) -> bool:
        """A copy of the open segment, which other processes can open. False if no segment is open."""
        if self._open is None:
            return False
        try:
            self._open[1].copy_to(target)
        except StoreUnavailable:
            target.unlink(missing_ok=True)
            self._abandon()
            raise
        return True

    def open_bytes(self) -> int:
        """Size of the open segment, 0 if there is none."""
        return self._open[1].size_bytes() if self._open else 0

    def close(self) -> None:
        """The open segment is continued by the next program."""
        if self._open is not None:
            self._open[1].close()
            self._open = None

    def _is_complete(self, name: SegmentName, segment: Segment, now_unix_ns: int) -> bool:
        return (
            name.hour != hour_of(now_unix_ns)
            or segment.version != VERSION
            or self._current_seen.window_count >= WINDOWS_MAX
            or segment.size_bytes() >= self._limits.segment_bytes
        )

    def _begin(self, now_unix_ns: int) -> Segment:
        number = max((one.number for one in self._folder.segments()), default=0) + 1
        name = SegmentName(number, hour_of(now_unix_ns), is_open=True)
        segment = Segment(self._folder.path_of(name))
        self._open, self._current_seen = (name, segment), SeenIds()
        return segment

    def _seal(self) -> None:
        assert self._open is not None  # noqa: S101 - tick() has looked
        name, segment = self._open
        try:
            segment.seal(self._folder.path_of(name.sealed()))
        except StoreUnavailable:
            self._abandon()
            raise
        self._open = None
        self._seen.append(self._current_seen)
        self._current_seen = SeenIds()

    def _abandon(self) -> None:
        """After an error: the next call opens the file again, and sees whether the last commit is in it."""
        self.close()
        self._current_seen = SeenIds()

    def _reopen(self) -> None:
        """Continue the newest open segment, and seal those before it, which a program that was killed has left."""
        names = [one for one in self._folder.segments() if one.is_open]
        for name in names:
            try:
                segment = Segment(self._folder.path_of(name))
            except DamagedSegment as error:
                aside = self._folder.put_aside(name)
                log.error("%s: renamed to %s, its rows are not in the store", error, aside.name)
                continue
            self._open, self._current_seen = (name, segment), _ids_of(segment)
            if name != names[-1]:
                self._seal()

    def _remember(self, name: SegmentName) -> None:
        try:
            segment = Segment(self._folder.path_of(name), is_sealed=True)
        except DamagedSegment as error:
            log.error("%s; its rows will be stored twice if senders repeat them", error)
            return
        try:
            self._seen.append(_ids_of(segment))
        finally:
            segment.close()

    def _refuse_full_disk(self) -> None:
        try:
            free_bytes = self._folder.free_bytes()
        except OSError as error:
            raise StoreUnavailable(f"cannot read {self._folder.path}: {error.strerror}") from error
        if free_bytes < self._limits.min_free_bytes:
            raise StoreUnavailable(
                f"the disk of {self._folder.path} is full: {free_bytes >> 20} MiB are free, and"
                f" {self._limits.min_free_bytes >> 20} MiB must remain"
            )


def _ids_of(segment: Segment) -> SeenIds:
    seen = SeenIds()
    for sender, run, process, begins in segment.window_ids():
        seen.add_windows(sender, run, process, sorted(begins))
    for chain_id, change, observed_unix_ns in segment.event_ids():
        seen.add_chain_record(event_id(chain_id, change, observed_unix_ns))
    for chain_id, ended_unix_ns in segment.span_ids():
        seen.add_chain_record(span_id(chain_id, ended_unix_ns))
    return seen
