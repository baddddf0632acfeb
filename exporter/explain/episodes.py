"""Which episodes were there, how bad, and which of them are one? What was said of chains in, Episodes out, the worst first.

Ranks that wait for another rank of theirs are told with that one's episode, where it has one.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from exporter.causes import Cause
from exporter.chains.chain import Change
from exporter.chains.event import ChainEvent
from exporter.history.run import RecordedEvent, Run

PROOFS = (Change.CONFIRMED, Change.REFUTED)


class EpisodeState(enum.StrEnum):
    """Of an episode, as far as it is known."""

    GOING_ON = "going_on"
    OVER = "over"
    LEFT = "left"  # it went on when the exporter stopped


@dataclass(frozen=True, slots=True)
class EpisodeSummary:
    """report: what was said last. known_until_unix_ns: its end, or up to when it is known to have gone on.

    waiting: episodes of ranks that waited for this one. advice: the last report that knew the culprits' numbers.
    evidence: where its threads were, as it was told last. proof: what an intervention has shown, None where there was none.
    """

    run: int
    report: ChainEvent
    state: EpisodeState
    known_until_unix_ns: int
    waiting: tuple[EpisodeSummary, ...] = ()
    advice: ChainEvent | None = None
    evidence: tuple[str, ...] = ()
    proof: ChainEvent | None = None

    @property
    def commands(self) -> tuple[str, ...]:
        """That help, with the culprits' numbers where they were ever known."""
        return (self.advice or self.report).commands

    @property
    def duration_ns(self) -> int:
        """Of what is known."""
        if self.state is EpisodeState.OVER:
            return self.report.duration_ns
        return max(self.known_until_unix_ns - self.report.began_unix_ns, self.report.duration_ns)

    @property
    def rank(self) -> str:
        """Empty where it has none."""
        return self.report.identity.rank if self.report.identity else ""


def episodes_of(
    told: Iterable[RecordedEvent], runs: Mapping[int, Run], live_run: int | None, since_unix_ns: int, now_unix_ns: int
) -> list[EpisodeSummary]:
    """Those that went on at some time since then. live_run: the run that goes on, None where none does."""
    chains: dict[str, list[RecordedEvent]] = {}
    for one in told:
        chains.setdefault(one.report.chain_id, []).append(one)
    episodes = []
    for chain in chains.values():
        if all(one.report.change in PROOFS for one in chain):
            continue  # of which everything else was pruned
        proof = next((one.report for one in reversed(chain) if one.report.change in PROOFS), None)
        run, report = next(one for one in reversed(chain) if one.report.change not in PROOFS)
        reports = [one.report for one in chain if one.report.change not in PROOFS]
        advice = next((one for one in reversed(reports) if one.culprit_tgids), report)
        evidence = next((one.evidence for one in reversed(reports) if one.evidence), ())
        if report.change is Change.RESOLVED:
            state, until_unix_ns = EpisodeState.OVER, report.began_unix_ns + report.duration_ns
        elif run == live_run:
            state, until_unix_ns = EpisodeState.GOING_ON, now_unix_ns
        else:
            known = runs.get(run)
            state, until_unix_ns = EpisodeState.LEFT, known.seen_unix_ns if known else report.at_unix_ns
        episode = EpisodeSummary(run, report, state, until_unix_ns, advice=advice, evidence=evidence, proof=proof)
        if episode.known_until_unix_ns >= since_unix_ns:
            episodes.append(episode)
    return sorted(_folded(episodes), key=_badness)


def _badness(episode: EpisodeSummary) -> tuple[object, ...]:
    report = episode.report
    return (
        list(EpisodeState).index(episode.state) if episode.state is not EpisodeState.LEFT else 0,
        -report.severity,
        report.cause in (Cause.PEER_RANK, Cause.NOT_HOST),
        -len(episode.waiting),
        -report.lost_share * max(report.contribution, 0.1),
        -report.began_unix_ns,
    )


def _folded(episodes: list[EpisodeSummary]) -> list[EpisodeSummary]:
    """Episodes that wait for another one's rank are put below that one."""
    heads = {id(episode): _head_of(episode, episodes) for episode in episodes}
    waiting: dict[int, list[EpisodeSummary]] = {}
    for episode in episodes:
        head = heads[id(episode)]
        if head is not episode:
            waiting.setdefault(id(head), []).append(episode)
    return [
        replace(episode, waiting=tuple(waiting.get(id(episode), ())))
        for episode in episodes
        if heads[id(episode)] is episode
    ]


def _head_of(episode: EpisodeSummary, episodes: list[EpisodeSummary]) -> EpisodeSummary:
    """Whom it waits for in the end: rank 1 for rank 2, which waits for rank 3. Two that wait for each other stay as they are."""
    seen = [episode]
    while seen[-1].report.cause is Cause.PEER_RANK:
        found = [one for one in episodes if _is_of_peer(one, seen[-1])]
        if not found:
            break
        # One that has a reason of its own, before one that waits as well.
        best = min(found, key=lambda one: (one.report.cause is Cause.PEER_RANK, -one.report.severity))
        if best in seen:
            return episode
        seen.append(best)
    return seen[-1]


def _is_of_peer(one: EpisodeSummary, waiting: EpisodeSummary) -> bool:
    """Whether it is an episode of the rank that is waited for, at the same time."""
    overlaps = (
        one.report.began_unix_ns <= waiting.known_until_unix_ns
        and waiting.report.began_unix_ns <= one.known_until_unix_ns
    )
    return one.run == waiting.run and one.rank == waiting.report.peer != "" and overlaps
