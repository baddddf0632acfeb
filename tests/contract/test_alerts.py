"""alerts/: Prometheus accepts the rules, each alert has tests and a section of the runbook, and every metric is exported."""

from __future__ import annotations

import re
import shlex
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from dashboards.__main__ import BOARDS
from docs.generate import ROOT
from exporter.catalog import COMMON_LABELS, METRICS
from exporter.causes import Cause
from exporter.history.selection import Selection
from exporter.model import Identity
from tests.support.patience import PATIENCE_SECONDS
from tests.support.promtool import NEEDS_PROMTOOL, PROMTOOL

ALERTS = ROOT / "alerts"
RULE_FILES = sorted(ALERTS.glob("*.rules.yaml"))
TESTS = sorted((ROOT / "tests" / "alerts").glob("*.test.yaml"))
RUNBOOK = (ALERTS / "runbook.md").read_text(encoding="utf-8")
RULES = "".join(path.read_text(encoding="utf-8") for path in RULE_FILES)
NAMES = re.findall(r"^ +- alert: (\w+)$", RULES, flags=re.M)

EXPECTED = [
    alert
    for path in TESTS
    for test in yaml.safe_load(path.read_text(encoding="utf-8"))["tests"]
    for expected in test.get("alert_rule_test", [])
    for alert in expected["exp_alerts"]
    if "explain" in alert.get("exp_annotations", {})
]
"""Alerts that the rules fire in tests/alerts, as promtool has checked them."""

CAUSES = RUNBOOK.partition("\n## Causes\n")[2].partition("\n## ")[0].partition("\n### ")[0]

SUFFIXES = ("_bucket", "_sum", "_count", "")


def rule(name: str) -> str:
    """The text of one alert."""
    (text,) = re.findall(rf"^ +- alert: {name}\n.*?runbook_url", RULES, flags=re.M | re.S)
    return str(text)


