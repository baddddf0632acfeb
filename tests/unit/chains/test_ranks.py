"""ranks: the rank that others wait for, and the one that is missing."""

from __future__ import annotations

from exporter.chains.ranks import Communicators, Missing, waited_ns
from exporter.chains.span import Collective, Span
from tests.unit.chains.job import SECOND
from tests.unit.chains.states import MS, a_state


def arrived(*counts: int, communicator: int = 77) -> dict[int, dict[int, Collective]]:
    """Processes 1, 2, … of ranks 0, 1, …, which have entered so many collectives."""
    return {number + 1: {communicator: Collective(number, count, 0)} for number, count in enumerate(counts)}


class TestMissing:
    """A rank that has entered fewer collectives than another one."""

    def test_rank_behind_is_missing_since_the_last_arrival(self) -> None:
        communicators = Communicators()
        communicators.update(arrived(7, 7), 10 * SECOND)
        first = communicators.update(arrived(8, 7), 11 * SECOND)
        later = communicators.update(arrived(8, 7), 15 * SECOND)

        assert first == later == [Missing(2, 1, 11 * SECOND, 77)]

    def test_ranks_that_have_all_arrived_miss_none(self) -> None:
        assert Communicators().update(arrived(8, 8, 8), SECOND) == []

    def test_each_rank_behind_is_missing(self) -> None:
        assert [one.rank for one in Communicators().update(arrived(7, 8, 7), SECOND)] == [0, 2]

    def test_another_arrival_restarts_the_time(self) -> None:
        """Rank 0 goes on elsewhere: it does not wait."""
        communicators = Communicators()
        communicators.update(arrived(8, 7), 11 * SECOND)

        assert communicators.update(arrived(9, 7), 12 * SECOND) == [Missing(2, 1, 12 * SECOND, 77)]

    def test_communicators_are_counted_apart(self) -> None:
        """A process alone in its communicator on this node waits for no one here."""
        alone = {3: {78: Collective(0, 5, 0)}}

        assert Communicators().update(arrived(8, 7) | alone, SECOND) == [Missing(2, 1, SECOND, 77)]


class TestAwaited:
    """Who waits for a missing rank."""

    def test_other_members_of_its_communicator_do(self) -> None:
        missing = Missing(2, 1, SECOND, 77)

        assert missing.is_awaited_by(1, {77, 78})
        assert not missing.is_awaited_by(2, {77, 78})
        assert not missing.is_awaited_by(3, {78})


class TestWaited:
    """How much longer a process waited for another rank, than that one for it."""

    @staticmethod
    def _span(rank: int, lag_before_ns: int, lag_ns: int, communicator: int = 77) -> Span:
        before, now = (
            a_state(second, collectives={communicator: Collective(rank, 10 * second, lag)})
            for second, lag in ((1, lag_before_ns), (2, lag_ns))
        )
        return Span(before, now)

    def test_it_is_the_difference_of_their_lags(self) -> None:
        """Rank 1 came 300 ms late in this span, rank 0 by 100 ms."""
        own, other = self._span(0, 50 * MS, 150 * MS), self._span(1, 10 * MS, 310 * MS)

        assert waited_ns(own, [other]) == {"1": 200 * MS}

    def test_rank_that_came_earlier_is_not_waited_for(self) -> None:
        assert waited_ns(self._span(0, 0, 150 * MS), [self._span(1, 0, 50 * MS)]) == {}

    def test_rank_of_another_communicator_is_not_waited_for(self) -> None:
        assert waited_ns(self._span(0, 0, 0), [self._span(1, 0, 50 * MS, communicator=78)]) == {}

    def test_lag_counts_whole_in_a_communicator_that_is_new(self) -> None:
        new = Span(a_state(1), a_state(2, collectives={77: Collective(1, 10, 40 * MS)}))

        assert waited_ns(self._span(0, 0, 0), [new]) == {"1": 40 * MS}
