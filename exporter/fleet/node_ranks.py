"""The report of a node about its ranks, from its history.

In: runs, chain events, windows and memberships of a span that ends now, by this node's clock. Out: a NodeReport.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from exporter.causes import largest_culprit
from exporter.fleet.rank_report import (
    CAUSES_MAX,
    CHAINS_MAX,
    PLACES_MAX,
    RANKS_OF_NODE_MAX,
    SLICES_MAX,
    NodeReport,
    Place,
    RankReport,
    RankSlice,
    ReportedChain,
)
from exporter.history.as_of import known_now
from exporter.history.membership import RecordedMembership
from exporter.history.reader import opened
from exporter.history.recorded_chains import KnownState, RecordedChain, recorded_chains
from exporter.history.run import RecordedEvent, RecordedWindows, Run
from exporter.history.scope import EVERYTHING, Scope
from exporter.history.window import ProcessLabels, Window
from exporter.model import Identity
from exporter.python.call_site import LINES, CallStack
from exporter.units import NANOSECONDS, seconds

RANKS_PATH: Final = "/api/v1/ranks"
"""Where `serve` has the report."""
SLICE_SECONDS: Final = 15.0
"""Two windows at most, or longer in a long span."""

_WAITING, _COMPUTING = "gpu_wait", "on_cpu"

_Key = tuple[int, int]
"""Run and number of a process."""


class ReportSpan(NamedTuple):
    """Both by this node's clock."""

    since_unix_ns: int
    now_unix_ns: int

    @property
    def slice_ns(self) -> int:
        shortest_ns = int(SLICE_SECONDS * NANOSECONDS)
        return max(shortest_ns, -(-(self.now_unix_ns - self.since_unix_ns) // (SLICES_MAX - 1)))

    def age_seconds(self, unix_ns: int) -> float:
        """0 for what comes later."""
        return seconds(max(self.now_unix_ns - unix_ns, 0))


def node_report(path: Path, since_seconds: float, scope: Scope = EVERYTHING) -> NodeReport:
    """The report of the history at a path, as of now. Raises what opened() raises."""
    now_unix_ns = time.time_ns()
    span = ReportSpan(max(now_unix_ns - int(since_seconds * NANOSECONDS), 0), now_unix_ns)
    with opened(path, scope=scope) as history:
        known = known_now(history, span.since_unix_ns, now_unix_ns)
        memberships = history.memberships(span.since_unix_ns)
        return report_of(known.runs, known.events, known.windows, memberships, span)


def report_of(
    runs: Sequence[Run],
    events: Iterable[RecordedEvent],
    windows: Iterable[RecordedWindows],
    memberships: Iterable[RecordedMembership],
    span: ReportSpan,
) -> NodeReport:
    """Those ranks first that have communicators or chains."""
    last = runs[-1] if runs else None
    is_live = last is not None and last.is_live(span.now_unix_ns)
    live_run = last.id if last is not None and is_live else None
    last_run = last.id if last is not None else None
    known = recorded_chains(events, {run.id: run for run in runs}, live_run, span.now_unix_ns)
    chains = [one for one in known if one.known_until_unix_ns >= span.since_unix_ns]
    ranks = _Ranks(span, chains)
    for recorded in windows:
        ranks.add_windows(recorded)
    for one in memberships:
        if one.run == last_run:  # of an earlier one it is not known what has become of the process
            ranks.add_membership(one)
    reports = sorted(ranks.reports(last_run), key=lambda one: (not one.places, not one.chains, one.is_gone))
    return NodeReport(
        seconds(span.now_unix_ns - span.since_unix_ns),
        is_live,
        last is not None and last.has_chains,
        span.age_seconds(last.seen_unix_ns) if last is not None else 0.0,
        tuple(reports[:RANKS_OF_NODE_MAX]),
        max(len(reports) - RANKS_OF_NODE_MAX, 0),
    )


class _Sum:
    """Windows of a process that end in one slice."""

    def __init__(self) -> None:
        self.ended_unix_ns = self.covered_ns = 0
        self.steps = self.step_ns = self.waiting_ns = self.computing_ns = 0
        self.lost_ns: Counter[str] = Counter()

    def add(self, window: Window) -> None:
        self.ended_unix_ns = max(self.ended_unix_ns, window.ended_unix_ns)
        self.covered_ns += max(window.duration_ns, 0)
        self.steps += window.steps.counts.total
        self.step_ns += window.steps.sum_ns
        self.waiting_ns += window.states_ns.get(_WAITING, 0)
        self.computing_ns += window.states_ns.get(_COMPUTING, 0)
        self.lost_ns.update(window.lost_ns)

    def slice(self, span: ReportSpan) -> RankSlice:
        lost = {name: seconds(ns) for name, ns in self.lost_ns.most_common(CAUSES_MAX) if ns > 0}
        return RankSlice(
            span.age_seconds(self.ended_unix_ns),
            seconds(self.covered_ns),
            max(self.steps, 0),
            seconds(max(self.step_ns, 0)),
            seconds(max(self.waiting_ns, 0)),
            seconds(max(self.computing_ns, 0)),
            lost,
        )


class _Rank:
    """What is known of a process."""

    def __init__(self, labels: ProcessLabels) -> None:
        self.labels = labels
        self.places: list[RecordedMembership] = []
        self.sums: dict[int, _Sum] = {}
        self.lines_ns: Counter[CallStack] = Counter()


class _Ranks:
    """All processes of the span, and their chains."""

    def __init__(self, span: ReportSpan, chains: Sequence[RecordedChain]) -> None:
        self._span = span
        self._chains = chains
        self._of: dict[_Key, _Rank] = {}
        self._ended_unix_ns: dict[int, int] = {}  # run -> end of its last windows

    def add_windows(self, recorded: RecordedWindows) -> None:
        self._ended_unix_ns[recorded.run] = recorded.ended_unix_ns
        number = self._span.now_unix_ns - recorded.ended_unix_ns
        for window in recorded.windows:
            rank = self._of.setdefault((recorded.run, window.process), _Rank(window.labels))
            rank.labels = window.labels  # these may become known later than the first window
            rank.sums.setdefault(number // self._span.slice_ns, _Sum()).add(window)
            for site in window.call_sites:
                if site.stack.frames:
                    rank.lines_ns[site.stack] += site.total_ns

    def add_membership(self, one: RecordedMembership) -> None:
        known = one.membership
        rank = self._of.setdefault((one.run, known.process), _Rank(known.labels))
        rank.places.append(one)
        self._ended_unix_ns[one.run] = max(self._ended_unix_ns.get(one.run, 0), one.seen_unix_ns)

    def reports(self, last_run: int | None) -> Iterator[RankReport]:
        """Also of chains whose process has neither windows nor communicators."""
        shown: set[str] = set()
        for (run, _), rank in self._of.items():
            chains = [one for one in self._chains if _is_of(one, run, rank.labels)]
            shown |= {one.last.chain_id for one in chains}
            yield self._report(rank, chains, is_gone=run != last_run or self._has_ended(run, rank))
        for chain in self._chains:
            if chain.last.chain_id not in shown:
                labels = ProcessLabels(chain.last.identity or Identity(), chain.last.tgid, "")
                yield self._report(_Rank(labels), [chain], is_gone=chain.run != last_run)

    def _has_ended(self, run: int, rank: _Rank) -> bool:
        """A process that does nothing has no windows, but it keeps its communicators."""
        return bool(rank.places) and max(one.seen_unix_ns for one in rank.places) < self._ended_unix_ns[run]

    def _report(self, rank: _Rank, chains: Sequence[RecordedChain], *, is_gone: bool) -> RankReport:
        worst_first = sorted(chains, key=lambda one: (one.state is KnownState.RESOLVED, -one.last.severity))
        latest_first = sorted(rank.places, key=lambda one: (-one.seen_unix_ns, -one.membership.ranks))
        return RankReport(
            rank.labels.identity,
            rank.labels.tgid,
            rank.labels.comm,
            is_gone,
            tuple(map(_place, latest_first[:PLACES_MAX])),
            tuple(rank.sums[number].slice(self._span) for number in sorted(rank.sums, reverse=True)[-SLICES_MAX:]),
            tuple(self._chain(one, rank.lines_ns) for one in worst_first[:CHAINS_MAX]),
        )

    def _chain(self, chain: RecordedChain, lines_ns: Mapping[CallStack, int]) -> ReportedChain:
        event = chain.last
        return ReportedChain(
            event.chain_id,
            event.cause,
            chain.state.value,
            event.severity.name.lower(),
            self._span.age_seconds(event.began_unix_ns),
            self._span.age_seconds(chain.known_until_unix_ns),
            max(event.lost_share, 0.0),
            seconds(max(event.usual_step_ns, 0)),
            largest_culprit(event.present.culprits),
            event.peer,
            _line(chain, lines_ns),
            event.detail,
        )


def _is_of(chain: RecordedChain, run: int, labels: ProcessLabels) -> bool:
    event = chain.last
    if chain.run != run:
        return False
    return event.tgid == labels.tgid if event.tgid and labels.tgid else event.identity == labels.identity


def _place(one: RecordedMembership) -> Place:
    known = one.membership
    still_ns = max(one.seen_unix_ns - known.entered_unix_ns, 0)
    return Place(known.communicator, known.rank, known.ranks, known.collectives, seconds(still_ns))


def _line(chain: RecordedChain, lines_ns: Mapping[CallStack, int]) -> str:
    """Where the evidence says that most time was spent; without any, where most slow calls of the process were made."""
    for event in reversed(chain.events):
        if event.evidence[:1] == (LINES,) and len(event.evidence) > 1:
            return event.evidence[1].strip()
    return max(lines_ns, key=lambda one: lines_ns[one]).place if lines_ns else ""
