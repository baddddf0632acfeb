"""Tools about the exporter itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from exporter.catalog import METRICS
from exporter.history.scope import EVERYTHING, Scope
from exporter.serve.tools.registry import Offer
from tests.support.investigated import an_hour, two_teams


def ask(name: str, path: Path, scope: Scope = EVERYTHING, /, **arguments: Any) -> dict[str, Any]:
    return Offer().tool(name).answer(path, scope, arguments)


class TestStatus:
    def test_says_that_the_exporter_records(self, tmp_path: Path) -> None:
        found = ask("status", an_hour(tmp_path))

        assert found["is_recording"] is True
        assert 0 <= found["last_written_seconds_ago"] < 60
        assert (found["version"], found["runs"], found["workloads"], found["open_chains"]) == ("1.0", 2, 2, 1)

    def test_scope_counts_its_own_alone(self, tmp_path: Path) -> None:
        found = ask("status", two_teams(tmp_path), Scope(namespaces=frozenset(("team-b",))))

        assert (found["workloads"], found["open_chains"]) == (1, 1)


class TestMetricsHelp:
    def test_all_words_must_be_there(self, tmp_path: Path) -> None:
        found = ask("metrics_help", tmp_path, search="lost culprit")

        assert "gpustall_culprit_seconds_total" in [one["name"] for one in found["metrics"]]
        assert found["metrics_in_all"] == len(METRICS)

    def test_unknown_word_finds_none(self, tmp_path: Path) -> None:
        assert ask("metrics_help", tmp_path, search="xyzzy")["metrics"] == []
