"""What does the engine say of recorded rows? The exporter's own code over ticks of another time.

In: Ticks. Out: what was said, tick by tick; Reports of a capsule.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from exporter.accounting.accountant import Accountant
from exporter.capsule.file import Capsule, Subject
from exporter.capsule.tape import Replay, Tick
from exporter.chains.chain import Transition
from exporter.chains.engine import Engine
from exporter.chains.remedies import Place
from exporter.diagnosis import Diagnosis, call_times
from exporter.kernel.rows import Tables
from exporter.report import Report


class Said(NamedTuple):
    """One transition. tgid: of its process. culprit_tgids: of those most to blame."""

    now_ns: int
    transition: Transition
    tgid: int
    culprit_tgids: tuple[int, ...]


def replay(ticks: Iterable[Tick], *, until_end: bool = True) -> Iterator[Said]:
    """What the exporter would say. until_end: all processes end with the last tick. Raises ValueError for ticks that are none."""
    tape, ids = Replay(ticks), itertools.count(1)
    tables, accountant = Tables(tape.maps, tape.iterate), Accountant()
    engine = Engine(lambda: f"{next(ids):032x}", lambda number: call_times(tables, number))
    diagnosis = Diagnosis(tables, accountant.standing, engine)
    tgids: dict[int, int] = {}
    now_ns = 0

    def said(transitions: Iterable[Transition]) -> Iterator[Said]:
        for transition in transitions:
            chain = transition.chain
            culprits = accountant.tgids_of(chain.process, chain.culprits[0][0]) if chain.culprits else ()
            yield Said(now_ns, transition, tgids.get(chain.process, 0), culprits)

    for now_ns in tape.ticks():
        processes = tables.read_processes()
        ended = tgids.keys() - processes.keys()
        yield from said(diagnosis.end(ended, now_ns))
        tgids = {number: row.tgid for number, row in processes.items()}
        wanted = diagnosis.wanted
        waits = tables.read_waits(processes, is_urgent=wanted.is_urgent)
        threads = tables.read_threads() if wanted.with_threads else ()
        accountant.update(waits, {process: process for process in processes}, now_ns, threads)
        yield from said(diagnosis.tick(processes, tables.read_communicators(), accountant.moved, now_ns))
    if until_end:
        yield from said(diagnosis.end(tuple(tgids), now_ns))


def reports_of(capsule: Capsule) -> list[Report]:
    """What the engine says of it now, in the time of day of then. Raises ValueError for ticks that are none."""
    reports = []
    for now_ns, transition, tgid, culprit_tgids in replay(capsule.ticks(), until_end=False):
        subject = capsule.processes.get(transition.chain.process, Subject(None, tgid))
        place = Place(tgid, subject.cgroup, subject.cpus, culprit_tgids)
        now = capsule.taken_at._replace(monotonic_ns=now_ns, unix_ns=capsule.taken_at.unix_ns_of(now_ns))
        reports.append(Report.of(transition, subject.identity, place, now))
    return reports
