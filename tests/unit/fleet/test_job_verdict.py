"""Verdicts about jobs: who is late, through what, and where that is ambiguous."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from exporter.causes import Cause
from exporter.fleet.job_verdict import JobKind, JobVerdict, verdicts
from exporter.fleet.node_ranks import ReportSpan, report_of
from exporter.fleet.rank_report import NodeReport, RankReport
from exporter.history.file_guard import claim
from exporter.history.reader import opened
from exporter.history.store import Store
from tests.support.history import SECOND
from tests.support.labelled_jobs import KINDS, SINCE_SECONDS, labelled
from tests.support.rank_reports import a_chain, a_node, a_place, a_rank, slices
from tests.support.simulated_jobs import Recorded

BEFORE = [(0.5, 0.1)] * 10
LATE, VICTIM = [*BEFORE, *[(0.9, 0.1)] * 5], [*BEFORE, *[(0.9, 0.5)] * 5]
OF_VICTIM = a_chain(Cause.GPU, lost_ratio=0.4, culprit="", line="")


def verdict(nodes: Mapping[str, Sequence[RankReport]], **changes: object) -> JobVerdict:
    (found,) = verdicts({name: a_node(*ranks, **changes) for name, ranks in nodes.items()}, 300.0)
    return found


def victims(*ranks: int) -> list[RankReport]:
    return [a_rank(one, slices=slices(VICTIM), chains=(OF_VICTIM,)) for one in ranks]


def late(rank: int, cause: Cause = Cause.CPU_CONTENTION) -> RankReport:
    return a_rank(rank, slices=slices(LATE, {cause.value: 0.35}), chains=(a_chain(cause),))


class TestSlowRank:
    def test_rank_with_cause_culprit_line_and_cost(self) -> None:
        """For 60 s three others have waited for 0.4 s of each 0.9 s: 80 s of their GPUs."""
        found = verdict({"a": [*victims(0, 1)], "b": [*victims(2), late(3)]})

        assert (found.kind, found.ranks, found.seen, found.nodes) == (JobKind.SLOW_RANK, 4, 4, ("a", "b"))
        (rank,) = found.late
        assert (rank.node, rank.rank, rank.cause, rank.culprit) == ("b", "3", "cpu_contention", "stress-ng")
        assert rank.line == "step (train.py:142)"
        assert (found.since_seconds, found.waiting_ranks) == (60.0, 3)
        assert found.lost_gpu_seconds == pytest.approx(80.0, rel=0.01)

    def test_time_lost_says_why_where_no_chain_does(self) -> None:
        found = verdict({"a": victims(0, 1, 2), "b": [a_rank(3, slices=slices(LATE, {"lock": 0.35}))]})

        assert [one.cause for one in found.late] == ["lock"]

    def test_chain_of_a_victim_is_no_cause(self) -> None:
        """Nothing is known of why rank 3 is late."""
        found = verdict({"a": victims(0, 1, 2), "b": [a_rank(3, slices=slices(LATE), chains=(OF_VICTIM,))]})

        assert [one.cause for one in found.late] == [""]

    def test_two_ranks_have_their_own_causes(self) -> None:
        found = verdict({"a": [*victims(0, 1), late(2, Cause.LOCK)], "b": [late(3)]})

        assert found.kind is JobKind.SLOW_RANKS
        assert {one.rank: one.cause for one in found.late} == {"2": "lock", "3": "cpu_contention"}
        assert found.waiting_ranks == 2

    def test_rank_with_a_throttled_gpu_is_late_although_it_waits(self) -> None:
        """It waits for its own kernels."""
        slow = a_rank(3, slices=slices(VICTIM), chains=(a_chain(Cause.GPU_THROTTLED),))
        found = verdict({"a": victims(0, 1), "b": [*victims(2), slow]})

        assert (found.kind, [one.rank for one in found.late]) == (JobKind.SLOW_RANK, ["3"])

    def test_rank_that_was_late_before_the_span(self) -> None:
        """Steps are as long as ever, and rank 3 waits least of them: it has had a chain for ten minutes."""
        steady = [a_rank(rank, slices=slices([(0.9, 0.5)] * 15)) for rank in (0, 1, 2)]
        chain = a_chain(Cause.BLOCK_IO, began_seconds_ago=600.0)
        slow = a_rank(3, slices=slices([(0.9, 0.1)] * 15), chains=(chain,))
        found = verdict({"a": steady, "b": [slow]})

        assert (found.kind, found.since_seconds) == (JobKind.SLOW_RANK, 600.0)
        assert [(one.rank, one.cause) for one in found.late] == [("3", "block_io")]
        assert found.before_seconds == pytest.approx(0.5)


class TestAllSlow:
    def test_cause_of_all_blames_no_rank(self) -> None:
        found = verdict(
            {
                "a": [late(0, Cause.BLOCK_IO), late(1, Cause.BLOCK_IO)],
                "b": [late(2, Cause.BLOCK_IO), late(3, Cause.BLOCK_IO)],
            }
        )

        assert (found.kind, found.cause, found.late) == (JobKind.ALL_SLOW, "block_io", ())

    def test_ranks_that_all_wait_longer_have_a_slow_link(self) -> None:
        found = verdict({"a": victims(0, 1), "b": victims(2, 3)})

        assert (found.kind, found.late) == (JobKind.SLOW_LINK, ())
        assert "a GPU that is slow" in found.ambiguity

    def test_longer_steps_that_no_node_minds_are_fine(self) -> None:
        """A larger batch: the exporter of each node takes it for what is normal now."""
        ranks = [a_rank(rank, slices=slices(VICTIM)) for rank in range(4)]

        assert verdict({"a": ranks[:2], "b": ranks[2:]}).kind is JobKind.FINE

    def test_steady_job_is_fine(self) -> None:
        assert verdict({"a": [a_rank(0), a_rank(1)], "b": [a_rank(2), a_rank(3)]}).kind is JobKind.FINE


class TestHang:
    def test_rank_of_the_whole_job_is_named(self) -> None:
        """Three have entered 42 collectives, rank 3 of another node has entered 41 and is paused."""
        ranks = [
            a_rank(rank, places=(a_place(rank, collectives=42, still_seconds=60.0),), slices=()) for rank in range(3)
        ]
        chain = a_chain(Cause.PAUSED, lost_ratio=1.0)
        missing = a_rank(3, places=(a_place(3, still_seconds=61.0),), slices=(), chains=(chain,))
        found = verdict({"a": ranks[:2], "b": [ranks[2]], "c": [missing]})

        assert (found.kind, found.collectives, found.since_seconds) == (JobKind.HANG, 41, 60.0)
        assert [(one.node, one.rank, one.cause) for one in found.late] == [("c", "3", "paused")]
        assert found.lost_gpu_seconds == 180.0

    def test_it_comes_first(self) -> None:
        other = [a_rank(rank, places=(a_place(rank, 8, communicator=5),)) for rank in range(8)]
        stuck = [
            a_rank(rank, places=(a_place(rank, 2, collectives=41 + rank, still_seconds=60.0),)) for rank in range(2)
        ]
        found = verdicts({"a": a_node(*other), "b": a_node(*stuck)}, 300.0)

        assert [one.kind for one in found] == [JobKind.HANG, JobKind.FINE]


class TestAmbiguity:
    def test_late_rank_may_be_on_a_node_that_gave_no_answer(self) -> None:
        """Ranks 0 to 2 of four wait longer."""
        found = verdict({"a": victims(0, 1), "b": victims(2)})

        assert (found.kind, found.late, found.unseen) == (JobKind.AMBIGUOUS, (), (3,))
        assert "no node has reported" in found.ambiguity

    def test_late_rank_that_was_seen_is_named_all_the_same(self) -> None:
        found = verdict({"a": [*victims(0, 1), late(3)]})

        assert (found.kind, [one.rank for one in found.late]) == (JobKind.SLOW_RANK, ["3"])

    def test_rank_that_two_nodes_claim_is_not_believed(self) -> None:
        """Either of them may be the late one."""
        found = verdict({"a": victims(0, 1), "b": [*victims(2), late(3)], "mallory": victims(3)})

        assert found.kind is JobKind.AMBIGUOUS
        assert {one.node for one in found.candidates} == {"b", "mallory"}
        assert "rank 3 of communicator 0000000000000abc is claimed by several processes (b, mallory)" in found.ambiguity

    def test_node_that_records_nothing_is_not_believed(self) -> None:
        """Its last words may be of yesterday."""
        reports: dict[str, NodeReport] = {"a": a_node(*victims(0, 1, 2)), "b": a_node(late(3), is_recording=False)}
        (found,) = verdicts(reports, 300.0)

        assert (found.kind, found.seen) == (JobKind.AMBIGUOUS, 3)


class TestLabelledFaults:
    """Simulated jobs of four and more nodes, with clocks off by up to five minutes, of shapes that no rule was found on."""

    @pytest.mark.parametrize("kind", KINDS)
    def test_rank_and_cause_are_found(self, kind: str) -> None:
        """Three seeds of each fault: `make bench` counts many more."""
        cases = [labelled(seed, kind, is_held_out=True) for seed in range(100, 103)]
        found = [(case, case.verdict()) for case in cases]

        assert [one.kind.value for case, one in found if not case.is_right_rank(one)] == []

    @pytest.mark.parametrize("kind", ["slow_rank", "hang", "slow_link"])
    def test_silent_node_makes_it_ambiguous_where_it_is(self, kind: str) -> None:
        cases = [labelled(seed, kind, is_held_out=False, with_silent_node=True) for seed in range(200, 204)]

        assert [case.kind for case in cases if not case.is_right_rank(case.verdict())] == []


class TestHistories:
    """The same from files, as exporters write them."""

    @pytest.mark.parametrize("kind", ["slow_rank", "hang", "none"])
    def test_verdict_of_histories_is_that_of_what_was_recorded(self, kind: str, tmp_path: Path) -> None:
        """Four nodes or more, whose clocks are up to ten minutes apart."""
        case = labelled(300, kind, is_held_out=False)
        reports = {one.node: _of_file(one, tmp_path / one.node) for one in case.records}
        (found,) = verdicts(reports, SINCE_SECONDS)

        assert len({one.now_unix_ns // (10 * SECOND) for one in case.records}) > 1
        assert case.is_right_rank(found)


def _of_file(recorded: Recorded, folder: Path) -> NodeReport:
    """The report from a history that is written and read."""
    folder.mkdir()
    file = claim(folder / "history.sqlite")
    (run,) = recorded.runs
    store = Store(file, 8 << 20, began_unix_ns=run.began_unix_ns, version="1.0", has_chains=True)
    events = [one.event for one in recorded.events]
    store.write(events, recorded.batches(), run.seen_unix_ns)
    store.close()
    file.release()
    span = ReportSpan(recorded.now_unix_ns - int(SINCE_SECONDS * SECOND), recorded.now_unix_ns)
    with opened(folder / "history.sqlite") as history:
        since_unix_ns = span.since_unix_ns
        return report_of(
            history.runs(),
            history.events(since_unix_ns),
            history.windows(since_unix_ns),
            history.memberships(since_unix_ns),
            span,
        )
