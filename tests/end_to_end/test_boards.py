"""Every query of every board returns data, from a real Prometheus that scrapes jobs under faults."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from xml.etree import ElementTree as ET

import pytest

from dashboards.__main__ import BOARDS
from dashboards.boards import Board
from dashboards.data import Span, filled_in
from dashboards.drawing import draw
from dashboards.panels import Panel
from tests.support.requirements import need_command, need_tracing
from tests.support.standin_gpu import built
from tests.support.traced import eventually
from tests.support.watched_jobs import Servers, watched

# whole_machine: the driver names processes as the machine's PID namespace does.
pytestmark = [pytest.mark.end_to_end, pytest.mark.whole_machine, pytest.mark.acceptance]
PANELS = [(board, panel) for board in BOARDS for panel in board.panels()]
NATIVE_ONLY, CLASSIC_ONLY = "Native histograms", "Classic histograms"
RANGE_SECONDS = 180.0
SOONER = (":1m]", ":1s]")
"""Replaces the step of subqueries, whose points lie on whole minutes otherwise: a test does not wait for one."""


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    """Two servers, for all queries."""
    need_tracing()
    need_command("prometheus", "prometheus")
    built()
    with watched(tmp_path_factory.mktemp("boards")) as found:
        yield found


def row_of(board: Board, panel: Panel) -> str:
    """The title of the panel's row."""
    return next(row.title for row in board.rows if panel in row.panels)


class TestBoards:
    """Each panel, by each of its queries."""

    @pytest.mark.parametrize(("board", "panel"), PANELS, ids=lambda one: getattr(one, "uid", None) or one.title)
    def test_panel_has_data(self, servers: Servers, board: Board, panel: Panel) -> None:
        """With both kinds of histograms, except for heatmaps, which show one kind each. Legends name labels that exist."""
        row = row_of(board, panel)
        asked = [servers.native] * (row != CLASSIC_ONLY) + [servers.classic] * (row != NATIVE_ONLY)
        for prometheus in asked:
            for query in panel.queries:
                expression = filled_in(query.expr, RANGE_SECONDS).replace(*SOONER)
                found = eventually(lambda: prometheus.query(expression), expression)  # noqa: B023
                legend = set(re.findall(r"{{(\w+)}}", query.legend)) - {"le"}
                assert any(legend <= set(series["metric"]) for series in found), query.legend

    @pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.uid)
    def test_it_can_be_drawn(self, servers: Servers, board: Board) -> None:
        """As well-formed SVG with the title of every panel that is not collapsed."""
        end = time.time()
        picture = draw(board, servers.native.url, Span(end - 60, end, 1.0))

        texts = {element.text for element in ET.fromstring(picture).iter() if element.text}  # noqa: S314 - our own
        assert {panel.title for row in board.rows if not row.is_collapsed for panel in row.panels} <= texts
