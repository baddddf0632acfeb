"""The page of a workload, read without scripts."""

from __future__ import annotations

from pathlib import Path

import pytest

from exporter.history.scope import EVERYTHING, Scope
from exporter.serve.pages.registry import WORKLOAD_NAME, rendered
from exporter.serve.tools.failure import UnknownName
from tests.support.html_page import HtmlPage
from tests.support.investigated import an_hour, two_teams


def workload(path: Path, text: str, scope: Scope = EVERYTHING) -> HtmlPage:
    return HtmlPage(rendered(WORKLOAD_NAME, path, scope, {"since": "1h", "workload": text}))


class TestWorkload:
    def test_time_by_cause_and_culprit(self, tmp_path: Path) -> None:
        """Six windows, each with 0.9 s to stress-ng and 0.1 s to a lock."""
        shown = workload(an_hour(tmp_path), "rank=3").texts("td")

        assert {"stress-ng", "5.4 s", "9.0 %"} <= set(shown)
        assert {"600 ms", "1.0 %"} <= set(shown)

    def test_calls_and_lines_of_python(self, tmp_path: Path) -> None:
        page = workload(an_hour(tmp_path), "rank=3")

        assert "cudaStreamSynchronize" in page.texts("th")
        assert any("train.py:142" in one for one in page.texts("th"))

    def test_errors_are_counted(self, tmp_path: Path) -> None:
        """A failure in each of six windows."""
        assert "6" in workload(an_hour(tmp_path), "rank=4").texts("td")

    def test_form_of_the_time_span_keeps_the_workload(self, tmp_path: Path) -> None:
        fields = workload(an_hour(tmp_path), "rank=3").all("input")

        assert {"type": "hidden", "name": "workload", "value": "rank=3"} in fields

    @pytest.mark.parametrize("text", ["", "rank=99"])
    def test_unknown_one_is_not_found(self, tmp_path: Path, text: str) -> None:
        with pytest.raises(UnknownName):
            workload(an_hour(tmp_path), text)

    def test_one_of_another_team_is_not_found(self, tmp_path: Path) -> None:
        with pytest.raises(UnknownName):
            workload(two_teams(tmp_path), "rank=4", Scope(namespaces=frozenset(("team-a",))))
