"""lines: what a person reads of a report."""

from __future__ import annotations

from typing import Any

from exporter.ras.job import KnownJob
from exporter.ras.lines import LINES_MAX, lines_of
from exporter.ras.report import Absence, LaunchGroup, MissingRank, RasCommunicator, Report, UnequalLaunches

JOB = KnownJob(frozenset({8}), frozenset(), frozenset())


def facts(*communicators: RasCommunicator, **changes: Any) -> list[str]:
    """The lines behind the first, without their beginning."""
    report = Report(
        "2.29.1", tuple(one.size for one in communicators), communicators, frozenset(), has_all_members=True
    )
    _, *lines = lines_of(report._replace(**changes), JOB)
    assert all(one.startswith("NCCL RAS: ") for one in lines)
    return [one.removeprefix("NCCL RAS: ") for one in lines]


class TestMissingRanks:
    def test_ranks_of_a_kind_are_one_line(self) -> None:
        missing = (
            MissingRank(3, Absence.SILENT, 43, "10.0.0.2"),
            MissingRank(5, Absence.SILENT),
            MissingRank(1, Absence.DEAD, 41),
        )

        assert facts(RasCommunicator(0xAB, 8, 3, missing)) == [
            "rank 1 (process 41) of 8 in communicator 00000000000000ab is dead for NCCL",
            "ranks 3 (process 43 on 10.0.0.2), 5 of 8 in communicator 00000000000000ab do not answer",
        ]

    def test_many_ranks_are_counted(self) -> None:
        """Eight are named."""
        missing = tuple(MissingRank(rank, Absence.LEFT) for rank in range(20))
        (line,) = facts(RasCommunicator(0xAB, 64, 20, missing))

        assert line == (
            "ranks 0, 1, 2, 3, 4, 5, 6, 7 and 12 more of 64 in communicator 00000000000000ab have left the communicator"
        )

    def test_ranks_without_a_number_are_counted(self) -> None:
        assert facts(RasCommunicator(0xAB, 8, 4)) == ["4 ranks of 8 in communicator 00000000000000ab are missing"]


class TestLaunches:
    def test_ranks_behind_the_others_are_named(self) -> None:
        unequal = UnequalLaunches("AllReduce", (LaunchGroup(1042, 7, tuple(range(7))), LaunchGroup(1041, 1, (7,))))

        assert facts(RasCommunicator(0xAB, 8, unequal=(unequal,))) == [
            "AllReduce: 7 ranks of 8 launched 1042, rank 7 launched 1041 (8 in communicator 00000000000000ab)"
        ]

    def test_old_versions_count_all_collectives_as_one(self) -> None:
        unequal = UnequalLaunches("collective", (LaunchGroup(10, 6), LaunchGroup(9, 2)))
        (line,) = facts(RasCommunicator(0xAB, 8, unequal=(unequal,)))

        assert line.startswith("all collectives: 6 ranks of 8 launched 10, 2 ranks launched 9 ")

    def test_many_counts_are_counted(self) -> None:
        groups = tuple(LaunchGroup(count, 1, (count,)) for count in range(8))
        (line,) = facts(RasCommunicator(0xAB, 8, unequal=(UnequalLaunches("AllReduce", groups),)))

        assert "rank 3 launched 3, and 4 other counts" in line


class TestOthers:
    def test_nothing_noteworthy_is_no_proof(self) -> None:
        """RAS has reported no error in real hangs."""
        assert facts(RasCommunicator(0xAB, 8)) == [
            "no rank is missing, and all ranks have launched the same collectives; RAS does not see every hang"
        ]

    def test_first_line_has_the_version(self) -> None:
        report = Report("2.29.1", (8, 4, 4), (), frozenset(), has_all_members=True)

        assert lines_of(report, JOB)[0] == "NCCL RAS: NCCL 2.29.1 reports 3 communicators, the largest of 8 ranks"

    def test_errors_timeouts_and_processes_have_lines(self) -> None:
        assert facts(RasCommunicator(0xAB, 8, failed=1), timeouts=2, dead=1, unheard=3) == [
            "NCCL itself got no answer 2 times: what follows may be incomplete",
            "1 process of the job is dead for NCCL",
            "3 processes of the job are silent",
            "1 rank of 8 in communicator 00000000000000ab reports an error",
        ]

    def test_communicators_of_this_node_come_first(self) -> None:
        """The job has one of eight ranks here."""
        found = facts(RasCommunicator(0xCD, 64, failed=2), RasCommunicator(0xAB, 8, failed=2))

        assert [line.split()[3] for line in found] == ["8", "64"]

    def test_lines_are_bounded(self) -> None:
        many = [RasCommunicator(number, 8, failed=1) for number in range(100)]
        found = facts(*many)

        assert len(found) == LINES_MAX - 1
        assert found[-1] == "and 90 more lines"
