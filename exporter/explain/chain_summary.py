"""The chains of a time span, from their recorded events: worst first, ranks that wait for a chain's rank below that chain."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from exporter.causes import JOB_CAUSES, Cause
from exporter.chains.chain import Change, End
from exporter.chains.event import ChainEvent
from exporter.history.run import RecordedEvent, Run

_FAILURES = frozenset((Cause.CRASH, Cause.OOM_KILLED, Cause.CUDA_OOM, Cause.NCCL_HANG, Cause.STALLED))
"""The job stands still or has ended. They come before slow steps, which are often their consequence in other ranks."""

CONFIRMATIONS = (Change.CONFIRMED, Change.REFUTED)


class SummaryState(enum.StrEnum):
    """INTERRUPTED: it was open when the exporter stopped, so its end is not known."""

    OPEN = "open"
    RESOLVED = "resolved"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True, slots=True)
class ChainSummary:
    """event: the last one. known_until_unix_ns: its end, or the last time at which it is known to have been open.

    waiting: chains of ranks that waited for this one's rank. advice: the last event that named the culprits' processes.
    evidence: the last one. confirmation: the result of an intervention, if there was one.
    """

    run: int
    event: ChainEvent
    state: SummaryState
    known_until_unix_ns: int
    waiting: tuple[ChainSummary, ...] = ()
    advice: ChainEvent | None = None
    evidence: tuple[str, ...] = ()
    confirmation: ChainEvent | None = None

    @property
    def commands(self) -> tuple[str, ...]:
        """Commands of the remedy, with the culprits' processes if they were ever known."""
        return (self.advice or self.event).commands

    @property
    def duration_ns(self) -> int:
        """As far as it is known."""
        if self.state is SummaryState.RESOLVED:
            return self.event.duration_ns
        return max(self.known_until_unix_ns - self.event.began_unix_ns, self.event.duration_ns)

    @property
    def is_failure(self) -> bool:
        """Whether the job stands still, or has ended that way; not if it recovered."""
        return self.event.cause in _FAILURES and self.event.end is not End.RECOVERED

    @property
    def rank(self) -> str:
        """Empty if it has none."""
        return self.event.identity.rank if self.event.identity else ""


def chain_summaries(
    events: Iterable[RecordedEvent], runs: Mapping[int, Run], live_run: int | None, since_unix_ns: int, now_unix_ns: int
) -> list[ChainSummary]:
    """Chains that were open at some time since then. live_run: id of the run that goes on, None if none does."""
    by_chain: dict[str, list[RecordedEvent]] = {}
    for one in events:
        by_chain.setdefault(one.event.chain_id, []).append(one)
    found = []
    for recorded in by_chain.values():
        summary = _summary(recorded, runs, live_run, now_unix_ns)
        if summary is not None and summary.known_until_unix_ns >= since_unix_ns:
            found.append(summary)
    return sorted(_with_waiting(found), key=_badness)


def _summary(
    recorded: list[RecordedEvent], runs: Mapping[int, Run], live_run: int | None, now_unix_ns: int
) -> ChainSummary | None:
    """None if all but confirmations was pruned from the history."""
    confirmation = next((one.event for one in reversed(recorded) if one.event.change in CONFIRMATIONS), None)
    recorded = [one for one in recorded if one.event.change not in CONFIRMATIONS]
    if not recorded:
        return None
    run, event = recorded[-1]
    newest_first = [one.event for one in reversed(recorded)]
    if event.change is Change.RESOLVED:
        state, until_unix_ns = SummaryState.RESOLVED, event.began_unix_ns + event.duration_ns
    elif run == live_run:
        state, until_unix_ns = SummaryState.OPEN, now_unix_ns
    else:
        state = SummaryState.INTERRUPTED
        until_unix_ns = runs[run].seen_unix_ns if run in runs else event.at_unix_ns
    return ChainSummary(
        run,
        event,
        state,
        until_unix_ns,
        advice=_advice(newest_first) or event,
        evidence=next((one.evidence for one in newest_first if one.evidence), ()),
        confirmation=confirmation,
    )


def _advice(newest_first: Sequence[ChainEvent]) -> ChainEvent | None:
    """The last event with culprits that are known by pid and start, else by pid."""
    by_start = next((one for one in newest_first if one.culprit_tgids and any(one.culprit_start_ticks)), None)
    return by_start or next((one for one in newest_first if one.culprit_tgids), None)


def _badness(summary: ChainSummary) -> tuple[object, ...]:
    event = summary.event
    return (
        not summary.is_failure,
        summary.state is SummaryState.RESOLVED,
        -event.severity,
        event.cause in (Cause.PEER_RANK, *JOB_CAUSES, Cause.CHANGED),
        -len(summary.waiting),
        -event.lost_share,
        -event.began_unix_ns,
    )


def _with_waiting(summaries: list[ChainSummary]) -> list[ChainSummary]:
    """Moves chains of ranks that wait for another rank's chain into that one's `waiting`."""
    roots = {id(one): _root_of(one, summaries) for one in summaries}
    waiting: dict[int, list[ChainSummary]] = {}
    for one in summaries:
        root = roots[id(one)]
        if root is not one:
            waiting.setdefault(id(root), []).append(one)
    return [replace(one, waiting=tuple(waiting.get(id(one), ()))) for one in summaries if roots[id(one)] is one]


def _root_of(summary: ChainSummary, summaries: list[ChainSummary]) -> ChainSummary:
    """The chain that it waits for in the end: rank 1 for rank 2, which waits for rank 3. Itself if two wait for each other."""
    path = [summary]
    while path[-1].event.cause is Cause.PEER_RANK:
        candidates = [one for one in summaries if _is_of_peer(one, path[-1])]
        if not candidates:
            break
        # A chain with a cause of its own comes before one that waits, too.
        best = min(candidates, key=lambda one: (one.event.cause is Cause.PEER_RANK, -one.event.severity))
        if best in path:
            return summary
        path.append(best)
    return path[-1]


def _is_of_peer(one: ChainSummary, waiting: ChainSummary) -> bool:
    """Whether it is a chain of the rank that `waiting` waits for, at the same time. A lasting change delays no other rank."""
    overlaps = (
        one.event.began_unix_ns <= waiting.known_until_unix_ns
        and waiting.event.began_unix_ns <= one.known_until_unix_ns
    )
    is_reason = one.event.cause is not Cause.CHANGED
    return one.run == waiting.run and one.rank == waiting.event.peer != "" and overlaps and is_reason
