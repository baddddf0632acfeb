"""json_form: the JSON of NCCL 2.28.7 and later, and what is no report."""

from __future__ import annotations

import json
from typing import Any

import pytest

from exporter.ras.json_form import JSON_BYTES_MAX, report_of_json
from exporter.ras.report import Absence, LaunchGroup, MissingRank, RankProcess, UnequalLaunches
from exporter.text.untrusted import Untrusted
from tests.support.ras_answers import HOST, a_communicator, a_missing_rank, a_rank, in_json, without_comma


class TestReport:
    """What is in it."""

    def test_whole_job_has_nothing_noteworthy(self) -> None:
        report = report_of_json(in_json(a_communicator([a_rank(0, 41), a_rank(1, 42)])))
        (communicator,) = report.communicators

        assert (report.version, report.sizes) == ("2.29.1", (2,))
        assert report.members == {RankProcess(2, 0, 41), RankProcess(2, 1, 42)}
        assert not communicator.is_noteworthy

    @pytest.mark.parametrize(
        ("unresponsive", "dead", "absence"),
        [(True, False, Absence.SILENT), (True, True, Absence.DEAD), (False, False, Absence.LEFT)],
    )
    def test_missing_rank_has_its_process_and_the_reason(
        self, unresponsive: bool, dead: bool, absence: Absence
    ) -> None:
        missing = a_missing_rank(1, 42, unresponsive=unresponsive, dead=dead)
        (communicator,) = report_of_json(in_json(a_communicator([a_rank(0, 41)], [missing]))).communicators

        assert communicator.missing == (MissingRank(1, absence, 42, HOST),)
        assert communicator.missing_count == 1

    def test_comma_that_2_28_9_leaves_out_is_put_in(self) -> None:
        """Each of two missing ranks lacks one."""
        missing = [a_missing_rank(1, 42), a_missing_rank(2, 43)]
        answer = without_comma(in_json(a_communicator([a_rank(0, 41)], missing), version="2.28.9"))
        with pytest.raises(ValueError, match="delimiter"):
            json.loads(answer)

        assert [one.tgid for one in report_of_json(answer).communicators[0].missing] == [42, 43]

    def test_rank_in_neither_list_is_missing(self) -> None:
        """A communicator of three ranks, of which one has sent nothing and NCCL does not know its process."""
        document = a_communicator([a_rank(0, 41), a_rank(2, 43)], size=3)

        assert report_of_json(in_json(document)).communicators[0].missing == (MissingRank(1, Absence.UNKNOWN),)

    def test_process_that_nccl_does_not_know_has_no_id(self) -> None:
        """NCCL writes -1, and `unknown` for its host."""
        missing = a_missing_rank(1, -1) | {"host": "unknown"}
        (communicator,) = report_of_json(in_json(a_communicator([a_rank(0, 41)], [missing]))).communicators

        assert communicator.missing == (MissingRank(1, Absence.SILENT, 0, ""),)

    def test_operation_launched_unequally_has_ranks_by_count(self) -> None:
        """Broadcast is launched equally often."""
        counts = [("AllReduce", one) for one in (100, 99, 100)]
        ranks = [
            a_rank(rank, 41 + rank, launched={name: count, "Broadcast": 1}) for rank, (name, count) in enumerate(counts)
        ]
        (communicator,) = report_of_json(in_json(a_communicator(ranks))).communicators

        groups = (LaunchGroup(100, 2, (0, 2)), LaunchGroup(99, 1, (1,)))
        assert communicator.unequal == (UnequalLaunches("AllReduce", groups),)

    @pytest.mark.parametrize("error", [{"async_error": 6}, {"init_state": 2}, {"abort_flag": True}])
    def test_rank_with_an_error_is_counted(self, error: dict[str, Any]) -> None:
        report = report_of_json(in_json(a_communicator([a_rank(0, 41), a_rank(1, 42, **error)])))

        assert report.communicators[0].failed == 1

    def test_rank_that_initializes_has_no_error(self) -> None:
        """7 is ncclInProgress."""
        report = report_of_json(in_json(a_communicator([a_rank(0, 41, init_state=7)])))

        assert report.communicators[0].failed == 0

    def test_timeouts_of_nccl_are_known(self) -> None:
        assert report_of_json(in_json(a_communicator([a_rank(0, 41)]), timeouts=2)).timeouts == 2

    def test_members_of_later_versions_are_passed_over(self) -> None:
        """Also within a rank."""
        rank = a_rank(0, 41) | {"gpu_uuid": "GPU-1", "more": [{"a": [1]}]}

        assert report_of_json(in_json(a_communicator([rank], colour=3))).sizes == (1,)

    def test_host_is_printable(self) -> None:
        missing = a_missing_rank(1, 42) | {"host": "\x1b[2J\nrm"}
        (communicator,) = report_of_json(in_json(a_communicator([a_rank(0, 41)], [missing]))).communicators

        assert communicator.missing[0].host == "\ufffd[2J\ufffdrm"


class TestRefused:
    """What is no report, or too much."""

    @pytest.mark.parametrize(
        "content",
        [b"", b"{}", b"[]", b"OK\n", b"NCCL version 2.26.2\n", b'{"nccl_version": "2.29.1", "communicators": {}}'],
    )
    def test_other_content(self, content: bytes) -> None:
        with pytest.raises(Untrusted):
            report_of_json(content)

    def test_half_of_an_answer(self) -> None:
        content = in_json(a_communicator([a_rank(0, 41)]))
        with pytest.raises(Untrusted):
            report_of_json(content[: len(content) // 2])

    @pytest.mark.parametrize(
        "changes",
        [
            {"size": -1},
            {"size": 1 << 40},
            {"size": "2"},
            {"hash": "0xGG"},
            {"hash": 5},
            {"ranks": [{}]},
            {"ranks": None},
            {"missing_ranks": [{"rank": 0}]},
        ],
    )
    def test_communicator_of_another_form(self, changes: dict[str, Any]) -> None:
        with pytest.raises(Untrusted):
            report_of_json(in_json(a_communicator([a_rank(0, 41)], **changes)))

    def test_rank_beyond_its_communicator(self) -> None:
        with pytest.raises(Untrusted):
            report_of_json(in_json(a_communicator([a_rank(2, 41)], size=2)))

    def test_more_ranks_than_any_job_has(self) -> None:
        """Communicators that name none of their 65,536 ranks: each would be a line."""
        with pytest.raises(Untrusted, match="too many ranks"):
            report_of_json(in_json(*[a_communicator([], size=1 << 16)] * 17))

    def test_more_bytes_than_the_bound(self) -> None:
        with pytest.raises(Untrusted):
            report_of_json(b" " * (JSON_BYTES_MAX + 1))
