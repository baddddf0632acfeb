"""The answer to `explain --nodes` as text and as a document."""

from __future__ import annotations

from dataclasses import replace

import pytest

from exporter.causes import Cause
from exporter.fleet.asking import NodeAnswer
from exporter.fleet.clock_offset import ClockOffset
from exporter.fleet.failure import NodeFailure, NodeFailureKind
from exporter.fleet.fleet_explanation import FleetExplanation, explained_fleet
from exporter.fleet.fleet_text import lines, node_line
from exporter.fleet.node import Node
from exporter.fleet.rank_report import NodeReport
from tests.support.rank_reports import a_chain, a_node, a_place, a_rank
from tests.unit.fleet.test_job_verdict import late, victims

DEAD = NodeFailure(Node("gpu9", "gpu9"), NodeFailureKind.UNREACHABLE, "connection refused")


def explained(reports: dict[str, NodeReport], *failures: NodeFailure, usd: float | None = None) -> FleetExplanation:
    answers = [NodeAnswer(Node(name, name), report, 0.1) for name, report in reports.items()]
    return explained_fleet([*answers, *failures], 300.0, usd)


def slow(usd: float | None = None) -> FleetExplanation:
    return explained({"gpu1": a_node(*victims(0, 1)), "gpu2": a_node(*victims(2), late(3))}, DEAD, usd=usd)


class TestText:
    def test_slow_rank(self) -> None:
        """The whole of it: three others wait for 4/9 of a minute each."""
        assert list(lines(slow(usd=3.6))) == [
            "job of 4 ranks on 2 nodes (communicator 0000000000000abc): rank 3 on gpu2 is late for 1 min",
            "  rank       rank 3 on gpu2 (pod trainer-3): cpu_contention, culprit stress-ng, late by 400 ms of each step,"
            " chain 11111111",
            "  line       step (train.py:142)",
            "  steps      take 1.8 times as long: 500 ms -> 900 ms",
            "  cost       3 ranks waited for 80 GPU-seconds, 0.08 USD",
            "",
            "1 of 3 nodes failed:",
            "  gpu9: unreachable: connection refused",
            "",
            "nodes:",
            "  gpu1: rank 0 (pod trainer-0): gpu, high, for 1 min; 1 more; clock offset unknown",
            "  gpu2: rank 3 (pod trainer-3): cpu_contention, high, culprit stress-ng, for 1 min; 1 more; clock offset"
            " unknown",
        ]

    def test_offsets_of_clocks_stand_with_their_nodes(self) -> None:
        """One that is off is a warning above."""
        clocks = {"gpu1": ClockOffset(3_200_000, 410_000, None), "gpu2": ClockOffset(-52_000_000, 410_000, None)}
        text = list(lines(replace(slow(), clocks=clocks)))

        assert text[-2].endswith("; 1 more; clock 3.2 ms ahead, ± 410 us")
        assert text[text.index("clocks:") + 1].startswith("  the clock of gpu2 is 52.0 ms behind, ± 410 us")

    def test_hang(self) -> None:
        stuck = [
            a_rank(rank, places=(a_place(rank, 2, collectives=41 + (rank == 0), still_seconds=60.0),), slices=())
            for rank in range(2)
        ]
        first, *_ = lines(explained({"gpu1": a_node(stuck[0]), "gpu2": a_node(stuck[1])}))

        assert first == (
            "job of 2 ranks on 2 nodes (communicator 0000000000000abc): stands still for 1 min: rank 1 on gpu2 has not entered"
            " collective 42, which others wait in"
        )

    def test_ambiguity_comes_with_ranks_that_were_not_seen(self) -> None:
        text = "\n".join(lines(explained({"gpu1": a_node(*victims(0, 1)), "gpu2": a_node(*victims(2))})))

        assert "it is ambiguous which rank is late" in text
        assert (
            "  unclear    all ranks that were seen wait longer: the late one may be one that no node has reported"
            in text
        )
        assert "  not seen   rank 3" in text

    def test_claims_name_nodes_and_processes(self) -> None:
        reports = {"gpu1": a_node(*victims(0, 1)), "gpu2": a_node(*victims(2), late(3)), "mallory": a_node(*victims(3))}

        assert "  conflict   rank 3 of communicator 0000000000000abc: gpu2 (pid 103), mallory (pid 103)" in lines(
            explained(reports)
        )

    def test_job_without_a_slowdown_is_counted(self) -> None:
        reports = {"gpu1": a_node(a_rank(0), a_rank(1)), "gpu2": a_node(a_rank(2), a_rank(3))}

        assert next(iter(lines(explained(reports)))) == "1 job without a slowdown"

    def test_nodes_without_jobs(self) -> None:
        assert next(iter(lines(explained({"gpu1": a_node()})))) == (
            "no job: no process has a communicator of several ranks whose creation was traced"
        )

    def test_no_answer_at_all(self) -> None:
        assert list(lines(explained({}, DEAD))) == [
            "no answer",
            "",
            "1 of 1 nodes failed:",
            "  gpu9: unreachable: connection refused",
        ]


class TestNodeLine:
    def test_worst_open_chain(self) -> None:
        low = a_chain(Cause.LOCK, severity="low", culprit="")
        worst = a_chain(Cause.PAUSED, severity="critical", culprit="")

        assert (
            node_line(a_node(a_rank(chains=(low, worst))))
            == "rank 3 (pod trainer-3): paused, critical, for 1 min; 1 more"
        )

    @pytest.mark.parametrize(
        ("report", "line"),
        [
            (a_node(a_rank()), "nothing is slow"),
            (a_node(a_rank(chains=(a_chain(state="resolved"),))), "nothing is slow; 1 chain in this time"),
            (
                a_node(is_recording=False, written_seconds_ago=90.0),
                "no exporter has written its history for 1 min 30 s",
            ),
            (a_node(detects_chains=False), "the detection of chains is off"),
        ],
    )
    def test_others(self, report: NodeReport, line: str) -> None:
        assert node_line(report) == line
