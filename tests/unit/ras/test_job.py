"""job: which processes are of one job, and whether an answer is about it."""

from __future__ import annotations

import pytest

from exporter.kernel.process_rows import CommunicatorRow
from exporter.ras.job import KnownJob, LocalJob, is_about, job_of, known_job
from exporter.ras.report import RankProcess, Report


def row(hash_: int, rank: int, ranks: int) -> CommunicatorRow:
    return CommunicatorRow(hash_, 0, rank, ranks, 1)


def a_report(*members: RankProcess, sizes: tuple[int, ...] = (2,), has_all_members: bool = True) -> Report:
    return Report("2.29.1", sizes, (), frozenset(members), has_all_members)


class TestJob:
    def test_processes_that_share_communicators_are_one_job(self) -> None:
        """Process 1 shares one with 2, and that another one with 3. Process 9 is of another job."""
        rows = {
            1: [row(10, 0, 2)],
            2: [row(10, 1, 2), row(20, 0, 2)],
            3: [row(20, 1, 2)],
            9: [row(90, 0, 2)],
        }

        assert job_of(1, rows) == job_of(3, rows) == LocalJob((1, 2, 3), frozenset({10, 20}))

    def test_communicators_whose_creation_was_not_traced_join_nothing(self) -> None:
        """Their hash is 0."""
        rows = {1: [row(0, -1, 0)], 2: [row(0, -1, 0)]}

        assert job_of(1, rows) == LocalJob((1,), frozenset())

    def test_members_have_the_ids_of_the_jobs_own_namespace(self) -> None:
        rows = {1: [row(10, 0, 2), row(0, -1, 0)], 2: [row(10, 1, 2)]}
        known = known_job(LocalJob((1, 2)), rows, {1: 7, 2: 8})

        assert known == KnownJob(
            frozenset({2}), frozenset({RankProcess(2, 0, 7), RankProcess(2, 1, 8)}), frozenset({7, 8})
        )


class TestIsAbout:
    """The port may be that of another job."""

    JOB = KnownJob(frozenset({2}), frozenset({RankProcess(2, 0, 7)}), frozenset({7}))

    def test_rank_with_the_same_process(self) -> None:
        assert is_about(a_report(RankProcess(2, 0, 7), RankProcess(2, 1, 8)), self.JOB)

    @pytest.mark.parametrize("other", [RankProcess(2, 0, 9), RankProcess(2, 1, 7), RankProcess(4, 0, 7)])
    def test_another_process_rank_or_size(self, other: RankProcess) -> None:
        assert not is_about(a_report(other), self.JOB)

    @pytest.mark.parametrize(("tgid", "is_it"), [(7, True), (9, False)])
    def test_process_id_where_no_creation_was_traced(self, tgid: int, is_it: bool) -> None:
        job = KnownJob(frozenset(), frozenset(), frozenset({7}))

        assert is_about(a_report(RankProcess(2, 0, tgid)), job) is is_it

    @pytest.mark.parametrize(("sizes", "is_it"), [((8, 2), True), ((8, 4), False)])
    def test_text_is_compared_by_sizes(self, sizes: tuple[int, ...], is_it: bool) -> None:
        assert is_about(a_report(sizes=sizes, has_all_members=False), self.JOB) is is_it
