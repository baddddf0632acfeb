"""Chains as a table and as lanes of time."""

from __future__ import annotations

from exporter.causes import Cause
from exporter.explain.explanation import Explanation, explain
from exporter.history.run import RecordedEvent
from exporter.history.selection import Selection
from exporter.serve.pages.chain_tables import chain_lanes, chain_table
from exporter.serve.pages.span import PageSpan
from tests.support.history import NOON, SECOND, a_run, an_event, resolved
from tests.support.html_page import HtmlPage


def explained(*, is_live: bool = True) -> Explanation:
    """A chain that was open for 60 s, and one that has been open for 200 s."""
    past = an_event(10, chain_id="2" * 32, cause=Cause.CRASH, culprits=(), lost_share=0.0)
    events = [past, resolved(past, 60), an_event(0)]
    return explain(
        (a_run(seen_seconds=200 if is_live else 100),),
        [RecordedEvent(1, one) for one in events],
        [],
        selection=Selection(),
        since_unix_ns=NOON - 100 * SECOND,
        now_unix_ns=NOON + 200 * SECOND,
    )


def shown(of: Explanation) -> HtmlPage:
    return HtmlPage(chain_table("Chains", of.chains, of, PageSpan("1h"), "None.").encode())


class TestTable:
    def test_row_leads_to_the_page_of_the_chain(self) -> None:
        assert set(shown(explained()).links) == {"/chains/11111111?since=1h", "/chains/22222222?since=1h"}

    def test_figures(self) -> None:
        cells = shown(explained()).texts("td")

        assert {"3 min 20 s", "46 %", "stress-ng", "rank 3 (pod trainer-0)"} <= set(cells)

    def test_what_a_chain_does_not_have_is_a_dash(self) -> None:
        """A crash loses no time and has no culprit."""
        assert shown(explained()).texts("td").count("-") == 4

    def test_end_that_is_not_known_is_shown_as_such(self) -> None:
        """The exporter stopped while the chain was open."""
        assert "1 min 40 s, end not known" in shown(explained(is_live=False)).texts("td")


class TestLanes:
    def test_each_chain_has_one(self) -> None:
        of = explained()
        page = HtmlPage(str(chain_lanes(of.chains, of, PageSpan("1h"))).encode())

        assert len(page.all("a")) == 2
        assert {one["x"] for one in page.all("rect")} == {"33.33%", "36.67%"}

    def test_none_without_chains(self) -> None:
        of = explained()

        assert chain_lanes((), of, PageSpan()) is None
