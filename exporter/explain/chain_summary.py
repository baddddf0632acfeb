"""The chains of a time span, from their recorded events: worst first, ranks that wait for a chain's rank below that chain."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from exporter.causes import JOB_CAUSES, Cause
from exporter.chains.chain import End
from exporter.chains.event import ChainEvent
from exporter.history.recorded_chains import KnownState, RecordedChain, recorded_chains
from exporter.history.run import RecordedEvent, Run
from exporter.python.call_site import CallSite
from exporter.ras.line import is_of_ras

_FAILURES = frozenset((Cause.CRASH, Cause.OOM_KILLED, Cause.CUDA_OOM, Cause.NCCL_HANG, Cause.STALLED))
"""The job stands still or has ended. They come before slow steps, which are often their consequence in other ranks."""


@dataclass(frozen=True, slots=True)
class ChainSummary:
    """event: the last one. known_until_unix_ns: its end, or the last time at which it is known to have been open.

    waiting: chains of ranks that waited for this one's rank. advice: the last event that named the culprits' processes.
    evidence: the last one. ras: the last one of NCCL's RAS. confirmation: the result of an intervention, if there was one.
    call_sites: slow calls of its process while it was open, by line of Python, those with the most time first.
    """

    run: int
    event: ChainEvent
    state: KnownState
    known_until_unix_ns: int
    waiting: tuple[ChainSummary, ...] = ()
    advice: ChainEvent | None = None
    evidence: tuple[str, ...] = ()
    ras: tuple[str, ...] = ()
    confirmation: ChainEvent | None = None
    call_sites: tuple[CallSite, ...] = ()

    @property
    def commands(self) -> tuple[str, ...]:
        """Commands of the remedy, with the culprits' processes if they were ever known."""
        return (self.advice or self.event).commands

    def has(self, chain_id: str) -> bool:
        """Whether it is this chain, or one that waits for it is."""
        return self.event.chain_id == chain_id or any(one.has(chain_id) for one in self.waiting)

    @property
    def duration_ns(self) -> int:
        """As far as it is known."""
        if self.state is KnownState.RESOLVED:
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
    found = (_summary(one) for one in recorded_chains(events, runs, live_run, now_unix_ns))
    return sorted(_with_waiting([one for one in found if one.known_until_unix_ns >= since_unix_ns]), key=_badness)


def with_call_sites(chain: ChainSummary, found: Mapping[str, tuple[CallSite, ...]]) -> ChainSummary:
    """The chain, and those that wait for it, with call sites by id of the chain."""
    waiting = tuple(with_call_sites(one, found) for one in chain.waiting)
    return replace(chain, call_sites=found.get(chain.event.chain_id, ()), waiting=waiting)


def _summary(chain: RecordedChain) -> ChainSummary:
    newest_first = chain.events[::-1]
    return ChainSummary(
        chain.run,
        chain.last,
        chain.state,
        chain.known_until_unix_ns,
        advice=_advice(newest_first) or chain.last,
        evidence=next((one.evidence for one in newest_first if one.evidence and not is_of_ras(one.evidence)), ()),
        ras=next((one.evidence for one in newest_first if is_of_ras(one.evidence)), ()),
        confirmation=chain.confirmations[-1] if chain.confirmations else None,
    )


def _advice(newest_first: Sequence[ChainEvent]) -> ChainEvent | None:
    """The last event with the present culprit that is known by pid and start, else by pid."""
    known = [one for one in newest_first if one.culprit_tgids and one.culprit == newest_first[0].culprit]
    return next((one for one in known if any(one.culprit_start_ticks)), next(iter(known), None))


def _badness(summary: ChainSummary) -> tuple[object, ...]:
    event = summary.event
    return (
        not summary.is_failure,
        summary.state is KnownState.RESOLVED,
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
