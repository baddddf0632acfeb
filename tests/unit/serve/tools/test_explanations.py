"""Tools about chains."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from exporter.errors import BadInput, NotPossibleHere
from exporter.history.scope import EVERYTHING, Scope
from exporter.python.call_site import LINES
from exporter.serve.tools.failure import UnknownName
from exporter.serve.tools.registry import Offer
from tests.support.investigated import STACK, an_hour, two_teams

TEAM_A = Scope(namespaces=frozenset(("team-a",)))


def ask(name: str, path: Path, scope: Scope = EVERYTHING, /, **arguments: Any) -> dict[str, Any]:
    return Offer().tool(name).answer(path, scope, arguments)


class TestExplain:
    def test_open_chain_comes_first_with_cause_culprit_and_remedy(self, tmp_path: Path) -> None:
        found = ask("explain", an_hour(tmp_path))
        worst = found["chains"][0]

        assert found["status"] == "slow"
        assert found["summary"] == worst["verdict"]
        assert (worst["state"], worst["cause"], worst["culprits"][0]["name"]) == ("open", "cpu_contention", "stress-ng")
        assert worst["remedy"].startswith("stress-ng is using")
        assert found["next"] == {"tool": "episode", "arguments": {"chain_id": worst["chain_id"]}}

    def test_lines_of_python_stand_in_it(self, tmp_path: Path) -> None:
        (line,) = ask("explain", an_hour(tmp_path))["chains"][0]["lines"]

        assert line["operation"] == "cudaStreamSynchronize"
        assert "train.py:142" in line["place"]

    def test_lines_with_most_time_stand_in_it(self, tmp_path: Path) -> None:
        """The first three; evidence about stuck threads is in the episode alone."""
        lines = [f"  between calls: {count} of 25 samples, at load (train.py:{count})" for count in (9, 8, 7, 6)]
        found = ask("explain", an_hour(tmp_path, (LINES, *lines)))["chains"][0]
        stuck = ask("explain", an_hour(tmp_path / "stuck"))["chains"][0]

        assert found["lines_with_most_time"] == [line.strip() for line in lines[:3]]
        assert stuck["lines_with_most_time"] == []

    def test_what_was_known_then(self, tmp_path: Path) -> None:
        """The chain opened 30 s ago."""
        found = ask("explain", an_hour(tmp_path), at="1m")

        assert found["status"] == "was_slow"

    def test_scope_hides_chains_of_others(self, tmp_path: Path) -> None:
        found = ask("explain", two_teams(tmp_path), TEAM_A)

        assert [one["chain_id"] for one in found["chains"]] == ["11111111"]
        assert found["workloads"] == 1
        assert "team-b" not in str(found)
        assert "trainer-4" not in str(found)

    @pytest.mark.parametrize("arguments", [{"since": "soon"}, {"at": "tomorrow"}, {"workload": "colour=red"}])
    def test_mistake_is_bad_input(self, tmp_path: Path, arguments: dict[str, str]) -> None:
        with pytest.raises(BadInput):
            ask("explain", an_hour(tmp_path), **arguments)

    def test_missing_history_is_not_possible(self, tmp_path: Path) -> None:
        with pytest.raises(NotPossibleHere, match="no history"):
            ask("explain", tmp_path / "none.sqlite")


class TestEpisode:
    def test_has_evidence_labels_and_course(self, tmp_path: Path) -> None:
        path = an_hour(tmp_path)
        chain_id = ask("explain", path)["chains"][0]["chain_id"]
        found = ask("episode", path, chain_id=chain_id)
        chain = found["chain"]

        assert chain["evidence"] == list(STACK)
        assert (chain["node"], chain["rank"], chain["pid"]) == ("gpu7", "3", 100)
        assert [one["change"] for one in found["course"]] == ["opened", "evidence"]
        assert found["process"]["steps"] == 2500  # of the five windows that ended since it began, and one before
        assert found["next"] == {"tool": "stacks", "arguments": {"chain_id": chain["chain_id"][:8]}}

    def test_resolved_chain_is_found(self, tmp_path: Path) -> None:
        found = ask("episode", an_hour(tmp_path), chain_id="2222")

        assert found["chain"]["state"] == "resolved"
        assert [one["change"] for one in found["course"]] == ["opened", "resolved"]

    @pytest.mark.parametrize("chain_id", ["222", "ffff", ""])
    def test_unknown_chain_is_not_found_and_known_ones_are_named(self, tmp_path: Path, chain_id: str) -> None:
        """Also one that is too short to say which."""
        with pytest.raises(UnknownName) as refused:
            ask("episode", an_hour(tmp_path), chain_id=chain_id)

        assert "22222222 (cpu_contention)" in refused.value.remedy

    def test_chain_of_others_is_not_found(self, tmp_path: Path) -> None:
        with pytest.raises(UnknownName) as refused:
            ask("episode", two_teams(tmp_path), TEAM_A, chain_id="22222222")

        assert "22222222 (" not in refused.value.remedy


class TestCompare:
    def test_workload_that_is_new_is_listed(self, tmp_path: Path) -> None:
        """The minute before the last one has no windows."""
        found = ask("compare", an_hour(tmp_path), since="1m")

        assert {(one["rank"], one["is_in_earlier"], one["is_in_later"]) for one in found["workloads"]} == {
            ("3", False, True),
            ("4", False, True),
        }

    def test_nothing_differs_between_equal_halves(self, tmp_path: Path) -> None:
        found = ask("compare", an_hour(tmp_path), since="20s")

        assert found["compared"] == 2
        assert found["workloads"] == []

    def test_scope_hides_workloads_of_others(self, tmp_path: Path) -> None:
        found = ask("compare", two_teams(tmp_path), TEAM_A, since="1m")

        assert [one["rank"] for one in found["workloads"]] == ["3"]
