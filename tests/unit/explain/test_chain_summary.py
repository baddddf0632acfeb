"""chain_summary: the state of chains from their events, their order, and ranks that wait for a chain."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from exporter.causes import Cause
from exporter.chains.chain import Change, Present, Severity
from exporter.chains.event import ChainEvent
from exporter.explain.chain_summary import ChainSummary, chain_summaries
from exporter.history.recorded_chains import KnownState
from exporter.history.run import RecordedEvent
from exporter.model import Identity
from tests.support.history import NOON, SECOND, a_run, an_event, resolved

NOW_SECONDS = 200


def summaries(
    *events: ChainEvent, live_run: int | None = 1, since_seconds: int = -100, runs: Sequence[int] = (1,)
) -> list[ChainSummary]:
    """Summaries of events of run 1, at NOW_SECONDS."""
    return chain_summaries(
        [RecordedEvent(1, event) for event in events],
        {number: a_run(seen_seconds=150.0, id=number) for number in runs},
        live_run,
        NOON + since_seconds * SECOND,
        NOON + NOW_SECONDS * SECOND,
    )


def of_rank(rank: str, peer: str = "", **changes: Any) -> ChainEvent:
    """A chain of a rank, which waits for `peer` if there is one."""
    known: dict[str, Any] = {
        "identity": Identity(node="gpu7", rank=rank),
        "chain_id": rank * 32,
        "cause": Cause.PEER_RANK if peer else Cause.LOCK,
        "peer": peer,
    }
    return an_event(**(known | changes))


class TestState:
    def test_chain_without_an_end_is_open_in_the_live_run(self) -> None:
        (chain,) = summaries(an_event())

        assert (chain.state, chain.duration_ns) == (KnownState.OPEN, NOW_SECONDS * SECOND)

    def test_chain_without_an_end_is_interrupted_in_an_earlier_run(self) -> None:
        """It is known until the last write of that run."""
        (chain,) = summaries(an_event(), live_run=None)

        assert (chain.state, chain.known_until_unix_ns) == (KnownState.INTERRUPTED, NOON + 150 * SECOND)

    def test_chain_with_an_end_is_resolved(self) -> None:
        (chain,) = summaries(an_event(), resolved(an_event(), 24))

        assert (chain.state, chain.duration_ns) == (KnownState.RESOLVED, 24 * SECOND)

    def test_chain_that_ended_before_the_time_span_is_left_out(self) -> None:
        assert summaries(resolved(an_event(), 24), since_seconds=25) == []


class TestEvents:
    def test_last_event_with_culprits_gives_the_commands(self) -> None:
        """A later event may not know them any more."""
        later = an_event(change=Change.ESCALATED, culprit_tgids=(), commands=("nothing",))
        (chain,) = summaries(an_event(), later)

        assert chain.event == later
        assert chain.commands == an_event().commands

    def test_commands_against_an_earlier_culprit_are_not_offered(self) -> None:
        """Another program is to blame now, whose process is not known: its event has the commands, not that of the first one."""
        now = Present(0.3, 0.4, (("backup", 1.0),))
        later = an_event(change=Change.UPDATED, culprit_tgids=(), commands=("look",), now=now)
        (chain,) = summaries(an_event(), later)

        assert chain.commands == ("look",)

    def test_confirmation_is_not_the_last_event(self) -> None:
        confirmed = an_event(change=Change.CONFIRMED, evidence=("steps took …",))
        (chain,) = summaries(an_event(), confirmed)

        assert (chain.event, chain.confirmation) == (an_event(), confirmed)

    def test_evidence_that_comes_after_the_end_does_not_open_it_again(self) -> None:
        """A thread of its own has collected it."""
        late = an_event(change=Change.EVIDENCE, evidence=("thread 1",))
        (chain,) = summaries(an_event(), resolved(an_event(), 24), late)

        assert (chain.state, chain.evidence) == (KnownState.RESOLVED, ("thread 1",))

    def test_confirmation_alone_makes_no_chain(self) -> None:
        """The other events were pruned from the history."""
        assert summaries(an_event(change=Change.REFUTED)) == []

    def test_last_evidence_is_kept(self) -> None:
        (chain,) = summaries(
            an_event(change=Change.EVIDENCE, evidence=("thread 1",)), an_event(change=Change.ESCALATED)
        )

        assert chain.evidence == ("thread 1",)

    def test_view_of_nccl_does_not_take_the_place_of_stacks(self) -> None:
        """Whichever came last; an earlier view is replaced by a later one."""
        stacks = an_event(change=Change.EVIDENCE, evidence=("thread 1",))
        views = [an_event(change=Change.EVIDENCE, evidence=(f"NCCL RAS: {number}",)) for number in (1, 2)]
        for events in ([views[0], stacks, views[1]], [views[0], views[1], stacks]):
            (chain,) = summaries(an_event(), *events)

            assert (chain.evidence, chain.ras) == (("thread 1",), ("NCCL RAS: 2",))


class TestOrder:
    def test_open_chains_come_before_resolved_ones(self) -> None:
        over = resolved(an_event(chain_id="2" * 32, severity=Severity.CRITICAL), 24)

        assert [one.event.chain_id[0] for one in summaries(over, an_event())] == ["1", "2"]

    def test_higher_severity_comes_first(self) -> None:
        worse = an_event(chain_id="2" * 32, severity=Severity.CRITICAL)

        assert [one.event.chain_id[0] for one in summaries(an_event(), worse)] == ["2", "1"]


class TestWaiting:
    def test_rank_that_waits_stands_below_the_chain_of_its_peer(self) -> None:
        (chain,) = summaries(of_rank("1"), of_rank("2", peer="1"))

        assert (chain.rank, [one.rank for one in chain.waiting]) == ("1", ["2"])

    def test_waiting_ranks_are_followed_to_the_first_cause(self) -> None:
        """Rank 3 waits for rank 2, which waits for rank 1."""
        (chain,) = summaries(of_rank("1"), of_rank("2", peer="1"), of_rank("3", peer="2"))

        assert (chain.rank, sorted(one.rank for one in chain.waiting)) == ("1", ["2", "3"])

    def test_ranks_that_wait_for_each_other_stay_apart(self) -> None:
        assert len(summaries(of_rank("1", peer="2"), of_rank("2", peer="1"))) == 2

    def test_chain_of_the_peer_at_another_time_does_not_count(self) -> None:
        """It ended 76 s before the wait began."""
        chains = summaries(resolved(of_rank("1"), 24), of_rank("2", peer="1", began_seconds=100.0))

        assert [len(one.waiting) for one in chains] == [0, 0]

    def test_lasting_change_of_the_peer_is_no_reason_to_wait(self) -> None:
        """It costs nothing, so the rank that waits has a verdict of its own."""
        chains = summaries(of_rank("1", cause=Cause.CHANGED, severity=Severity.LOW), of_rank("2", peer="1"))

        assert [(one.rank, len(one.waiting)) for one in chains] == [("2", 0), ("1", 0)]

    def test_rank_that_waits_stands_below_the_worst_of_several_chains(self) -> None:
        """Rank 1 has two at a time."""
        lock, disk = of_rank("1"), of_rank("1", cause=Cause.BLOCK_IO, severity=Severity.CRITICAL, chain_id="d" * 32)
        chains = summaries(lock, disk, of_rank("2", peer="1"))

        assert [(one.event.cause, len(one.waiting)) for one in chains] == [(Cause.BLOCK_IO, 1), (Cause.LOCK, 0)]
