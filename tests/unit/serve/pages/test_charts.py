"""Charts: positions are shares of the width."""

from __future__ import annotations

import pytest

from exporter.serve.pages.charts import ChainLane, ChartSpan, bar, colour_of, lanes, legend, stacked
from tests.support.history import NOON, SECOND
from tests.support.html_page import HtmlPage

MINUTE = 60 * SECOND
HOUR = ChartSpan(NOON - 3600 * SECOND, NOON)


def rectangles(markup: str) -> list[dict[str, str]]:
    return HtmlPage(markup.encode()).all("rect")


class TestBar:
    def test_widths_are_shares_of_the_total(self) -> None:
        _track, first, second = rectangles(bar((("cpu_contention", 0.3), ("lock", 0.1)), 0.4))

        assert (first["x"], first["width"]) == ("0.00%", "75.00%")
        assert (second["x"], second["width"]) == ("75.00%", "25.00%")

    def test_shares_never_leave_it(self) -> None:
        """What was lost before a window may be decided in it."""
        found = rectangles(bar((("lock", 3.0), ("network", 1.0)), 1.0))

        assert [one["width"] for one in found] == ["100%", "100.00%"]

    def test_nothing_lost_is_an_empty_bar(self) -> None:
        assert len(rectangles(bar((("lock", 0.0),), 0.0))) == 1


class TestLanes:
    def test_chain_stands_at_its_time(self) -> None:
        lane = ChainLane("rank 3", NOON - 1800 * SECOND, NOON - 900 * SECOND, "high", "/chains/1")
        page = HtmlPage(lanes([lane], HOUR).encode())

        assert (page.all("rect")[0]["x"], page.all("rect")[0]["width"]) == ("50.00%", "25.00%")
        assert [one["href"] for one in page.all("a")] == ["/chains/1"]

    def test_chain_that_began_before_begins_at_the_edge(self) -> None:
        (found,) = rectangles(lanes([ChainLane("", NOON - 9000 * SECOND, NOON, "low", "/")], HOUR))

        assert (found["x"], found["width"]) == ("0.00%", "100.00%")

    def test_moment_is_seen(self) -> None:
        """A crash takes no time."""
        (found,) = rectangles(lanes([ChainLane("", NOON, NOON, "critical", "/")], HOUR))

        assert found["width"] == "0.40%"

    @pytest.mark.parametrize(
        ("began_minutes", "until_minutes", "x", "anchor"),
        [(10, 20, "33.33%", "start"), (40, 50, "66.67%", "end"), (20, 38, "63.33%", "start")],
    )
    def test_name_stands_beside_it_where_there_is_more_room(
        self, began_minutes: int, until_minutes: int, x: str, anchor: str
    ) -> None:
        """Minutes of the hour; the text is read on the ground of the page."""
        start_ns = NOON - 3600 * SECOND
        lane = ChainLane("rank 3", start_ns + began_minutes * MINUTE, start_ns + until_minutes * MINUTE, "high", "/")
        name = next(one for one in HtmlPage(lanes([lane], HOUR).encode()).all("text") if "dx" in one)

        assert (name["x"], name["text-anchor"]) == (x, anchor)

    def test_name_within_it_ends_with_it(self) -> None:
        """Dark text of a bar would not be seen beside it."""
        lane = ChainLane("rank 3", NOON - 3600 * SECOND, NOON - 1200 * SECOND, "high", "/")
        page = HtmlPage(lanes([lane], HOUR).encode())

        assert [(one["x"], one["width"]) for one in page.all("svg") if "x" in one] == [("0.00%", "66.67%")]
        assert [one.get("class") for one in page.all("text")].count("over") == 1


class TestStacked:
    def test_causes_stand_on_each_other_with_the_largest_below(self) -> None:
        columns = [(NOON - 60 * SECOND, {"lock": 0.1, "network": 0.2})]
        below, above = rectangles(stacked(columns, HOUR, 60 * SECOND))

        assert below["class"] == colour_of("network")
        assert (below["y"], below["height"]) == ("72.0", "48.0")  # of 120, at a scale of 50 %
        assert (above["y"], above["height"]) == ("48.0", "24.0")

    def test_many_gpus_have_a_larger_scale(self) -> None:
        page = HtmlPage(stacked([(NOON - 60 * SECOND, {"lock": 7.0})], HOUR, 60 * SECOND).encode())

        assert "1000 %" in page.texts("text")


class TestLegend:
    def test_causes_of_one_colour_share_an_entry(self) -> None:
        page = HtmlPage(legend(["cpu_contention", "cpu_oversubscribed", "lock"]).encode())

        assert page.texts("li") == ["cpu_contention, cpu_oversubscribed", "lock"]
