"""Runs recorded rows through the same Pipeline as the exporter.

In: ticks of a recording. Out: what would have been detected, tick by tick.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

from exporter.accounting.accountant import ProcessTime
from exporter.files.budget import ReadBudget, Unfinished
from exporter.kernel.process_rows import ProcessRow
from exporter.kernel.tables import Tables
from exporter.kernel.thread_rows import ThreadRow
from exporter.pipeline.tick import Detected, Pipeline
from exporter.recording.codec import RowReplay, Tick
from exporter.recording.file import Recording


class ReplayedTransition(NamedTuple):
    """now_ns: CLOCK_MONOTONIC of the recorded tick."""

    now_ns: int
    detected: Detected


class ReplayedRun:
    """processes, times: as of the last tick that was played; began_ns, now_ns: first and last tick, CLOCK_MONOTONIC."""

    def __init__(self, ticks: Iterable[Tick]) -> None:
        self._rows = RowReplay(ticks)
        ids = itertools.count(1)
        self._tables = Tables(self._rows.maps, self._rows.iterate)
        self._pipeline = Pipeline(
            self._tables,
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

    def ticks(self) -> Iterator[list[ReplayedTransition]]:
        """What each tick detected; the state after it can be read before the next one. Raises ValueError for bad ticks."""
        for now_ns in self._rows.ticks():
            self.now_ns = now_ns
            self.began_ns = self.began_ns or now_ns
            rows = self._pipeline.read()
            ended = self.processes.keys() - rows.processes.keys()
            detected = self._pipeline.tick(rows, ended=ended).detected
            self.processes = rows.processes
            yield [ReplayedTransition(now_ns, one) for one in detected]

    def play(self, *, until_end: bool = True) -> Iterator[ReplayedTransition]:
        """All ticks. until_end: all processes end with the last one."""
        for transitions in self.ticks():
            yield from transitions
        if until_end:
            for one in self._pipeline.end(self.processes):
                yield ReplayedTransition(self.now_ns, one)

    def calls(self) -> Mapping[int, int]:
        """Traced calls of each process so far."""
        feeding = self._pipeline.feeding(self.processes)
        return {number: row.timed_calls + row.counted_calls for number, row in feeding.items()}

    def threads(self) -> list[ThreadRow]:
        """Living threads, as they were when a tick last read them."""
        return self._tables.read_threads()


@contextmanager
def replaying(recording: Recording, budget: ReadBudget | None = None) -> Iterator[ReplayedRun]:
    """A recording of unknown origin, played while the block lasts. Raises ValueError for ticks that cannot be replayed.

    budget: time for the replay, by default as the size allows.
    """
    budget = budget or ReadBudget.for_size(sum(map(len, recording.compressed_ticks)))
    try:
        yield ReplayedRun(_within(recording.ticks(), budget))
    except Unfinished as error:
        raise ValueError(f"gave up: {error}") from None
    except (ArithmeticError, AssertionError, LookupError, MemoryError, TypeError, struct.error) as error:
        # The rows of a recording are those of our kernel programs, which the accounting need not check.
        raise ValueError(f"its rows are not those of a node ({type(error).__name__})") from error


def _within(ticks: Iterable[Tick], budget: ReadBudget) -> Iterator[Tick]:
    for tick in ticks:
        budget.check()
        yield tick
