"""Ids of the rows of one segment: what is sent twice is stored once.

A sender that gets no answer sends again, also what was stored. A window takes eight bytes here; the number of processes and of
chain events is limited, since a sender can make them up.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import Counter
from typing import Final

from exporter.cluster.records import ChainEventRow, ChainSpanRow, WindowRow

PROCESSES_MAX: Final = 65_536
"""In one segment: 1,000 nodes of 8 ranks have 8,000, and as many again with each restart."""
PROCESSES_OF_SENDER_MAX: Final = 32_768
"""Half of it, so that one token cannot take the room of all others."""
CHAIN_RECORDS_MAX: Final = 262_144
WINDOWS_MAX: Final = 4_000_000
"""A segment with more is sealed: 32 MB of ids."""

_Process = tuple[int, int]


class SeenIds:
    """Ids that were added. Ids of chain records are kept as hashes of 64 bits."""

    def __init__(self) -> None:
        self._begins: dict[_Process, array[int]] = {}
        self._processes_of: Counter[str] = Counter()
        self._chain_records: set[int] = set()
        self.window_count = 0

    def has_window(self, row: WindowRow) -> bool:
        begins = self._begins.get(_process(row.run, row.process))
        return begins is not None and _has(begins, row.began_unix_ns)

    def add_window(self, sender: str, row: WindowRow) -> None:
        self.add_windows(sender, row.run, row.process, (row.began_unix_ns,))

    def add_windows(self, sender: str, run: str, process: int, begins: list[int] | tuple[int, ...]) -> None:
        """begins: of new windows of a process, in any order."""
        key = _process(run, process)
        known = self._begins.get(key)
        if known is None:
            self._processes_of[sender] += 1
            known = self._begins[key] = array("q")
        for began in begins:
            if not known or began > known[-1]:
                known.append(began)
            else:  # late, or the clock of the node was set back
                known.insert(bisect_left(known, began), began)
        self.window_count += len(begins)

    def has_room(self, sender: str, row: WindowRow) -> bool:
        """Whether the process is known, or one more may be added."""
        return _process(row.run, row.process) in self._begins or (
            len(self._begins) < PROCESSES_MAX and self._processes_of[sender] < PROCESSES_OF_SENDER_MAX
        )

    def has_chain_record(self, row: ChainEventRow | ChainSpanRow) -> bool:
        return chain_record_id(row) in self._chain_records

    def add_chain_record(self, row_id: int) -> None:
        """row_id: of chain_record_id(), event_id() or span_id()."""
        self._chain_records.add(row_id)

    @property
    def has_room_for_chain_record(self) -> bool:
        return len(self._chain_records) < CHAIN_RECORDS_MAX


def chain_record_id(row: ChainEventRow | ChainSpanRow) -> int:
    if isinstance(row, ChainEventRow):
        return event_id(row.chain_id, row.change, row.observed_unix_ns)
    return span_id(row.chain_id, row.ended_unix_ns)


def event_id(chain_id: str, change: str, observed_unix_ns: int) -> int:
    return hash((chain_id, change, observed_unix_ns))


def span_id(chain_id: str, ended_unix_ns: int) -> int:
    return hash((chain_id, ended_unix_ns))


def _process(run: str, process: int) -> _Process:
    return int(run, 16), process


def _has(begins: array[int], began_unix_ns: int) -> bool:
    if not begins or began_unix_ns > begins[-1]:
        return False
    place = bisect_left(begins, began_unix_ns)
    return place < len(begins) and begins[place] == began_unix_ns
