"""dashboards/: Grafana and its dashboard-linter accept every board, and every metric of a query exists.

The rules are those of dashboard-linter, which `make conformance` runs; these tests run without Go.
"""

from __future__ import annotations

import itertools
import re
from typing import Any

import pytest

from dashboards.__main__ import BOARDS
from dashboards.boards import Board, counted
from dashboards.panels import COLUMNS, Panel, Query
from docs.generate import ROOT
from exporter.catalog import COMMON_LABELS, METRICS, Kind
from tests.support.promtool import NEEDS_PROMTOOL, Expected, evaluated

EVERY_BOARD = pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.uid)
PANELS = [(board, panel) for board in BOARDS for panel in board.panels()]
EVERY_PANEL = pytest.mark.parametrize(
    ("board", "panel"), PANELS, ids=lambda one: getattr(one, "title", None) or one.uid
)
QUERIES = [(panel, query) for _, panel in PANELS for query in panel.queries]
EVERY_QUERY = pytest.mark.parametrize(("panel", "query"), QUERIES, ids=lambda one: getattr(one, "title", ""))

UNITS = {"short", "none", "percentunit", "s", "bytes", "Bps", "ops", "cps", "pps", "currencyUSD"} | {
    f"suffix:{one}" for one in ("GPUs", "CPUs", "threads", "tasks", "segments", "records")
}
"""The units that the boards use. Source: Grafana's valueFormats/categories.ts, and valueFormats.ts for suffixes."""

RECORDED = set(
    re.findall(r"record: (\S+)", "".join(path.read_text() for path in (ROOT / "alerts").glob("*.rules.yaml")))
)
PROMETHEUS_OWN = {"up", "process_cpu_seconds_total", "process_resident_memory_bytes"}
SELECTOR = re.compile(r"([a-zA-Z_:][\w:]*)\{([^}]*)\}")
LINT = ROOT / "dashboards" / "grafana" / ".lint"
COUNTERS = {metric.name for metric in METRICS if metric.kind is Kind.COUNTER} | {"process_cpu_seconds_total"}


def panels_of(document: dict[str, Any]) -> list[dict[str, Any]]:
    """All panels, with rows and the panels of collapsed rows."""
    return list(itertools.chain.from_iterable((one, *one.get("panels", ())) for one in document["panels"]))


def grids_of(document: dict[str, Any]) -> list[list[dict[str, Any]]]:
    """Panels that share a grid: those of the board as it opens, headings included, and those of each collapsed row."""
    visible = document["panels"]
    return [visible, *(one["panels"] for one in visible if one.get("panels"))]


def cells_of(panel: dict[str, Any]) -> set[tuple[int, int]]:
    """Columns and lines."""
    at = panel["gridPos"]
    return set(itertools.product(range(at["x"], at["x"] + at["w"]), range(at["y"], at["y"] + at["h"])))


def selectors(query: Query) -> list[tuple[str, str]]:
    """(metric, matchers)."""
    return SELECTOR.findall(query.expr)


class TestBoards:
    """Each board."""

    def test_uids_and_titles_are_unique(self) -> None:
        """Grafana allows 40 characters in a uid."""
        assert len({board.uid for board in BOARDS}) == len({board.title for board in BOARDS}) == len(BOARDS) == 7
        assert max(len(board.uid) for board in BOARDS) <= 40

    @EVERY_BOARD
    def test_numbers_of_panels_are_unique(self, board: Board) -> None:
        """Also in collapsed rows."""
        numbers = [panel["id"] for panel in panels_of(board.document())]

        assert len(numbers) == len(set(numbers))

    @EVERY_BOARD
    def test_panels_lie_side_by_side(self, board: Board) -> None:
        """No panel overlaps another one, or exceeds the width."""
        for grid in grids_of(board.document()):
            covered: set[tuple[int, int]] = set()
            for panel in grid:
                assert not cells_of(panel) & covered, panel["title"]
                assert panel["gridPos"]["x"] + panel["gridPos"]["w"] <= COLUMNS
                covered |= cells_of(panel)

    @EVERY_BOARD
    def test_the_grid_has_no_gaps(self, board: Board) -> None:
        """A gap looks like a missing panel. Panels of a collapsed row begin below its heading."""
        for grid in grids_of(board.document()):
            covered = set().union(*map(cells_of, grid))
            lines = [y for _, y in covered]

            assert covered == set(itertools.product(range(COLUMNS), range(min(lines), max(lines) + 1)))

    @EVERY_BOARD
    def test_a_collapsed_row_takes_one_line(self, board: Board) -> None:
        """Its panels lie below it after it is opened."""
        for row in board.document()["panels"]:
            if row["type"] == "row" and row["collapsed"]:
                assert min(panel["gridPos"]["y"] for panel in row["panels"]) == row["gridPos"]["y"] + 1

    @EVERY_BOARD
    def test_it_cannot_be_edited_in_place(self, board: Board) -> None:
        """Changes of a provisioned board would not last."""
        assert board.document()["editable"] is False

    @EVERY_BOARD
    def test_variables_are_the_customary_ones(self, board: Board) -> None:
        """Data source, job and instance come first. `job` is that of a scrape, not a training job."""
        variables = board.document()["templating"]["list"]
        assert variables[1]["label"] == "Scrape job"
        more = ["node", "namespace", "pod", "container", "rank"] if board.is_of_workloads else []

        assert [one["name"] for one in variables] == ["datasource", "job", "instance", "cluster", *more]
        assert all(one["multi"] and one["includeAll"] and one["refresh"] == 2 for one in variables[1:])
        assert [one["allValue"] for one in variables[1:3]] == [".+", ".+"]

    def test_links_lead_to_boards(self) -> None:
        """/d/UID."""
        texts = "".join(str(board.document()) for board in BOARDS)

        assert set(re.findall(r"/d/([\w-]+)", texts)) <= {board.uid for board in BOARDS}


