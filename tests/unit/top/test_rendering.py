"""top.rendering: whole screens, written out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from exporter.chains.chain import Severity
from exporter.model import Identity
from exporter.scrape.view import FailedNode, OpenChain, View, Workload
from exporter.top.layout import Style, StyledText, text_of
from exporter.top.rendering import ScrapeStatus, lines_of, plain_lines_of
from exporter.top.screen import Screen
from exporter.top.terminal_text import ASCII, UNICODE, Glyphs, width_of
from tests.support.views import CHAIN, FINE, JOB, RANK_0, SLOW

STATUS = ScrapeStatus("http://gpu7:10478/metrics", "03:14:15")


def screen_of(
    view: View,
    size: tuple[int, int],
    screen: Screen | None = None,
    status: ScrapeStatus = STATUS,
    glyphs: Glyphs = UNICODE,
) -> list[str]:
    """The lines on a terminal of this size, without trailing blanks."""
    return [text_of(line).rstrip() for line in lines_of(view, screen or Screen(), status, size, glyphs)]


class TestOverview:
    """All workloads."""

    def test_on_a_wide_terminal(self) -> None:
        """Every column, with aligned bars."""
        assert screen_of(JOB, (120, 14)) == [
            "top · last 2.00s · 1 open chain · 2 workloads · node gpu7 · 03:14:15 · by lost · http://gpu7:10478/metrics",
            "HIGH      rank 0  cpu_contention → longer gap, culprit stress-ng",
            "",
            "RANK  PROCESS         STEP    LATE  LOST  OF ALL TIME                 WHY",
            "0     trainer 4026  19.1ms  2.40ms   46%  ██████████▓▓··············  cpu_contention 40% (stress-ng)  lock 6.0%",
            "1     trainer 4027  19.0ms      0s  0.1%  ▏·························  irq 0.1%",
            "",
            "rank 0 · 8.50k calls/s",
            "OPERATION              CALLS/S   TIME     P50     P95     P99",
            "cudaStreamSynchronize     53.1    85%  13.1ms  25.8ms  56.8ms",
            "cudaLaunchKernel         6.91k  <0.1%  2.08µs  3.72µs  5.82µs",
            "cuLaunchKernel           6.91k      —       —       —       —",
            "",
            "q quit  s sort  / filter  Enter detail  p pause  h help",
        ]

    def test_on_an_old_terminal_in_ascii(self) -> None:
        """80 columns and 24 lines: less important columns are left out for the causes."""
        assert screen_of(JOB, (80, 13), glyphs=ASCII)[:8] == [
            "top | last 2.00s | 1 open chain | 2 workloads | node gpu7 | 03:14:15 | by lost",
            "HIGH      rank 0  cpu_contention -> longer gap, culprit stress-ng",
            "",
            "RANK    STEP  LOST  OF ALL TIME           WHY",
            "0     19.1ms   46%  ########=...........  cpu_contention 40% (stress-ng)  lock ~",
            "1     19.0ms  0.1%  |...................  irq 0.1%",
            "",
            "rank 0 | 8.50k calls/s",
        ]

    def test_on_a_tiny_terminal(self) -> None:
        """The rank, its lost time and the cause are kept longest."""
        assert screen_of(JOB, (20, 5)) == [
            "top · last 2.00s",
            "HIGH      rank 0  c…",
            "RANK  LOST  WHY",
            "0      46%  cpu_con…",
            "1     0.1%  irq 0.1%",
        ]

    @pytest.mark.parametrize("glyphs", [UNICODE, ASCII])
    @pytest.mark.parametrize(
        "screen", [Screen(), Screen(is_detail=True, scroll=99), Screen(is_help=True), Screen(typed="rank")]
    )
    def test_no_size_is_too_small_or_too_large(self, screen: Screen, glyphs: Glyphs) -> None:
        """No line is wider, and no screen longer, than the terminal; names have wide characters."""
        wide = replace(SLOW, identity=Identity(node="机" * 128, rank="机" * 128, pod="机" * 128))
        view = replace(JOB, workloads=(wide, *JOB.workloads * 5), notes=("a note " * 20,))
        for columns in (*range(1, 30, 2), 40, 47, 60, 80, 200):
            for lines in (1, 2, 3, 4, 5, 7, 8, 9, 12, 13, 24, 60):
                shown = lines_of(view, screen, STATUS._replace(failure="it failed"), (columns, lines), glyphs)

                assert len(shown) <= lines
                assert all(width_of(text_of(line)) <= columns for line in shown)

    def test_node_has_a_column_where_there_are_several(self) -> None:
        """Names have it too."""
        view = replace(JOB, workloads=(SLOW, replace(FINE, identity=Identity(node="gpu8", rank="1"))))
        shown = screen_of(view, (100, 12))

        assert shown[1] == "HIGH      rank 0 on gpu7  cpu_contention → longer gap, culprit stress-ng"
        assert shown[3].startswith("RANK  NODE  PROCESS         STEP    LATE  LOST")
        assert shown[5].startswith("1     gpu8  trainer 4027  19.0ms      0s  0.1%")

    def test_unknown_figures_are_dashes(self) -> None:
        """Without accounting, and without a rank."""
        shown = screen_of(View(0.0, None, (Workload(Identity(), (), 9.0),), ()), (60, 12))

        assert shown[:5] == [
            "top · since start · 1 workload · 03:14:15 · by lost",
            "no open chain",
            "",
            "RANK  STEP  LOST  OF ALL TIME     WHY",
            "—        —     —  ··············",
        ]

    def test_many_workloads_scroll_with_the_selection(self) -> None:
        """Three operations stay visible."""
        rows = tuple(replace(SLOW, identity=Identity("gpu7", str(rank))) for rank in range(40))
        screen = Screen(selected=rows[39].identity)
        shown = screen_of(replace(JOB, workloads=rows), (60, 20), screen)

        assert [line.split()[0] for line in shown[4:13]] == ["31", "32", "33", "34", "35", "36", "37", "38", "39"]
        assert shown[14] == "rank 39 · 8.50k calls/s"
        assert shown[16].startswith("cudaStreamSynch")

    def test_many_chains_leave_room_for_the_workloads(self) -> None:
        """The number of further ones is displayed; the worst come first."""
        chains = tuple(CHAIN._replace(cause=f"cause_{number}") for number in range(9))
        shown = screen_of(replace(JOB, chains=chains), (80, 14))

        assert [line.split()[3] for line in shown[1:3]] == ["cause_0", "cause_1"]
        assert shown[3:6] == ["and 7 more open chains", "", "RANK    STEP  LOST  OF ALL TIME           WHY"]

    def test_a_filter_hides_the_chains_of_others(self) -> None:
        """And their rows."""
        chains = (CHAIN, CHAIN._replace(identity=FINE.identity, cause="lock"))
        shown = screen_of(replace(JOB, chains=chains), (80, 14), Screen(filter="rank=1"))

        assert shown[1:3] == ["HIGH      rank 1  lock → longer gap, culprit stress-ng", ""]

    def test_several_chains_of_a_workload_have_a_line_each(self) -> None:
        """A standstill has no call that takes longer."""
        chains = (
            CHAIN._replace(cause="stalled", effect="step", culprits=()),
            CHAIN._replace(cause="lock", culprits=()),
        )
        shown = screen_of(replace(JOB, chains=chains), (80, 14))

        assert shown[1:3] == ["HIGH      rank 0  stalled", "HIGH      rank 0  lock → longer gap"]


class TestMessages:
    """Reasons why figures are incomplete or old."""

    def test_failed_scrape_keeps_the_table(self) -> None:
        """It is marked as stale, with the reason."""
        failed = STATUS._replace(failure="http://gpu7:10478/metrics: connection refused", stale_seconds=12.4)
        shown = screen_of(JOB, (100, 14), status=failed)

        assert shown[1] == "STALE for 12 s: http://gpu7:10478/metrics: connection refused"
        assert shown[5].startswith("0     trainer 4026  19.1ms")

    def test_notes_stand_below_the_title(self) -> None:
        """A line each."""
        assert screen_of(replace(JOB, notes=("one", "two")), (60, 12))[1:3] == ["one", "two"]

    def test_nodes_that_failed_stand_below_the_title(self) -> None:
        failed = FailedNode("gpu7", "too_slow", "no complete answer within 10 s")

        assert screen_of(replace(JOB, failed_nodes=(failed,)), (60, 12))[1] == (
            "gpu7: too slow: no complete answer within 10 s"
        )

    def test_many_messages_leave_room_for_the_table(self) -> None:
        """A quarter of 12 lines."""
        failed = tuple(FailedNode(f"gpu{number}", "unreachable", "connection refused") for number in range(200))
        lines = screen_of(replace(JOB, failed_nodes=failed), (60, 12))

        assert lines[1:4] == [
            "gpu0: unreachable: connection refused",
            "gpu1: unreachable: connection refused",
            "and 198 more messages",
        ]
        assert any(line.startswith("RANK") for line in lines)

    def test_filter_without_a_match_is_displayed(self) -> None:
        """Beside the empty table; the title has the filter."""
        shown = screen_of(JOB, (70, 12), Screen(filter="none"))

        assert shown[0].startswith("top · last 2.00s · filter none")
        assert shown[1] == "no workload matches the filter"

    def test_pause_is_displayed(self) -> None:
        assert "PAUSED" in screen_of(JOB, (60, 12), Screen(is_paused=True))[0]

    def test_filter_is_displayed_while_it_is_typed(self) -> None:
        """In the last line, also on low terminals."""
        assert screen_of(JOB, (40, 5), Screen(typed="rank"))[-1] == "filter: rank_"


class TestDetail:
    """One workload."""

    def test_it_has_chains_with_ids_causes_with_culprits_and_all_operations(self) -> None:
        """From the second operation on, since it was scrolled."""
        assert screen_of(JOB, (70, 16), Screen(selected=RANK_0, is_detail=True, scroll=1)) == [
            "top · last 2.00s · 1 open chain · 2 workloads · node gpu7 · 03:14:15",
            "RANK    STEP  LOST  OF ALL TIME       WHY",
            "0     19.1ms   46%  ██████▓·········  cpu_contention 40% (stress-ng) …",
            "",
            "HIGH      chain cpu_contention → longer gap, culprit stress-ng",
            "          id cddab23d5395645d094238308ffe087b",
            "  40%  cpu_contention      stress-ng 38%  other 2.0%",
            " 6.0%  lock",
            "",
            "rank 0 on gpu7 · 8.50k calls/s  trainer 4026",
            "OPERATION              CALLS/S   TIME     P50     P95     P99",
            "cudaLaunchKernel         6.91k  <0.1%  2.08µs  3.72µs  5.82µs",
            "cuLaunchKernel           6.91k      —       —       —       —",
            "",
            "",
            "Esc back  Up Down scroll  q quit",
        ]

    def test_detail_of_an_ended_workload_becomes_the_overview(self) -> None:
        shown = screen_of(View(0.0, 2.0, (), ()), (60, 12), Screen(selected=RANK_0, is_detail=True))

        assert shown[1] == "no open chain"


class TestStyles:
    """Styles of lines."""

    def test_selected_row_has_one_style_up_to_the_edge(self) -> None:
        """The first row if none is selected."""
        row = lines_of(JOB, Screen(), STATUS, (80, 14), UNICODE)[4]

        assert {span.style for span in row} == {Style.SELECTED}
        assert width_of(text_of(row)) == 80

    @pytest.mark.parametrize("severity", [Severity.LOW, Severity.MEDIUM, Severity.HIGH, Severity.CRITICAL])
    def test_a_chain_has_the_style_of_its_severity(self, severity: Severity) -> None:
        """The text names it too."""
        view = replace(JOB, chains=(OpenChain(RANK_0, "lock", "gap", severity),))
        first = lines_of(view, Screen(), STATUS, (80, 14), UNICODE)[1][0]

        assert first == StyledText(f"{severity.name:<8}  ", Style[severity.name])


class TestChains:
    """What an open chain costs: now, and at its worst."""

    @pytest.mark.parametrize(
        ("now", "worst", "said"),
        [
            (0.48, 0.55, "cpu_contention → longer gap, 48% now, 55% at its worst, culprit stress-ng"),
            (0.55, 0.55, "cpu_contention → longer gap, 55% now, culprit stress-ng"),
            (None, None, "cpu_contention → longer gap, culprit stress-ng"),
        ],
    )
    def test_line_has_the_shares_that_are_exported(self, now: float | None, worst: float | None, said: str) -> None:
        view = replace(JOB, chains=(CHAIN._replace(lost_share=now, worst_lost_share=worst),))
        lines = plain_lines_of(view, Screen(), STATUS, 120, UNICODE)

        assert lines[1].endswith(said)


class TestPlain:
    """For a file or a pipe."""

    def test_plain_text_has_every_chain_and_every_workload(self) -> None:
        """No key help, no limit of lines; the operations of the first workload."""
        rows = tuple(replace(FINE, identity=Identity("gpu7", str(rank))) for rank in range(100))
        chains = tuple(CHAIN._replace(cause=f"cause_{number}") for number in range(9))
        shown = plain_lines_of(View(0.0, 2.0, rows, chains), Screen(), STATUS, 100, UNICODE)

        assert [line.split()[3] for line in shown[1:10]] == [f"cause_{number}" for number in range(9)]
        assert [line.split()[0] for line in shown[12:112]] == [str(rank) for rank in range(100)]
        assert shown[113] == "rank 0 · 8.49k calls/s"
        assert len(shown) == 116
