"""top.workload_table: columns of names, lost time, and the bar of causes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from exporter.model import Identity
from exporter.scrape.view import CauseLoss, Process, Workload
from exporter.top.layout import Style, text_of
from exporter.top.terminal_text import UNICODE
from exporter.top.workload_table import workload_table
from tests.support.views import FINE, SLOW


def lines(*rows: Workload, width: int = 140) -> list[str]:
    """Heading and rows, without trailing blanks."""
    return [text_of(line).rstrip() for line in workload_table(rows, width, UNICODE)]


def spans_of(row: Workload) -> dict[str, Style]:
    """Text without blanks -> style, of the row of one workload."""
    _, line = workload_table([row], 140, UNICODE)
    return {span.text.strip(): span.style for span in line}


class TestNames:
    def test_pod_and_container_have_columns_where_they_differ(self) -> None:
        """Names that all rows share are left out."""
        rows = [
            replace(SLOW, identity=Identity("gpu7", rank, "0123456789ab", "ml", f"trainer-{rank}"))
            for rank in ("0", "1")
        ]

        assert lines(*rows)[0].startswith("RANK  POD          STEP    LATE  LOST")

    def test_single_row_has_all_its_names(self) -> None:
        """Except for the node, which is in the title."""
        row = replace(SLOW, identity=Identity("gpu7", "0", "0123456789ab", "ml", "trainer-0"))

        assert lines(row)[0].startswith("RANK  NAMESPACE  POD        CONTAINER     PROCESS         STEP")

    def test_node_has_a_column_where_there_are_several(self) -> None:
        assert lines(SLOW, replace(FINE, identity=Identity("gpu8", "1")))[0].startswith("RANK  NODE  PROCESS")

    @pytest.mark.parametrize(
        ("processes", "shown"),
        [
            ((Process("4027", "trainer"),), "trainer 4027"),
            ((Process("4027", "trainer"), Process("4028", "trainer")), "trainer x2"),
        ],
    )
    def test_several_processes_are_counted(self, processes: tuple[Process, ...], shown: str) -> None:
        assert shown in lines(replace(SLOW, processes=processes))[1]


class TestFigures:
    def test_step_length_of_an_earlier_interval_is_marked(self) -> None:
        """None has ended in the interval."""
        row = replace(SLOW, is_step_old=True)

        assert "  ~19.1ms  " in lines(row)[1]
        assert spans_of(row)["~19.1ms"] is Style.DIM

    def test_lateness_has_a_column_where_there_is_some(self) -> None:
        assert "LATE" in lines(SLOW, FINE)[0]
        assert "LATE" not in lines(FINE)[0]

    @pytest.mark.parametrize(
        ("share", "shown", "style"),
        [
            (0.04, "4.0%", Style.PLAIN),
            (0.05, "5.0%", Style.LOW),
            (0.10, "10%", Style.MEDIUM),
            (0.25, "25%", Style.HIGH),
            (0.50, "50%", Style.CRITICAL),
        ],
    )
    def test_lost_time_has_the_style_of_a_chain_of_that_share(self, share: float, shown: str, style: Style) -> None:
        """It is the sum over the causes."""
        halves = (CauseLoss("lock", share / 2), CauseLoss("irq", share / 2))

        assert spans_of(replace(SLOW, lost=halves))[shown] is style


class TestBar:
    """The whole time, in 40 columns of a wide terminal."""

    @staticmethod
    def bar_of(*shares: float) -> str:
        row = replace(FINE, lost=tuple(CauseLoss(f"cause_{n}", share) for n, share in enumerate(shares)))
        (heading, line) = lines(row, width=200)
        at = heading.index("OF ALL TIME")
        return line[at:].split("  ")[0]

    def test_cause_has_its_part_of_the_whole(self) -> None:
        """Half and a quarter of it."""
        assert self.bar_of(0.5, 0.25) == "█" * 20 + "▓" * 10 + "·" * 10

    def test_small_cause_is_a_sliver(self) -> None:
        """0.1 % would be no column at all."""
        assert self.bar_of(0.001) == "▏" + "·" * 39

    def test_cause_below_what_is_shown_is_nothing(self) -> None:
        assert self.bar_of(0.0004) == "·" * 40

    def test_shares_above_the_whole_end_at_its_edge(self) -> None:
        """Two windows may overlap."""
        assert self.bar_of(0.9, 0.3) == "█" * 36 + "▓" * 4


class TestCauses:
    def test_each_has_its_share_and_its_largest_culprit(self) -> None:
        assert lines(SLOW)[1].endswith("cpu_contention 40% (stress-ng)  lock 6.0%")

    def test_further_causes_below_what_is_shown_are_left_out(self) -> None:
        row = replace(SLOW, lost=(CauseLoss("lock", 0.06), CauseLoss("irq", 0.0004)))

        assert lines(row)[1].endswith("  lock 6.0%")