class TestPanels:
    """Each panel."""

    @EVERY_PANEL
    def test_it_has_a_title_and_a_description(self, board: Board, panel: Panel) -> None:
        """The description is a sentence."""
        assert board.title
        assert panel.title
        assert re.fullmatch(r".+[.!?]", panel.description)

    @EVERY_PANEL
    def test_it_says_why_it_is_empty(self, board: Board, panel: Panel) -> None:
        """`No data` is the same for a healthy node and a broken query."""
        assert panel.defaults["noValue"], board.title

    @EVERY_PANEL
    def test_numbers_of_gpus_cpus_and_threads_have_their_unit(self, board: Board, panel: Panel) -> None:
        """`short` says nothing, and abbreviates 1,000."""
        said = re.search(
            r"[Aa]s a number of (GPUs|CPUs|threads)|(?:Threads|GPUs|Tasks) .* at a time", panel.description
        )

        assert not said or panel.unit.startswith("suffix:"), board.title

    @EVERY_PANEL
    def test_its_units_are_known_to_grafana(self, board: Board, panel: Panel) -> None:
        """Those of a table's columns as well."""
        columns = [p["value"] for one in panel.overrides for p in one["properties"] if p["id"] == "unit"]

        assert {panel.unit, *columns} <= UNITS, board.title

    @EVERY_PANEL
    def test_its_columns_are_labels_or_values(self, board: Board, panel: Panel) -> None:
        """The columns of a table."""
        labels = {
            *COMMON_LABELS,
            "instance",
            "job",
            "cluster",
            "training_job",
            *(label for one in METRICS for label in one.labels),
        }
        values = {"Value", *(f"Value #{chr(ord('A') + place)}" for place in range(len(panel.queries)))}
        for one in panel.transformations:
            named = set(one["options"].get("include", {}).get("names", ()))
            assert named <= labels | values, board.title


class TestQueries:
    """Each query."""

    @EVERY_QUERY
    def test_its_metrics_exist(self, panel: Panel, query: Query) -> None:
        """They are exported, recorded by the rules of alerts/, or Prometheus' own."""
        exported = {metric.name + suffix for metric in METRICS for suffix in ("", "_bucket", "_sum", "_count")}
        named = {metric for metric, _ in selectors(query)}

        assert named, panel.title
        assert named <= exported | RECORDED | PROMETHEUS_OWN

    @EVERY_QUERY
    def test_every_selector_uses_the_variables(self, panel: Panel, query: Query) -> None:
        """Job, instance and cluster."""
        for metric, matchers in selectors(query):
            assert matchers.startswith('job=~"$job", instance=~"$instance", cluster=~"$cluster"'), (panel.title, metric)

    @EVERY_QUERY
    def test_its_range_is_one_of_grafanas_variables(self, panel: Panel, query: Query) -> None:
        """So that it suits every scrape interval. The budget is of thirty days."""
        ranges = set(re.findall(r"\[([^\]]+)\]", query.expr))
        budget = {"30d:1h"} if panel.title == "Lost in 30 days" else set()

        assert ranges <= {"$__rate_interval", "$__range", "$__range:1m"} | budget, panel.title

    @EVERY_QUERY
    def test_counters_are_used_with_rate_or_increase(self, panel: Panel, query: Query) -> None:
        """Except for open collectives, which are the difference of two counters."""
        if panel.title == "Open collectives":
            return
        for metric, _ in selectors(query):
            if metric in COUNTERS:
                assert re.search(rf"\b(rate|increase)\({metric}\{{", query.expr), panel.title

    def test_every_other_use_of_a_counter_is_excused_to_the_linter(self) -> None:
        """And of no other."""
        excused = re.findall(r"- dashboard: (.+)\n +panel: (.+)", LINT.read_text(encoding="utf-8"))
        counting = {
            (board.title, panel.title)
            for board, panel in PANELS
            if any("max_over_time(" in query.expr for query in panel.queries)
        }

        assert len(excused) == len(set(excused))
        assert set(excused) == counting | {("GPU stalls / Ranks", "Open collectives")}


@NEEDS_PROMTOOL
class TestCounted:
    """Events of the last ten minutes as Prometheus counts them: a scrape every minute, the last at minute 30."""

    @pytest.mark.parametrize(
        ("samples", "events"),
        [
            ("0x30", 0),
            ("3x30", 0),
            ("_x25 1x5", 1),
            ("_x25 1 2 2 2 4 7", 7),
            ("0x25 0 1 1 1 1 1", 1),
            ("5x25 6 6 6 7 7 7", 2),
            ("_x22 0 1 2 stale", 2),
            ("0 1 1x20 stale", 0),
            ("5x24 6 0 0 1 1 3", 4),
            ("7x20 1 1 2 2 2 2 2 2 2 2", 2),
        ],
        ids=(
            *("none", "none lately", "appears with the first", "appears with the first of several", "begins at 0"),
            *("goes on", "has ended", "ended before", "restarted", "restarted at the beginning"),
        ),
    )
    def test_events_are_counted_exactly(self, samples: str, events: int) -> None:
        """Whether or not the counter began at 0."""
        expression = f"sum {counted('rare_total', '10m')} or vector(0)"

        assert evaluated({"rare_total": samples}, expression, Expected("30m", events)) == ""
