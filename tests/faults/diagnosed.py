"""`python -m tests.faults.diagnosed --out DIR [NAME...]`: chains of episodes, and whether they are right.

In: recorded runs, with their cadence. Out: chains by time and rank; a Finding for each episode.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from exporter.causes import Cause
from exporter.chains.chain import Chain, Change
from exporter.pipeline.replay import ReplayedRun
from exporter.units import NANOSECONDS
from tests.faults.episode import End, Episode
from tests.faults.injectors import NotPossible
from tests.faults.job import Window
from tests.faults.recording import SUFFIX, RecordedRun, Recording, load
from tests.faults.registry import EPISODES
from tests.faults.truth import Truth, pair
from tests.support.standin_gpu import built

IMPACT = 0.04
"""A step must be longer by this part, or the fault is none: whatever was injected."""

ACCEPTED = {
    Cause.GPU: {"gpu"},
    Cause.SLOW_RANK: {"slow_rank"},
    Cause.NCCL_HANG: {"nccl_hang"},
    Cause.CUDA_OOM: {"cuda_oom"},
}
"""Causes of an episode that a chain may name, where they are not those of the same name."""


class Event(NamedTuple):
    """One transition. rank: -1 for a process that is no rank."""

    now_ns: int
    rank: int
    change: Change
    chain: Chain


def events_of(run: RecordedRun) -> list[Event]:
    """Transitions that the exporter would have reported, tick by tick."""
    ranks = {tgid: rank for rank, tgid in run.tgids.items()}
    return [
        Event(now_ns, ranks.get(tgid, -1), transition.change, transition.chain)
        for now_ns, (transition, tgid, _) in ReplayedRun(run.ticks).play()
    ]


def first_of(opened: Collection[Event]) -> Event | None:
    """The first chain; one of waiting for a peer only where there is no other."""
    own = [event for event in opened if event.chain.cause is not Cause.PEER_RANK]
    return next(iter(own or opened), None)


def latest_of(event: Event, last: Iterable[Chain]) -> Chain:
    """Its chain as it was when it was resolved, or else opened. last: resolved chains."""
    return next((chain for chain in last if chain.id == event.chain.id), event.chain)


@dataclass(frozen=True)
class Finding:
    """One episode. impact: by which part its steps were longer in the median; None where none ended.

    opened: chains of the faulty run, in order; false_alarms: those before the fault, and those of the clean run.
    """

    episode: Episode
    impact: float | None
    began_ns: int
    ended_ns: int
    opened: tuple[Event, ...]
    false_alarms: tuple[Event, ...]

    @property
    def is_positive(self) -> bool:
        """Whether a chain is expected."""
        if self.episode.cause is None:
            return False
        return self.impact is None or self.impact >= IMPACT

    @property
    def accepted(self) -> set[str]:
        """Causes that are right."""
        return set().union(*(ACCEPTED.get(cause, {cause.value}) for cause in self.episode.causes))

    @property
    def first(self) -> Event | None:
        """The first chain of a rank that has the fault; one of waiting for a peer only where there is no other."""
        return first_of(self.opened)

    @property
    def detected_after_ns(self) -> int | None:
        """Since the fault began."""
        return self.first.now_ns - self.began_ns if self.first else None

    def complaints(self) -> list[str]:
        """What is wrong; nothing when all is right."""
        found = [f"false alarm: {one.chain.cause.value}" for one in self.false_alarms]
        if not self.is_positive:
            return found + [f"not silent: {one.chain.cause.value}" for one in self.opened]
        if self.first is None:
            return found if self.episode.cause is Cause.GPU else [*found, "missed"]
        if self.first.chain.cause.value not in self.accepted:
            found.append(f"cause {self.first.chain.cause.value}")
        by_rank = [one.rank for one in self.opened]
        if len(by_rank) != len(set(by_rank)):
            found.append(f"{len(by_rank)} chains")
        return found


def find(episode: Episode, recording: Recording) -> Finding:
    """The finding of a recorded pair."""
    truth = pair(
        [recording.clean.result()], recording.faulty.result(), episode.window, range(episode.ranks), episode.period
    )
    began_ns, ended_ns = _times(episode, recording.faulty, truth.window)
    opened = [one for one in events_of(recording.faulty) if one.change is Change.OPENED]
    clean = [one for one in events_of(recording.clean) if one.change is Change.OPENED]
    of_fault = tuple(one for one in opened if began_ns <= one.now_ns <= ended_ns + episode.grace_ns)
    others = tuple(one for one in opened if one not in of_fault)
    return Finding(episode, _impact(episode, truth), began_ns, ended_ns, of_fault, (*others, *clean))


def _times(episode: Episode, run: RecordedRun, window: Window) -> tuple[int, int]:
    """From the first step with the fault to the last one."""
    steps = [step for step in run.steps if step.number in window]
    last = run.ticks[-1].now_ns
    if run.injections_ns:
        return run.injections_ns[0]
    began_ns = min((step.start_ns for step in steps), default=max(step.end_ns for step in run.steps))
    if episode.end is not End.WHOLE:
        return began_ns, last
    return began_ns, max((step.end_ns for step in steps), default=last)


def _impact(episode: Episode, truth: Truth) -> float | None:
    if episode.end is not End.WHOLE:
        return None
    rank = episode.culprit_rank or 0
    clean_ns = truth.clean_ns(rank)
    return truth.lost_ns(rank) / clean_ns if clean_ns else None


HEAD = (
    "| episode | impact | expected | after s | reported | severity | contribution | culprit | verdict |\n"
    "| --- | ---: | --- | ---: | --- | --- | ---: | --- | --- |"
)


def row(found: Finding) -> str:
    """One line of the table."""
    first, after_ns = found.first, found.detected_after_ns
    chain = first.chain if first else None
    cells = (
        found.episode.name,
        "-" if found.impact is None else f"{100 * found.impact:+.0f} %",
        "+".join(sorted(found.accepted)) if found.is_positive else "silence",
        "" if after_ns is None else f"{after_ns / NANOSECONDS:.2f}",
        ", ".join(f"{one.chain.cause.value} of rank {one.rank}" for one in found.opened) or "nothing",
        chain.severity.name.lower() if chain else "",
        f"{chain.contribution:.2f}" if chain else "",
        chain.culprits[0][0] if chain and chain.culprits else "",
        "; ".join(found.complaints()) or "right",
    )
    return f"| {' | '.join(cells)} |"


def main() -> int:
    """Exit code 0: the table is a figure, not a test."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.diagnosed", description=__doc__)
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--out", type=Path, metavar="DIR", help="run the episodes, and keep the recordings there")
    where.add_argument("--replay", type=Path, metavar="DIR", help="judge the recordings there")
    parser.add_argument(
        "--seconds", default="8,6,8", metavar="BEFORE,FAULT,AFTER", help="how long each part of a run lasts (8,6,8)"
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="episodes; all, or all that are there")
    asked = parser.parse_args()
    before, fault, after = map(float, asked.seconds.split(","))
    print(HEAD, flush=True)
    for name in asked.names or EPISODES:
        episode = EPISODES[name].lasting(before, fault, after)
        path = (asked.replay or asked.out) / f"{name}{SUFFIX}"
        if asked.out is not None:
            try:
                _record(episode, asked.out)
            except (NotPossible, RuntimeError) as reason:
                print(f"| {name} | not possible here: {reason} |", flush=True)
                continue
        if path.exists():
            print(row(find(episode, load(path))), flush=True)
    return 0


def _record(episode: Episode, folder: Path) -> None:
    from tests.faults.recorder import private_standin, record  # the rest runs without the kernel's programs

    built()
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as libraries:
        private_standin(Path(libraries))
        record(episode, Path(libraries)).save(folder)


if __name__ == "__main__":
    sys.exit(main())