def promtool(*arguments: str | Path) -> None:
    """Fails if promtool reports a problem."""
    assert PROMTOOL is not None
    done = subprocess.run([PROMTOOL, *arguments], capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@NEEDS_PROMTOOL
class TestRules:
    """promtool, of Prometheus itself, checks them."""

    @pytest.mark.parametrize("path", RULE_FILES, ids=lambda path: path.name)
    def test_prometheus_accepts_them(self, path: Path) -> None:
        """Its linter reports nothing."""
        promtool("check", "rules", "--lint=all", "--lint-fatal", path)

    @pytest.mark.parametrize("path", TESTS, ids=lambda path: path.name)
    def test_alerts_and_recordings_are_as_expected(self, path: Path) -> None:
        """For series that tests/alerts gives."""
        promtool("test", "rules", path)


class TestAlerts:
    """Each alert."""

    def test_names_are_unique(self) -> None:
        """There are more than ten."""
        assert len(NAMES) == len(set(NAMES)) > 10

    @pytest.mark.parametrize("name", NAMES)
    def test_it_is_tested_to_fire_and_to_stay_silent(self, name: str) -> None:
        """Both, in tests/alerts."""
        texts = "".join(path.read_text(encoding="utf-8") for path in TESTS)
        expected = re.findall(rf"alertname: {name}\n +exp_alerts:(.*)\n", texts)

        assert any(one.strip() == "" for one in expected), "never fires in a test"
        assert any(one.strip() == "[]" for one in expected), "is never silent in a test"

    @pytest.mark.parametrize("name", NAMES)
    def test_it_links_to_its_own_section_of_the_runbook(self, name: str) -> None:
        """The section has the meaning, what to check and what to do."""
        section = re.search(rf"^## {name}\n(.*?)(?=^## |\Z)", RUNBOOK, flags=re.M | re.S)

        assert f"runbook.md#{name.lower()}\n" in RULES
        assert section is not None
        assert "**Meaning.**" in section[1]
        assert re.search(r"\*\*First look( and first action)?\.\*\*", section[1])

    def test_runbook_has_no_section_of_a_removed_alert(self) -> None:
        """Its introduction is no section of an alert."""
        assert set(re.findall(r"^## (GpuStall\w+)$", RUNBOOK, flags=re.M)) == set(NAMES)

    def test_every_cause_has_a_row_of_what_to_do(self) -> None:
        """In the order of no list, but each once, and with an action."""
        rows = re.findall(r"^\| `(\w+)` \| (.+) \|$", CAUSES, flags=re.M)

        assert sorted(cause for cause, _ in rows) == sorted(cause.value for cause in Cause)
        assert all(len(action) > 10 for _, action in rows)

    @pytest.mark.parametrize("name", NAMES)
    def test_it_leads_to_a_board_with_its_variables(self, name: str) -> None:
        """`dashboard` is a path; the board knows each variable."""
        (path,) = re.findall(r"^          dashboard: (.+)$", rule(name), flags=re.M)
        (board,) = (board for board in BOARDS if path.startswith(f"/d/{board.uid}"))
        variables = {one["name"] for one in board.document()["templating"]["list"]}

        assert set(re.findall(r"var-(\w+)=", path)) <= variables

    @pytest.mark.parametrize("name", NAMES)
    def test_a_page_about_a_job_says_whose_it_is_and_how_to_explain_it(self, name: str) -> None:
        """Rank, container, pod, namespace and node, and what to run there; pages about machines have no rank."""
        text = rule(name)
        description = text.partition("description:")[2].partition("dashboard:")[0]
        if "$labels.rank" not in description:
            return

        assert {"container", "pod", "namespace", "node"} <= set(re.findall(r"\$labels\.(\w+)", description))
        assert "sudo /usr/local/bin/gpu-stall-exporter explain\n" in text
        assert "--field-selector spec.nodeName={{ $labels.node | reReplaceAll" in text

    @pytest.mark.parametrize("name", NAMES)
    def test_its_command_has_no_characters_that_a_shell_reads(self, name: str) -> None:
        """A tenant that is scraped chooses its labels: none stands in the command as it is."""
        command = rule(name).partition("explain:")[2].partition("dashboard:")[0]

        assert re.findall(r"\{\{ (?:with )?\$labels\.\w+ (?!\| reReplaceAll)", command) == []

    @pytest.mark.parametrize("alert", EXPECTED, ids=lambda one: one["exp_annotations"]["explain"][-60:])
    def test_its_command_selects_its_own_chain_or_workload(self, alert: dict[str, dict[str, str]]) -> None:
        """As our command line reads it: another job of the node may be worse. With a pod it runs in the exporter's pod."""
        labels, command = alert["exp_labels"], alert["exp_annotations"]["explain"]
        where, _, options = command.partition("gpu-stall-exporter explain ")
        known = dict(one.removeprefix("--").split("=", 1) for one in shlex.split(options))
        identity = Identity(*(labels.get(name, "") for name in COMMON_LABELS))

        assert where.startswith("kubectl " if "namespace" in labels or "pod" in labels else "ssh ")
        if "chain_id" in labels:
            assert known == {"chain": labels["chain_id"]}
        else:
            assert known.keys() == {"since", "workload"}
            assert Selection.of(known["workload"]).matches(identity, 0)
            assert not Selection.of(known["workload"]).matches(replace(identity, node="another"), 0)


class TestMetrics:
    """Names in rules and in the runbook."""

    def test_every_metric_is_exported_or_recorded(self) -> None:
        """Recorded by these rules."""
        exported = {metric.name + suffix for metric in METRICS for suffix in SUFFIXES}
        used = set(re.findall(r"(?<![:\w])gpustall_\w+(?![:\w])", RULES + RUNBOOK))

        assert used - exported == set()

    def test_every_recorded_series_that_is_used_is_recorded(self) -> None:
        """`level:metric:operation`."""
        recorded = set(re.findall(r"^ +- record: (\S+)$", RULES, flags=re.M))
        used = set(re.findall(r"(?<!record: )\b\w+:gpustall_\w+:\w+", RULES + RUNBOOK))

        assert used - recorded == set()

    def test_series_of_a_process_are_those_of_its_info_metric(self) -> None:
        """They are the labels over which GPUs are counted."""
        (info,) = (metric for metric in METRICS if metric.name == "gpustall_workload_info")

        for labels in re.findall(r"(?:count|group) without \(\s*(?:rank, )?(pid, [^)]*?)\s*\) \(", RULES):
            assert tuple(re.split(r",\s*", labels)) == info.labels
