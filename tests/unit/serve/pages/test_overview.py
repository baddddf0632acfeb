"""The first page, read without scripts."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from exporter.errors import BadInput
from exporter.history.scope import EVERYTHING, Scope
from exporter.serve.pages.registry import CHAIN, OVERVIEW, WORKLOAD_NAME, rendered
from exporter.serve.tools.registry import Offer
from tests.support.history import SECOND
from tests.support.hostile_files import make_history
from tests.support.html_page import HtmlPage
from tests.support.investigated import an_hour, two_teams
from tests.support.many_ranks import HOSTILE, many_ranks


def overview(path: Path, scope: Scope = EVERYTHING, **arguments: str) -> HtmlPage:
    return HtmlPage(rendered(OVERVIEW, path, scope, {"since": "1h", **arguments}))


class TestVerdict:
    def test_it_is_the_heading_in_the_words_of_explain(self, tmp_path: Path) -> None:
        path = an_hour(tmp_path)
        said = Offer().tool("explain").answer(path, EVERYTHING, {"since": "1h"})["chains"][0]
        (heading,) = overview(path).texts("h1")

        assert heading.partition(" (")[0] == said["verdict"].partition(" (")[0]
        assert heading.startswith("rank 3 (pod trainer-0) loses 46 % of its time to cpu_contention, since ")

    def test_remedy_and_its_commands_stand_below(self, tmp_path: Path) -> None:
        page = overview(an_hour(tmp_path))

        assert "stress-ng is using the job's CPUs." in page.text
        assert page.texts("code") == ["taskset -acp 0-3 100", "renice -n 19 -p 777"]

    def test_what_was_known_then(self, tmp_path: Path) -> None:
        """The chain opened 30 s ago. The span stays in every link, and nothing is updated."""
        page = overview(an_hour(tmp_path), at="1m")

        assert "Nothing is slow now." in page.text
        assert page.texts("h2")[0] == "Open chains"
        assert "No chain is open." in page.text
        assert all("until=1m" in one for one in page.links if one.startswith("/chains/"))
        assert "data-live" not in page.all("body")[0]


class TestChains:
    def test_open_and_past_ones(self, tmp_path: Path) -> None:
        links = overview(an_hour(tmp_path)).links

        assert {"/chains/11111111?since=1h", "/chains/22222222?since=1h"} <= set(links)

    def test_scope_hides_those_of_others(self, tmp_path: Path) -> None:
        page = overview(two_teams(tmp_path), Scope(namespaces=frozenset(("team-a",))))

        assert "/chains/11111111?since=1h" in page.links
        assert "trainer-4" not in page.text
        assert not any("22222222" in one or "33333333" in one for one in page.links)


class TestWorkloads:
    def test_each_has_its_figures(self, tmp_path: Path) -> None:
        """Six windows of 500 steps of 20 ms; a tenth of the time of rank 3 is lost."""
        page = overview(an_hour(tmp_path))

        assert {"3,000", "20.0 ms", "10 %"} <= set(page.texts("td"))

    def test_256_ranks_are_a_grid_and_folded_rows(self, tmp_path: Path) -> None:
        page = overview(many_ranks(tmp_path, ranks=256, windows=2))
        (grid,) = [one for one in page.all("ol") if one["class"] == "grid"]

        assert grid["aria-label"]
        assert len({one for one in page.links if one.startswith("/workload?")}) == 256
        assert page.texts("summary") == ["224 more"]


class TestNothing:
    def test_empty_history_is_a_page_with_the_reason(self, tmp_path: Path) -> None:
        path = tmp_path / "history.sqlite"
        make_history(path, now_unix_ns=time.time_ns() - 24 * 3600 * SECOND)
        page = overview(path, since="1m")

        assert "No process made a traced call" in page.text
        assert "workloads" in page.texts("strong")

    def test_bad_span_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(BadInput):
            overview(an_hour(tmp_path), since="soon")


class TestHostileNames:
    @pytest.mark.parametrize(
        ("name", "more"),
        [(OVERVIEW, {}), (CHAIN, {"chain_id": "1111"}), (WORKLOAD_NAME, {"workload": "pid=1003"})],
    )
    def test_name_of_a_pod_is_text(self, tmp_path: Path, name: str, more: dict[str, str]) -> None:
        page = HtmlPage(rendered(name, many_ranks(tmp_path, ranks=8, windows=2), EVERYTHING, {"since": "1h", **more}))

        assert HOSTILE in page.text
        assert page.all("img") == []

    @pytest.mark.parametrize(
        ("name", "more"),
        [(OVERVIEW, {}), (CHAIN, {"chain_id": "1111"}), (WORKLOAD_NAME, {"workload": "pid=1003"})],
    )
    def test_nothing_runs_or_styles_in_the_page(self, tmp_path: Path, name: str, more: dict[str, str]) -> None:
        """The policy of the page would refuse it."""
        page = HtmlPage(rendered(name, many_ranks(tmp_path, ranks=8, windows=2), EVERYTHING, {"since": "1h", **more}))

        assert [one.get("src", "")[:18] for one in page.all("script")] == ["/static/script.js?"]
        assert page.all("style") == []
        assert not [name for _, one in page.elements for name in one if name == "style" or name.startswith("on")]
