"""Lost GPU time over a span."""

from __future__ import annotations

from pathlib import Path

from exporter.history.scope import EVERYTHING
from exporter.serve.pages.lost_time import WINDOWS_MAX, lost_time_chart
from exporter.serve.tools.explanations import explained
from exporter.serve.tools.tool import ToolCall
from tests.support.html_page import HtmlPage
from tests.support.investigated import an_hour


def chart(path: Path, workload: str = "", windows_max: int = WINDOWS_MAX) -> HtmlPage:
    call = ToolCall(path, EVERYTHING, {"since": "1h", "at": "", "workload": workload})
    of = explained(call._replace(arguments={**call.arguments, "workload": ""}))
    return HtmlPage(lost_time_chart(call, of, windows_max).encode())


class TestChart:
    def test_each_interval_is_divided_by_what_was_recorded_in_it(self, tmp_path: Path) -> None:
        """Rank 3 loses 0.9 s and 0.1 s in each window of 10 s."""
        shown = chart(an_hour(tmp_path)).texts("title")

        assert shown
        assert {one.split(": ")[1] for one in shown} == {"cpu_contention 9.0 %", "lock 1.0 %"}

    def test_workload_has_its_own(self, tmp_path: Path) -> None:
        path = an_hour(tmp_path)

        assert chart(path, "rank=3").all("rect")
        assert chart(path, "rank=4").text == "No GPU time was lost in this time span."

    def test_span_that_takes_too_long_has_a_reason_instead(self, tmp_path: Path) -> None:
        """Six windows of each of two ranks."""
        page = chart(an_hour(tmp_path), windows_max=11)

        assert page.all("svg") == []
        assert page.text.startswith("Not drawn: the span has 12 windows")
