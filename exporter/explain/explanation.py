"""What is to be said? Runs, what was said of chains, and sums of windows in; an Explanation out, for text and JSON."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from exporter.chains.thresholds import STEPS_NEEDED
from exporter.explain.episodes import EpisodeState, EpisodeSummary, episodes_of
from exporter.explain.selection import Selection
from exporter.explain.sums import ProcessSum, Sums
from exporter.history.run import RecordedEvent, RecordedWindows, Run
from exporter.units import NANOSECONDS

GAP_NS = 25 * NANOSECONDS
"""Windows are 7.5 to 11 s long: what is missing for longer was not recorded. Where they are longer, two and a half of them."""

YOUNG_NS = 15 * NANOSECONDS
"""What is usual of a job takes five quiet seconds to learn, which begin once its rank is known, and ten steps."""


class Status(enum.StrEnum):
    """The answer in a word."""

    SLOW = "slow"  # an episode goes on
    LEFT_SLOW = "left_slow"  # one went on when the exporter stopped
    WAS_SLOW = "was_slow"
    FINE = "fine"
    TOO_YOUNG = "too_young"
    NOT_JUDGED = "not_judged"  # chains are off
    NOTHING_SEEN = "nothing_seen"


class Gap(NamedTuple):
    """Nothing was recorded from then to then. is_running: although the exporter was there. is_begin: there is nothing older."""

    began_unix_ns: int
    ended_unix_ns: int
    is_running: bool
    is_begin: bool


@dataclass(frozen=True, slots=True)
class Explanation:
    """Of a span that ends now. episodes: the worst first; those of State.OVER last. run: the latest. is_live: it goes on."""

    since_unix_ns: int
    now_unix_ns: int
    status: Status
    episodes: tuple[EpisodeSummary, ...]
    processes: tuple[ProcessSum, ...]
    gaps: tuple[Gap, ...]
    run: Run | None
    is_live: bool

    def process_of(self, episode: EpisodeSummary) -> ProcessSum | None:
        """What the process of an episode did."""
        return next(
            (one for one in self.processes if one.run == episode.run and one.labels.tgid == episode.report.tgid != 0),
            None,
        )


def explain(
    runs: Sequence[Run],
    told: Iterable[RecordedEvent],
    seen: Iterable[RecordedWindows],
    *,
    selection: Selection,
    since_unix_ns: int,
    now_unix_ns: int,
    with_operations: bool = False,
) -> Explanation:
    """with_operations: whether calls of each process are wanted, too."""
    run = runs[-1] if runs else None
    is_live = run is not None and run.ended_unix_ns is None and now_unix_ns - run.seen_unix_ns <= _patience_ns(run)
    sums = Sums(selection, with_operations=with_operations)
    sums.add(seen)
    chosen = (one for one in told if selection.matches(one.report.identity, one.report.tgid))
    episodes = episodes_of(
        chosen, {one.id: one for one in runs}, run.id if run and is_live else None, since_unix_ns, now_unix_ns
    )
    processes = sums.processes()
    return Explanation(
        since_unix_ns,
        now_unix_ns,
        _status(episodes, processes, run, now_unix_ns),
        tuple(episodes),
        processes,
        tuple(_gaps(sums.spans, runs, since_unix_ns, now_unix_ns)),
        run,
        is_live,
    )


def _patience_ns(run: Run) -> int:
    return max(GAP_NS, int(2.5 * run.cut_seconds * NANOSECONDS))


def _status(
    episodes: Sequence[EpisodeSummary], processes: Sequence[ProcessSum], run: Run | None, now_unix_ns: int
) -> Status:
    states = {episode.state for episode in episodes}
    if EpisodeState.GOING_ON in states:
        return Status.SLOW
    if EpisodeState.LEFT in states:
        return Status.LEFT_SLOW
    if run is not None and not run.has_chains:
        return Status.NOT_JUDGED
    if states:
        return Status.WAS_SLOW
    if not processes:
        return Status.NOTHING_SEEN
    return Status.TOO_YOUNG if all(_is_young(one, now_unix_ns) for one in processes) else Status.FINE


def _is_young(process: ProcessSum, now_unix_ns: int) -> bool:
    """Too young for anything to be usual of it."""
    steps = process.steps.counts.total
    return now_unix_ns - process.began_unix_ns < YOUNG_NS or 0 < steps < STEPS_NEEDED


def _gaps(spans: Sequence[tuple[int, int]], runs: Sequence[Run], since_unix_ns: int, now_unix_ns: int) -> Iterable[Gap]:
    """Where nothing was recorded. The exporter was there where a run of it covers the begin of the gap."""
    longest_ns = max((_patience_ns(run) for run in runs), default=GAP_NS)
    ends = [since_unix_ns, *(ended for _, ended in spans)]
    begins = [*(began for began, _ in spans), now_unix_ns]
    oldest = min((run.began_unix_ns for run in runs), default=now_unix_ns)
    for began, ended in zip(ends, begins, strict=True):
        if ended - began <= longest_ns:
            continue
        is_running = any(run.began_unix_ns < ended and run.seen_unix_ns > began + longest_ns for run in runs)
        yield Gap(began, ended, is_running, began == since_unix_ns and oldest >= ended - longest_ns)
