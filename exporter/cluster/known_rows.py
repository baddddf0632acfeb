"""Which rows the sealed segments of a store have, by what does not depend on how they came: pushed or imported.

In: rows. Out: those that no sealed segment has.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final, NamedTuple

from exporter.cluster.errors import DamagedSegment
from exporter.cluster.folder import StoreFolder
from exporter.cluster.records import ChainEventRow, ChainSpanRow, WindowRow
from exporter.cluster.segment import Segment
from exporter.cluster.segment_name import SegmentName

log = logging.getLogger(__name__)

_OPEN_MAX: Final = 4
"""Segments that are open at a time: rows come in the order of their times, and so from few."""


class _Span(NamedTuple):
    """From the earliest begin of a window to the latest one."""

    name: SegmentName
    first_unix_ns: int
    last_unix_ns: int


class KnownRows:
    """Damaged segments are left out, and logged."""

    def __init__(self, folder: StoreFolder) -> None:
        self._folder = folder
        self._open: dict[SegmentName, Segment] = {}
        self._names: list[SegmentName] = []
        self._spans: list[_Span] = []
        for name in folder.segments():
            if name.is_open:
                continue
            try:
                span = self._segment(name).window_span()
            except DamagedSegment as error:
                log.error("%s; rows imported from it again will be stored twice", error)
                continue
            self._names.append(name)
            if span is not None:
                self._spans.append(_Span(name, *span))

    def without_windows(self, rows: Sequence[WindowRow]) -> list[WindowRow]:
        first = min(row.began_unix_ns for row in rows)
        last = max(row.began_unix_ns for row in rows)
        nodes = sorted({row.node for row in rows})
        known: set[tuple[str, int, int]] = set()
        for span in self._spans:
            if span.first_unix_ns <= last and span.last_unix_ns >= first:
                known.update(self._segment(span.name).windows_of(nodes, first, last))
        return [row for row in rows if (row.node, row.process, row.began_unix_ns) not in known]

    def without_chains(
        self, events: Sequence[ChainEventRow], spans: Sequence[ChainSpanRow]
    ) -> tuple[list[ChainEventRow], list[ChainSpanRow]]:
        chains = sorted({one.chain_id for one in events} | {one.chain_id for one in spans})
        known_events: set[tuple[str, str, int]] = set()
        known_spans: set[tuple[str, int]] = set()
        for name in self._names if chains else ():
            known_events.update(self._segment(name).event_ids(chains))
            known_spans.update(self._segment(name).span_ids(chains))
        return (
            [one for one in events if (one.chain_id, one.change, one.observed_unix_ns) not in known_events],
            [one for one in spans if (one.chain_id, one.ended_unix_ns) not in known_spans],
        )

    def close(self) -> None:
        for segment in self._open.values():
            segment.close()
        self._open.clear()

    def _segment(self, name: SegmentName) -> Segment:
        found = self._open.pop(name, None)
        if found is None:
            if len(self._open) >= _OPEN_MAX:
                self._open.pop(next(iter(self._open))).close()
            found = Segment(self._folder.path_of(name), is_sealed=True)
        self._open[name] = found
        return found
