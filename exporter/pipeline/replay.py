"""What does the engine say of recorded rows? The exporter's own code over ticks of another time.

In: Ticks. Out: what was said, tick by tick.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from exporter.accounting.accountant import Accountant, ProcessTime
from exporter.chains.chain import Transition
from exporter.kernel.process_rows import ProcessRow
from exporter.kernel.tables import Tables
from exporter.pipeline.detection import Diagnosis
from exporter.recording.codec import RowReplay, Tick


class ReplayedTransition(NamedTuple):
    """One transition. tgid: of its process. culprit_tgids: of those most to blame."""

    now_ns: int
    transition: Transition
    tgid: int
    culprit_tgids: tuple[int, ...]


class ReplayedEngine:
    """The engine over ticks. processes, times: as of the last tick that it has come to; began_ns, now_ns: first and last tick."""

    def __init__(self, ticks: Iterable[Tick]) -> None:
        self._tape = RowReplay(ticks)
        self._tables = Tables(self._tape.maps, self._tape.iterate)
        self._accountant = Accountant()
        ids = itertools.count(1)
        self._diagnosis = Diagnosis(
            self._tables,
            self._accountant.standing,
            devices=self._tape.devices,
            new_id=lambda: f"{next(ids):032x}",
        )
        self.processes: Mapping[int, ProcessRow] = {}
        self.began_ns = self.now_ns = 0

    @property
    def times(self) -> Mapping[int, ProcessTime]:
        """Where the time of each process went."""
        return self._accountant.times()

    def play(self, *, until_end: bool = True) -> Iterator[ReplayedTransition]:
        """What the exporter would say. until_end: all processes end with the last tick. Raises ValueError for bad ticks."""
        for now_ns in self._tape.ticks():
            self.now_ns = now_ns
            self.began_ns = self.began_ns or self.now_ns
            processes = self._tables.read_processes()
            yield from self._said(self._diagnosis.end(self.processes.keys() - processes.keys(), self.now_ns))
            self.processes = processes
            wanted = self._diagnosis.wanted
            waits = self._tables.read_waits(processes, is_urgent=wanted.is_urgent)
            threads = self._tables.read_threads() if wanted.with_threads else ()
            self._accountant.update(waits, {process: process for process in processes}, self.now_ns, threads)
            communicators = self._tables.read_communicators()
            yield from self._said(self._diagnosis.tick(processes, communicators, self._accountant.moved, self.now_ns))
        if until_end:
            yield from self._said(self._diagnosis.end(tuple(self.processes), self.now_ns))

    def _said(self, transitions: Iterable[Transition]) -> Iterator[ReplayedTransition]:
        for transition in transitions:
            chain = transition.chain
            culprits = self._accountant.tgids_of(chain.process, chain.culprits[0][0]) if chain.culprits else ()
            row = self.processes.get(chain.process)
            yield ReplayedTransition(self.now_ns, transition, row.tgid if row else 0, culprits)
