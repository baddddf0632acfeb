"""text_form: the text of NCCL 2.24 and later, and what is no report."""

from __future__ import annotations

import pytest

from exporter.ras.report import Absence, LaunchGroup, MissingRank, RankProcess, UnequalLaunches
from exporter.ras.text_form import TEXT_BYTES_MAX, report_of_text
from exporter.text.untrusted import Untrusted
from tests.support.ras_answers import EIGHT_INCOMPLETE, EIGHT_MISMATCH, EIGHT_OK, in_text

HASH = 0xCF264AF53EDBE986

SILENT_2_24 = """\
INCOMPLETE
  Missing communicator data from 1 job process
  Process 4705 on node 10.0.0.2 managing GPU 1

#0-0 (cf264af53edbe986) INCOMPLETE
  Missing communicator data from 1 rank
  The missing rank: 5
"""
SILENT_2_26 = """\
#0-0 (cf264af53edbe986) INCOMPLETE
  Missing communicator data from 2 ranks
  Rank 5 -- GPU 1 managed by process 4705 on node 10.0.0.2
  Rank 6 -- [process information not found]
"""
DEAD = """\
DEAD
  1 job process is considered dead (unreachable via the RAS network)
  Process 4705 on node 10.0.0.2 managing GPU 1

#0-0 (cf264af53edbe986) INCOMPLETE
  Missing communicator data from 1 rank
  Rank 5 -- GPU 1 (NVML 3) managed by process 4705 on node 10.0.0.2
"""
TIMEOUT = """\
TIMEOUT
  Encountered 2 communication timeouts while gathering communicator data
"""
LAUNCHES_2_24 = """\
#0-0 (cf264af53edbe986) MISMATCH
  Communicator ranks have different collective operation counts
  6 ranks have launched up to operation 6650
  2 ranks have launched up to operation 6649
  Rank 0 -- GPU 0 managed by process 4700 on node 10.0.0.1
  Rank 7 -- GPU 3 managed by process 4707 on node 10.0.0.2
"""
LAUNCHES_2_26 = """\
#0-0 (cf264af53edbe986) MISMATCH
  Communicator ranks have different AllReduce operation counts
  7 ranks have launched up to operation 100
  Rank 5 has launched up to operation 99 -- GPU 1 managed by process 4705 on node 10.0.0.2

  Communicator ranks have different Broadcast operation counts
  7 ranks have launched up to operation 3
  Rank 5 has not launched any operations -- GPU 1 managed by process 4705 on node 10.0.0.2
"""
STATUS_2_26 = """\
#0-0 (cf264af53edbe986) MISMATCH
  Communicator ranks have different status
  6 ranks have status RUNNING
  Rank 1 has status FINALIZE -- GPU 1 managed by process 4701 on node 10.0.0.1
  Rank 5 has status NOCOMM -- GPU 1 managed by process 4705 on node 10.0.0.2
"""
STATUS_2_24 = """\
#0-0 (cf264af53edbe986) MISMATCH
  Communicator ranks have different status
  6 ranks have status RUNNING
  2 ranks have status UNKNOWN
  The unknown ranks: 3,5
"""
ERRORS = """\
#0-0 (cf264af53edbe986) ERROR
  Asynchronous errors on 2 ranks
  2 ranks reported Remote process error
  Rank 3 -- GPU 3 managed by process 4703 on node 10.0.0.1
  Rank 4 -- GPU 0 managed by process 4704 on node 10.0.0.2
"""


