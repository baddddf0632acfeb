"""The page of a chain, read without scripts."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from exporter.history.scope import EVERYTHING, Scope
from exporter.serve.pages.registry import CHAIN, rendered
from exporter.serve.tools.failure import UnknownName
from tests.support.html_page import HtmlPage
from tests.support.investigated import STACK, an_hour, two_teams


def chain(path: Path, chain_id: str, scope: Scope = EVERYTHING) -> HtmlPage:
    return HtmlPage(rendered(CHAIN, path, scope, {"since": "1h", "chain_id": chain_id}))


class TestChain:
    def test_verdict_remedy_and_commands_come_first(self, tmp_path: Path) -> None:
        page = chain(an_hour(tmp_path), "1111")

        assert page.texts("h1")[0].startswith("rank 3 (pod trainer-0) loses 46 % of its time to cpu_contention")
        assert page.texts("code")[:2] == ["taskset -acp 0-3 100", "renice -n 19 -p 777"]

    def test_evidence_has_stacks_and_lines_of_python(self, tmp_path: Path) -> None:
        page = chain(an_hour(tmp_path), "1111")

        assert [one for one in page.texts("span") if one in STACK] == list(STACK)
        assert any("train.py:142" in one for one in page.texts("th"))

    def test_causes_and_culprits_have_shares(self, tmp_path: Path) -> None:
        shown = chain(an_hour(tmp_path), "1111").texts("td")

        assert {"97 %", "94 %", "4.0 %"} <= set(shown)

    def test_course_is_oldest_first(self, tmp_path: Path) -> None:
        shown = chain(an_hour(tmp_path), "2222").texts("td")

        assert shown.index("opened") < shown.index("resolved")

    def test_timeline_of_an_open_chain_ends_now(self, tmp_path: Path) -> None:
        """It began 30 s ago; a minute before is in it."""
        (link,) = [one for one, name in chain(an_hour(tmp_path), "1111").links.items() if name]

        asked = parse_qs(urlsplit(link).query)

        assert int(asked["since"][0].removesuffix("s")) >= 90
        assert asked["workload"] == ["pid=100,rank=3,pod=trainer-0,node=gpu7"]
        assert "at" not in asked

    def test_timeline_of_a_past_chain_ends_with_it(self, tmp_path: Path) -> None:
        """It lasted for 300 s."""
        (link,) = [one for one, name in chain(an_hour(tmp_path), "2222").links.items() if name]

        assert link.startswith("/api/v1/timeline?since=360s&at=")

    def test_missing_evidence_has_a_reason(self, tmp_path: Path) -> None:
        assert "No stack was collected" in chain(two_teams(tmp_path), "2222").text

    def test_chain_of_another_team_is_not_found(self, tmp_path: Path) -> None:
        with pytest.raises(UnknownName):
            chain(two_teams(tmp_path), "2222", Scope(namespaces=frozenset(("team-a",))))
