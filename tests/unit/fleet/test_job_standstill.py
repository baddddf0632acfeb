"""Which rank has not entered a collective that others wait in."""

from __future__ import annotations

from exporter.causes import Cause
from exporter.fleet.job_standstill import standstill_of
from exporter.fleet.jobs import Job, jobs_of
from exporter.fleet.rank_report import Place, RankReport
from tests.support.rank_reports import a_chain, a_rank

ALL, OF_NODE, OF_OTHERS = 1, 2, 3
"""Communicators."""


def standing(rank: int, *places: tuple[int, int, int, int], seconds: float = 50.0, **changes: object) -> RankReport:
    """places: (communicator, rank, ranks, collectives)."""
    return a_rank(rank, places=tuple(Place(*one, seconds) for one in places), **changes)


def job(*ranks: RankReport) -> Job:
    (found,) = jobs_of({f"node{number}": [one] for number, one in enumerate(ranks)})
    return found


def test_rank_that_has_entered_fewer_is_late() -> None:
    """Each on a node of its own; three have entered 42 collectives, rank 2 has entered 41."""
    found = standstill_of(job(*(standing(rank, (ALL, rank, 4, 41 + (rank != 2))) for rank in range(4))), 0.5)

    assert found is not None
    assert [(one.node, one.rank) for one in found.late] == [("node2", "2")]
    assert (found.since_seconds, found.communicator, found.collectives) == (50.0, ALL, 41)


def test_victim_that_is_late_elsewhere_is_not_blamed() -> None:
    """Rank 1 waits for rank 0 in the communicator of their node, and so has not entered the one of all, where 2 and 3 wait."""
    found = standstill_of(
        job(
            standing(0, (ALL, 0, 4, 10), (OF_NODE, 0, 2, 20)),
            standing(1, (ALL, 1, 4, 10), (OF_NODE, 1, 2, 21)),
            standing(2, (ALL, 2, 4, 11)),
            standing(3, (ALL, 3, 4, 11)),
        ),
        0.5,
    )

    assert found is not None
    assert [one.rank for one in found.late] == ["0"]


def test_job_that_goes_on_does_not_stand_still() -> None:
    """Rank 2 has entered one a second ago."""
    ranks = [standing(rank, (ALL, rank, 4, 41 + (rank != 2)), seconds=1.0 if rank == 2 else 50.0) for rank in range(4)]

    assert standstill_of(job(*ranks), 0.5) is None


def test_long_steps_take_their_time() -> None:
    """50 s are less than four steps of 20 s, and more than four of 10 s."""
    ranks = [standing(rank, (ALL, rank, 2, 41 + rank)) for rank in range(2)]

    assert standstill_of(job(*ranks), 20.0) is None
    assert standstill_of(job(*ranks), 10.0) is not None


def test_ranks_that_wait_for_each_other_are_candidates() -> None:
    """They enter two communicators in different orders."""
    found = standstill_of(
        job(
            standing(0, (ALL, 0, 2, 11), (OF_OTHERS, 0, 2, 20)),
            standing(1, (ALL, 1, 2, 10), (OF_OTHERS, 1, 2, 21)),
        ),
        0.5,
    )

    assert found is not None
    assert (found.late, [one.rank for one in found.candidates]) == ((), ["0", "1"])


def test_rank_whose_process_has_ended_is_late() -> None:
    """The others wait for what it will never do."""
    gone = standing(1, (ALL, 1, 2, 41), seconds=0.1, is_gone=True)
    found = standstill_of(job(standing(0, (ALL, 0, 2, 42)), gone), 0.5)

    assert found is not None
    assert [one.rank for one in found.late] == ["1"]


def test_job_in_which_all_have_entered_the_same_may_be_idle() -> None:
    ranks = [standing(rank, (ALL, rank, 2, 41)) for rank in range(2)]

    assert standstill_of(job(*ranks), 0.5) is None


def test_such_a_job_stands_still_where_a_node_reports_it() -> None:
    """Every rank has entered, or the late one is not among those that were seen."""
    ranks = [standing(rank, (ALL, rank, 3, 41), chains=(a_chain(Cause.STALLED),)) for rank in range(3)]

    found, partly = standstill_of(job(*ranks), 0.5), standstill_of(job(*ranks[:2]), 0.5)
    assert found is not None
    assert partly is not None
    assert (found.late, found.is_complete, partly.is_complete) == ((), True, False)
