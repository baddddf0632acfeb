"""Runs recorded rows through the same Pipeline as the exporter.

In: ticks of a recording. Out: what would have been detected, tick by tick.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from exporter.accounting.accountant import ProcessTime
from exporter.kernel.process_rows import ProcessRow
from exporter.kernel.tables import Tables
from exporter.pipeline.tick import Detected, Pipeline
from exporter.recording.codec import RowReplay, Tick


class ReplayedTransition(NamedTuple):
    """now_ns: CLOCK_MONOTONIC of the recorded tick."""

    now_ns: int
    detected: Detected


class ReplayedRun:
    """processes, times: as of the last tick that was played; began_ns, now_ns: first and last tick, CLOCK_MONOTONIC."""

    def __init__(self, ticks: Iterable[Tick]) -> None:
        self._rows = RowReplay(ticks)
        ids = itertools.count(1)
        self._pipeline = Pipeline(
            Tables(self._rows.maps, self._rows.iterate),
            ("sched", "chains"),
            lambda: self.now_ns,
            read_gpus=self._rows.gpus,
            new_id=lambda: f"{next(ids):032x}",
        )
        self.processes: Mapping[int, ProcessRow] = {}
        self.began_ns = self.now_ns = 0

    @property
    def times(self) -> Mapping[int, ProcessTime]:
        """Where the time of each process went."""
        return self._pipeline.times()

    def play(self, *, until_end: bool = True) -> Iterator[ReplayedTransition]:
        """until_end: all processes end with the last tick. Raises ValueError for bad ticks."""
        for now_ns in self._rows.ticks():
            self.now_ns = now_ns
            self.began_ns = self.began_ns or now_ns
            rows = self._pipeline.read()
            ended = self.processes.keys() - rows.processes.keys()
            yield from self._at(now_ns, self._pipeline.tick(rows, ended=ended).detected)
            self.processes = rows.processes
        if until_end:
            yield from self._at(self.now_ns, self._pipeline.end(self.processes))

    @staticmethod
    def _at(now_ns: int, detected: Iterable[Detected]) -> Iterator[ReplayedTransition]:
        for one in detected:
            yield ReplayedTransition(now_ns, one)