class TestReport:
    """What is in it."""

    def test_whole_job_has_nothing_noteworthy(self) -> None:
        report = report_of_text(in_text(EIGHT_OK))

        assert (report.version, report.sizes, report.communicators) == ("2.26.2", (8,), ())

    def test_groups_have_as_many_sizes_as_communicators(self) -> None:
        more = "    1         7         4         1         4        28   RUNNING      OK\n"

        assert report_of_text(in_text(EIGHT_OK + more)).sizes == (8, 4, 4, 4, 4, 4, 4, 4)

    def test_silent_rank_before_2_26_has_no_process(self) -> None:
        report = report_of_text(in_text(EIGHT_INCOMPLETE, SILENT_2_24, version="2.24.3"))
        (communicator,) = report.communicators

        assert (communicator.hash, communicator.size) == (HASH, 8)
        assert communicator.missing == (MissingRank(5, Absence.SILENT),)
        assert report.unheard == 1

    def test_silent_ranks_since_2_26_have_processes(self) -> None:
        """Unless NCCL does not know them."""
        (communicator,) = report_of_text(in_text(EIGHT_INCOMPLETE, SILENT_2_26)).communicators

        known = MissingRank(5, Absence.SILENT, 4705, "10.0.0.2")
        assert communicator.missing == (known, MissingRank(6, Absence.SILENT))
        assert communicator.missing_count == 2

    def test_rank_of_a_dead_process_is_dead(self) -> None:
        report = report_of_text(in_text(EIGHT_INCOMPLETE, DEAD))

        assert report.communicators[0].missing == (MissingRank(5, Absence.DEAD, 4705, "10.0.0.2"),)
        assert report.dead == 1

    def test_count_without_ranks_is_known(self) -> None:
        """NCCL does not name ranks if they are half of them."""
        errors = "#0-0 (cf264af53edbe986) INCOMPLETE\n  Missing communicator data from 4 ranks\n"
        (communicator,) = report_of_text(in_text(EIGHT_INCOMPLETE, errors)).communicators

        assert (communicator.missing_count, communicator.missing) == (4, ())

    def test_timeouts_of_nccl_are_known(self) -> None:
        assert report_of_text(in_text(EIGHT_OK, warnings=TIMEOUT)).timeouts == 2

    def test_before_2_26_all_operations_are_counted_as_one(self) -> None:
        (communicator,) = report_of_text(in_text(EIGHT_MISMATCH, warnings=LAUNCHES_2_24)).communicators

        groups = (LaunchGroup(6650, 6), LaunchGroup(6649, 2, (0, 7)))
        assert communicator.unequal == (UnequalLaunches("collective", groups),)

    def test_since_2_26_operations_are_counted_apart(self) -> None:
        (communicator,) = report_of_text(in_text(EIGHT_MISMATCH, warnings=LAUNCHES_2_26)).communicators

        reduce, broadcast = communicator.unequal
        assert reduce == UnequalLaunches("AllReduce", (LaunchGroup(100, 7), LaunchGroup(99, 1, (5,))))
        assert broadcast == UnequalLaunches("Broadcast", (LaunchGroup(3, 7), LaunchGroup(0, 1, (5,))))

    def test_ranks_that_are_named_are_members(self) -> None:
        report = report_of_text(in_text(EIGHT_MISMATCH, warnings=LAUNCHES_2_24))

        assert report.members == {RankProcess(8, 0, 4700), RankProcess(8, 7, 4707)}
        assert not report.has_all_members

    def test_rank_that_is_no_member_any_more_has_left(self) -> None:
        """One in FINALIZE has not."""
        (communicator,) = report_of_text(in_text(EIGHT_MISMATCH, warnings=STATUS_2_26)).communicators

        assert communicator.missing == (MissingRank(5, Absence.LEFT, 4705, "10.0.0.2"),)

    def test_unknown_ranks_before_2_26_have_left(self) -> None:
        (communicator,) = report_of_text(in_text(EIGHT_MISMATCH, warnings=STATUS_2_24)).communicators

        assert communicator.missing == (MissingRank(3, Absence.LEFT), MissingRank(5, Absence.LEFT))
        assert communicator.missing_count == 2

    def test_rank_that_is_silent_and_unknown_counts_once(self) -> None:
        """Before 2.26 NCCL lists it twice."""
        warnings = STATUS_2_24.replace(
            "2 ranks have status UNKNOWN\n  The unknown ranks: 3,5", "Rank 5 has status UNKNOWN"
        )
        (communicator,) = report_of_text(in_text(EIGHT_INCOMPLETE, SILENT_2_24, warnings)).communicators

        assert (communicator.missing_count, communicator.missing) == (1, (MissingRank(5, Absence.SILENT),))

    def test_ranks_with_errors_are_counted(self) -> None:
        (communicator,) = report_of_text(in_text(EIGHT_OK, ERRORS)).communicators

        assert (communicator.failed, communicator.missing_count) == (2, 0)

    def test_other_lines_are_passed_over(self) -> None:
        """Also those longer than any of NCCL's."""
        report = report_of_text(in_text(EIGHT_OK, "ODD\n  " + "x" * 10_000 + "\n\x00\xff\n"))

        assert report.sizes == (8,)

    def test_lines_may_end_as_in_telnet(self) -> None:
        assert report_of_text(in_text(EIGHT_OK).replace(b"\n", b"\r\n")).sizes == (8,)


class TestRefused:
    """What is no report, or too much."""

    @pytest.mark.parametrize("content", [b"", b"OK\n", b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\x00" * 1000, b"{}"])
    def test_other_content(self, content: bytes) -> None:
        with pytest.raises(Untrusted):
            report_of_text(content)

    def test_half_of_an_answer(self) -> None:
        """Its last heading is missing."""
        content = in_text(EIGHT_OK)
        with pytest.raises(Untrusted, match="not complete"):
            report_of_text(content[: len(content) // 2])

    def test_communicator_of_no_group(self) -> None:
        with pytest.raises(Untrusted):
            report_of_text(in_text(EIGHT_OK, SILENT_2_24.replace("#0-0", "#3-0")))

    def test_number_beyond_its_bound(self) -> None:
        with pytest.raises(Untrusted):
            report_of_text(
                in_text(EIGHT_OK.replace("       8   RUNNING", "99999999   RUNNING").replace(" 8  ", " 99999999 "))
            )

    def test_more_bytes_than_the_bound(self) -> None:
        with pytest.raises(Untrusted):
            report_of_text(b"\n" * (TEXT_BYTES_MAX + 1))

    def test_more_lines_than_the_bound(self) -> None:
        with pytest.raises(Untrusted):
            report_of_text(b"\n" * 200_000)
