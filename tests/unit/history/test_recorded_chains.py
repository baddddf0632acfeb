"""recorded_chains: from when to when a chain is known, and whether it has ended."""

from __future__ import annotations

from exporter.chains.chain import Change
from exporter.chains.event import ChainEvent
from exporter.history.recorded_chains import KnownState, RecordedChain, recorded_chains
from exporter.history.run import RecordedEvent
from tests.support.history import NOON, SECOND, a_run, an_event, resolved

NOW_UNIX_NS = NOON + 200 * SECOND


def chains(*events: ChainEvent, live_run: int | None = 1, runs: tuple[int, ...] = (1,)) -> list[RecordedChain]:
    known = {number: a_run(seen_seconds=150.0, id=number) for number in runs}
    return list(recorded_chains([RecordedEvent(1, one) for one in events], known, live_run, NOW_UNIX_NS))


class TestRecordedChains:
    def test_chain_without_an_end_is_open_until_now_in_the_live_run(self) -> None:
        (chain,) = chains(an_event())

        assert (chain.state, chain.known_until_unix_ns) == (KnownState.OPEN, NOW_UNIX_NS)

    def test_chain_of_a_run_that_has_ended_is_known_until_its_last_write(self) -> None:
        (chain,) = chains(an_event(), live_run=None)

        assert (chain.state, chain.known_until_unix_ns) == (KnownState.INTERRUPTED, NOON + 150 * SECOND)

    def test_chain_of_an_unknown_run_is_known_until_its_last_event(self) -> None:
        """The row of the run was removed."""
        (chain,) = chains(an_event(), live_run=None, runs=())

        assert chain.known_until_unix_ns == NOON + SECOND

    def test_events_are_grouped_by_chain_and_experiments_stand_apart(self) -> None:
        first, second = an_event(), an_event(5, chain_id="2" * 32)
        found = chains(first, second, an_event(change=Change.CONFIRMED), resolved(first, 24))

        assert [[one.change for one in chain.events] for chain in found] == [
            [Change.OPENED, Change.RESOLVED],
            [Change.OPENED],
        ]
        assert [len(chain.confirmations) for chain in found] == [1, 0]
        assert found[0].known_until_unix_ns == NOON + 24 * SECOND

    def test_chain_of_which_only_an_experiment_is_left_is_left_out(self) -> None:
        assert chains(an_event(change=Change.REFUTED)) == []
