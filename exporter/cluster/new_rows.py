"""Which rows of some batches are new: those that no segment has, and that are within the limits. Pure.

In: ids of the last segments, and batches. Out: rows for a segment, and their ids once it has them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from exporter.cluster.records import Batch, ChainEventRow, ChainSpanRow, Stored, WindowRow
from exporter.cluster.seen import SeenIds, chain_record_id


class NewRows:
    """seen: ids of segments, the last one being the one that gets the rows. Rows begin with arrival and sender."""

    def __init__(self, seen: Sequence[SeenIds]) -> None:
        self._seen = seen
        self._pending = SeenIds()
        self._windows: list[tuple[str, WindowRow]] = []
        self._chain_record_ids: list[int] = []
        self.windows: list[Sequence[Any]] = []
        self.events: list[Sequence[Any]] = []
        self.spans: list[Sequence[Any]] = []

    @property
    def is_empty(self) -> bool:
        return not (self.windows or self.events or self.spans)

    def add(self, batch: Batch) -> Stored:
        """What becomes of a batch once the rows are stored."""
        before = self._count()
        duplicates = refused = 0
        for row in batch.windows:
            if self._has_window(row):
                duplicates += 1
            elif not self._has_room(batch.sender, row):
                refused += 1
            else:
                self._pending.add_window(batch.sender, row)
                self._windows.append((batch.sender, row))
                self.windows.append((batch.arrived_unix_ns, batch.sender, *row))
        for rows, target in ((batch.events, self.events), (batch.spans, self.spans)):
            for one in rows:
                if self._has_chain_record(one):
                    duplicates += 1
                elif not self._seen[-1].has_room_for_chain_record:
                    refused += 1
                else:
                    self._pending.add_chain_record(chain_record_id(one))
                    self._chain_record_ids.append(chain_record_id(one))
                    target.append((batch.arrived_unix_ns, batch.sender, *one))
        return Stored(self._count() - before, duplicates, refused)

    def remember(self, seen: SeenIds) -> None:
        """The rows are stored: their ids become those of the segment."""
        for sender, row in self._windows:
            seen.add_window(sender, row)
        for row_id in self._chain_record_ids:
            seen.add_chain_record(row_id)

    def _count(self) -> int:
        return len(self.windows) + len(self.events) + len(self.spans)

    def _has_window(self, row: WindowRow) -> bool:
        return self._pending.has_window(row) or any(one.has_window(row) for one in self._seen)

    def _has_room(self, sender: str, row: WindowRow) -> bool:
        return self._seen[-1].has_room(sender, row)

    def _has_chain_record(self, row: ChainEventRow | ChainSpanRow) -> bool:
        return self._pending.has_chain_record(row) or any(one.has_chain_record(row) for one in self._seen)
