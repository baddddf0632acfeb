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
from dashboards.panels import Panel, Query
from tests.support.requirements import need_command, need_tracing
from tests.support.standin_gpu import built
from tests.support.traced import eventually
from tests.support.watched_jobs import Servers, watched

# whole_machine: the driver names processes as the machine's PID namespace does.
pytestmark = [pytest.mark.end_to_end, pytest.mark.whole_machine, pytest.mark.acceptance]
PANELS = [(board, panel) for board in BOARDS for panel in board.panels()]
RANGE_SECONDS = 180.0
SOONER = {"[180s:1m]": "[180s:1s]", "[30d:1h]": "[3m:1s]"}
"""Replaces the steps of subqueries, whose points lie on whole minutes or hours otherwise: a test does not wait for one."""


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    """Two servers, for all queries."""
    need_tracing()
    need_command("prometheus", "prometheus")
    built()
    with watched(tmp_path_factory.mktemp("boards")) as found:
        yield found


def sooner(expression: str) -> str:
    for span, shorter in SOONER.items():
        expression = expression.replace(span, shorter)
    return expression


def needs_native(panel: Panel, query: Query) -> bool:
    """Whether classic histograms give no data."""
    return panel.kind == "heatmap" or "histogram_quantile(" in query.expr


class TestBoards:
    """Each panel, by each of its queries."""

    @pytest.mark.parametrize(("board", "panel"), PANELS, ids=lambda one: getattr(one, "uid", None) or one.title)
    def test_panel_has_data(self, servers: Servers, board: Board, panel: Panel) -> None:
        """With both kinds of histograms; quantiles and heatmaps need native ones. Legends name labels that exist."""
        if panel.title == "Exporters that are down":
            pytest.skip("no exporter is down here: tests/contract/test_board_faults.py has one")
        for query in panel.queries:
            asked = [servers.native] + [servers.classic] * (not needs_native(panel, query))
            for prometheus in asked:
                expression = sooner(filled_in(query.expr, RANGE_SECONDS))
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
