"""Tables of a page."""

from __future__ import annotations

from exporter.serve.pages.tables import TableColumn, facts, table
from tests.support.html_page import HtmlPage

COLUMNS = (TableColumn("Name"), TableColumn("Calls", is_number=True))


class TestTable:
    def test_screen_reader_has_caption_and_headings(self) -> None:
        page = HtmlPage(table("Calls", COLUMNS, [("a", "1")]).encode())

        assert page.texts("caption") == ["Calls"]
        assert [one["scope"] for one in page.all("th")] == ["col", "col", "row"]

    def test_further_rows_are_folded(self) -> None:
        page = HtmlPage(table("Calls", COLUMNS, [(str(number), "1") for number in range(256)]).encode())

        assert page.texts("summary") == ["224 more"]
        assert page.texts("th")[-1] == "255"

    def test_rows_that_are_left_out_are_counted(self) -> None:
        page = HtmlPage(table("Calls", COLUMNS, [(str(number), "1") for number in range(600)]).encode())

        assert "88 further ones are left out" in page.text

    def test_empty_one_says_why(self) -> None:
        assert table("Calls", COLUMNS, [], "No call.") == '<p class="empty">No call.</p>'


class TestFacts:
    def test_unknown_ones_are_left_out(self) -> None:
        page = HtmlPage(facts((("Rank", "3"), ("Pod", ""), ("Node", None))).encode())

        assert page.texts("dt") == ["Rank"]
