"""Lost time that the accounting charges in a recorded run, and how much of it the fault caused.

In: a RecordedRun. Out: lost time by cause and culprit at each tick; for a Recording, what the faulty run lost beyond as many
clean steps.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise

from exporter.causes import Cause
from exporter.kernel.tables import Tables
from exporter.pipeline.tick import Pipeline
from exporter.recording.codec import RowReplay
from tests.faults.episode import Episode
from tests.faults.recording import RecordedRun, Recording
from tests.faults.truth import AFTERMATH, SETTLING, Truth, met, pair

Lost = Mapping[tuple[Cause, str], float]
"""Nanoseconds by cause and culprit."""

MARGIN = 1
"""Ticks behind the window: a late stall is decided when the next waits for the GPU are over."""

Entry = Mapping[int, Lost]
"""By tgid."""


def books(run: RecordedRun, scrapes: Collection[int] = ()) -> tuple[Entry, ...]:
    """Lost time up to each tick of a run, from the replayed tables.

    scrapes: numbers of ticks with a scrape, as at the last one: only then everything is read, and no lost time stays undecided.
    """
    replay = RowReplay(run.ticks)
    pipeline = Pipeline(Tables(replay.maps, replay.iterate), ("sched",), lambda: now_ns)
    entries: list[Entry] = []
    last = len(run.ticks) - 1
    for number, now_ns in enumerate(replay.ticks()):  # noqa: B007 - the pipeline's clock
        rows = pipeline.read()
        if number in scrapes or number == last:
            owners = {process: process for process in rows.processes}
            pipeline.account_all(owners, ended=owners if number == last else ())
        else:
            pipeline.tick(rows)
        entries.append({rows.processes[process].tgid: dict(time.lost) for process, time in pipeline.times().items()})
    return tuple(entries)


def last_before(run: RecordedRun, time_ns: int) -> int:
    """The number of the latest tick up to a moment, or of the first."""
    return max((number for number, tick in enumerate(run.ticks) if tick.now_ns <= time_ns), default=0)


def first_after(run: RecordedRun, time_ns: int) -> int:
    """The number of the earliest tick from a moment on, or of the last."""
    return min((number for number, tick in enumerate(run.ticks) if tick.now_ns >= time_ns), default=len(run.ticks) - 1)


@dataclass(frozen=True)
class Excess:
    """What one rank lost to its fault, by the accounting. booked_ns: beyond as many clean steps.

    wall_ns: between the two ticks that it was measured from.
    """

    booked_ns: Lost
    wall_ns: int

    @property
    def sum_ns(self) -> float:
        """Over all causes."""
        return sum(self.booked_ns.values())

    def by_cause(self) -> dict[str, float]:
        """Over all culprits, largest first."""
        found: dict[str, float] = {}
        for (cause, _), ns in self.booked_ns.items():
            found[cause.value] = found.get(cause.value, 0) + ns
        return dict(sorted(found.items(), key=lambda item: -item[1]))

    def share(self, *causes: str) -> float:
        """Share of the excess with one of these causes; a cause that lost less than in clean steps counts as 0."""
        positive = {cause: max(ns, 0) for cause, ns in self.by_cause().items()}
        whole = sum(positive.values())
        return sum(positive.get(cause, 0) for cause in causes) / whole if whole else 0.0

    def culprit(self, *causes: str) -> str:
        """The culprit with most of these causes; "" without one."""
        found: dict[str, float] = {}
        for (cause, culprit), ns in self.booked_ns.items():
            if cause.value in causes and culprit:
                found[culprit] = found.get(culprit, 0) + ns
        return max(found, key=lambda name: found[name], default="")


def truth_of(episode: Episode, recording: Recording) -> Truth:
    """From the recorded steps."""
    faulty = recording.faulty.result()
    return pair([recording.clean.result()], faulty, episode.window, range(episode.ranks), episode.period)


def excess(episode: Episode, recording: Recording, rank: int) -> Excess:
    """Excess over the window of a rank and its aftermath; until the end of the run where it never ends the window."""
    run = recording.faulty
    window = met(run.result(), episode.window)
    steps = run.of(rank)
    begun = [step.start_ns for step in steps if step.number in window]
    paid = [step.end_ns for step in steps if window.end <= step.number < window.end + AFTERMATH]
    first = last_before(run, min(begun, default=steps[-1].end_ns))
    end = first_after(run, max(paid)) + MARGIN if paid else len(run.ticks)
    last = min(end, len(run.ticks) - 1)
    booked = _booked(run, rank, first, last)
    from_ns, to_ns = run.ticks[first].now_ns, run.ticks[last].now_ns
    count = sum(from_ns < step.end_ns <= to_ns for step in steps)
    for key, ns in _usual(recording.clean, rank).items():
        booked[key] = booked.get(key, 0) - ns * count
    return Excess(booked, to_ns - from_ns)


def _usual(run: RecordedRun, rank: int) -> dict[tuple[Cause, str], float]:
    """Lost time of a step without a fault."""
    steps = run.of(rank)
    first = first_after(run, next(step.end_ns for step in steps if step.number >= SETTLING))
    count = sum(step.end_ns > run.ticks[first].now_ns for step in steps)
    if not count:
        return {}
    return {key: ns / count for key, ns in _booked(run, rank, first, len(run.ticks) - 1).items()}


def _booked(run: RecordedRun, rank: int, first: int, last: int) -> dict[tuple[Cause, str], float]:
    """Lost by a rank between two ticks."""
    entries, tgid = books(run, (first, last)), run.tgids.get(rank, 0)
    before = entries[first].get(tgid, {})
    return {key: ns - before.get(key, 0) for key, ns in entries[last].get(tgid, {}).items()}


def goes_back(entries: Iterable[Entry]) -> bool:
    """Whether any sum is smaller than it was a tick before."""
    return any(
        now.get(tgid, {}).get(key, 0) < ns
        for before, now in pairwise(entries)
        for tgid, lost in before.items()
        for key, ns in lost.items()
    )
