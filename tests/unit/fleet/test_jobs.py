"""Ranks of several nodes as jobs."""

from __future__ import annotations

from exporter.fleet.jobs import jobs_of
from exporter.fleet.rank_report import RankReport
from tests.support.rank_reports import a_place, a_rank


def ranks(*numbers: int, ranks_of_job: int = 4, communicator: int = 1) -> list[RankReport]:
    return [a_rank(one, places=(a_place(one, ranks_of_job, communicator=communicator),)) for one in numbers]


class TestGroups:
    def test_ranks_of_two_nodes_are_one_job(self) -> None:
        (job,) = jobs_of({"a": ranks(0, 1), "b": ranks(2, 3)})

        assert [(one.node, one.rank) for one in job.members] == [("a", "0"), ("a", "1"), ("b", "2"), ("b", "3")]
        assert (job.ranks, job.unseen, job.conflicts) == (4, 0, ())

    def test_jobs_of_one_node_stay_apart(self) -> None:
        found = jobs_of({"a": [*ranks(0, ranks_of_job=2), *ranks(0, ranks_of_job=2, communicator=2)]})

        assert [len(job.members) for job in found] == [1, 1]

    def test_communicators_of_some_ranks_join_them(self) -> None:
        """0 and 1 share one, 1 and 2 another one: no communicator has all."""
        both = a_rank(1, places=(a_place(1, 2, communicator=1), a_place(0, 2, communicator=2)))
        last = a_rank(2, places=(a_place(1, 2, communicator=2),))
        (job,) = jobs_of({"a": ranks(0, ranks_of_job=2), "b": [both], "c": [last]})

        assert {one.rank for one in job.members} == {"0", "1", "2"}

    def test_ranks_that_no_node_has_reported_are_counted(self) -> None:
        (job,) = jobs_of({"a": ranks(0, 2)})

        assert (job.unseen, job.unseen_ranks()) == (2, (1, 3))

    def test_job_that_is_over_is_left_out(self) -> None:
        assert jobs_of({"a": [a_rank(0, is_gone=True)]}) == []

    def test_process_without_communicators_is_of_no_job(self) -> None:
        assert jobs_of({"a": [a_rank(0, places=())]}) == []

    def test_rank_is_that_of_the_launcher_if_it_is_known(self) -> None:
        """Place 0 of its communicator, rank 5 of the job."""
        (job,) = jobs_of({"a": [a_rank(5, places=(a_place(0, 2),))]})

        assert [one.rank for one in job.members] == ["5"]


class TestClaims:
    def test_rank_that_two_nodes_claim_is_a_conflict(self) -> None:
        """Neither is believed."""
        (job,) = jobs_of({"a": ranks(0, 1), "b": ranks(2, 3), "mallory": ranks(3)})

        assert [one.rank for one in job.members] == ["0", "1", "2"]
        assert [(claim.rank, [one.node for one in claim.members]) for claim in job.conflicts] == [(3, ["b", "mallory"])]

    def test_process_that_has_ended_claims_nothing(self) -> None:
        """Rank 3 was restarted on another node."""
        old = a_rank(3, is_gone=True)
        (job,) = jobs_of({"a": [*map(a_rank, (0, 1, 2)), old], "b": [a_rank(3)]})

        assert job.conflicts == ()

    def test_other_size_of_a_communicator_is_a_conflict(self) -> None:
        """One says that there are eight ranks, three that there are four."""
        (job,) = jobs_of({"a": ranks(0, 1, 2), "mallory": ranks(7, ranks_of_job=8)})

        assert [one.node for one in job.members] == ["a", "a", "a"]
        assert [[one.node for one in claim.members] for claim in job.conflicts] == [["mallory"]]
        assert job.ranks == 4

    def test_claimant_joins_no_jobs(self) -> None:
        """It claims a rank of each of two jobs that others have."""
        claims = a_rank(0, places=(a_place(0, 2, communicator=1), a_place(0, 2, communicator=2)))
        one, other = ranks(0, 1, ranks_of_job=2), ranks(0, 1, ranks_of_job=2, communicator=2)
        found = jobs_of({"a": one, "b": other, "mallory": [claims]})

        assert [[member.node for member in job.members] for job in found] == [["a"], ["b"]]
