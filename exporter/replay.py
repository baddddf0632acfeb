"""What does the engine say of recorded rows? The exporter's own code over ticks of another time.

In: Ticks. Out: what was said, tick by tick; Reports and the Explanation of a capsule.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from exporter.accounting.accountant import Accountant, ProcessTime
from exporter.capsule.file import Capsule, Subject
from exporter.capsule.tape import Replay, Tick
from exporter.chains.chain import Transition
from exporter.chains.remedies import Place
from exporter.diagnosis import Diagnosis
from exporter.explanation.finding import Explanation, explain
from exporter.explanation.selection import Selection
from exporter.history.run import Run, Seen, Told
from exporter.history.window import NO_STEPS, NO_SWITCHES, Member, Window
from exporter.kernel.process_rows import ProcessRow
from exporter.kernel.tables import Tables
from exporter.model import Identity, label_value
from exporter.report import Report
from exporter.units import seconds


class Said(NamedTuple):
    """One transition. tgid: of its process. culprit_tgids: of those most to blame."""

    now_ns: int
    transition: Transition
    tgid: int
    culprit_tgids: tuple[int, ...]


class Rerun:
    """The engine over ticks. processes, times: as of the last tick that it has come to; began_ns, now_ns: first and last tick."""

    def __init__(self, ticks: Iterable[Tick]) -> None:
        self._tape = Replay(ticks)
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

    def play(self, *, until_end: bool = True) -> Iterator[Said]:
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

    def _said(self, transitions: Iterable[Transition]) -> Iterator[Said]:
        for transition in transitions:
            chain = transition.chain
            culprits = self._accountant.tgids_of(chain.process, chain.culprits[0][0]) if chain.culprits else ()
            row = self.processes.get(chain.process)
            yield Said(self.now_ns, transition, row.tgid if row else 0, culprits)


class Recalled(NamedTuple):
    """What the engine says now of a capsule, in the time of day of then. told: with seconds since its first tick."""

    told: tuple[tuple[float, Report], ...]
    explanation: Explanation


def recall(capsule: Capsule, selection: Selection | None = None) -> Recalled:
    """Raises ValueError for ticks that are none."""
    rerun, at = Rerun(capsule.ticks()), capsule.taken_at
    told = []
    for now_ns, transition, tgid, culprit_tgids in rerun.play(until_end=False):
        subject = capsule.processes.get(transition.chain.process, Subject(None, tgid))
        place = Place(tgid, subject.cgroup, subject.cpus, culprit_tgids)
        now = at._replace(monotonic_ns=now_ns, unix_ns=at.unix_ns_of(now_ns))
        report = Report.of(transition, subject.identity, place, now)
        told.append((seconds(now_ns - rerun.began_ns), report))
    began_unix_ns, ended_unix_ns = at.unix_ns_of(rerun.began_ns), at.unix_ns_of(rerun.now_ns)
    run = Run(1, began_unix_ns, ended_unix_ns, None, capsule.version, True, seconds(ended_unix_ns - began_unix_ns))
    windows = [_window(capsule, rerun, number, (began_unix_ns, ended_unix_ns)) for number in rerun.processes]
    explanation = explain(
        [run],
        [Told(run.id, report) for _, report in told],
        [Seen(run.id, began_unix_ns, ended_unix_ns, windows)],
        selection=selection or Selection(),
        since_unix_ns=began_unix_ns,
        now_unix_ns=ended_unix_ns,
    )
    return Recalled(tuple(told), explanation)


def _window(capsule: Capsule, rerun: Rerun, number: int, span_unix_ns: tuple[int, int]) -> Window:
    """The whole capsule of one process: what was lost, and its steps. Histograms of calls are not in it."""
    subject, row, times = capsule.processes.get(number), rerun.processes[number], rerun.times.get(number)
    identity = subject.identity if subject else None
    lost_ns: Counter[str] = Counter()
    culprits_ns: Counter[tuple[str, str]] = Counter()
    for (cause, culprit), ns in times.lost.items() if times else ():
        lost_ns[cause.value] += ns
        culprits_ns[cause.value, culprit] += ns
    return Window(
        number,
        Member(identity or Identity(), row.tgid, label_value(row.comm.split(b"\0", 1)[0].decode(errors="replace"))),
        *span_unix_ns,
        times.steps if times and times.steps else NO_STEPS,
        lost_ns,
        tuple((cause, culprit, ns) for (cause, culprit), ns in culprits_ns.most_common()),
        {},
        NO_SWITCHES,
        (),
    )
