"""Links of alerts and boards to a user's own copy of the runbook."""

from __future__ import annotations

import re

import pytest

from exporter.assets.runbook import checked, linked
from exporter.assets.writing import Assets
from exporter.errors import BadInput

TO_THE_PROJECT = re.compile(rb"https?://[^\s\"]+/alerts/runbook\.md")
RULE = b"""\
      - alert: GpuStallDiskErrors
        annotations:
          runbook_url: https://example.com/alerts/runbook.md#gpustalldiskerrors
"""


BOARD = b"""\
  {"links": [
    {"title": "Runbook", "url": "https://example.com/blob/alerts/runbook.md"},
    {"title": "Chains", "url": "/d/gpustall-chains"}],
   "url": "https://example.com/blob/alerts/runbook.md#causes"}
"""


class TestLinked:
    def test_alert_keeps_its_heading(self) -> None:
        """Everything before it is replaced, and nothing else."""
        assert linked("alerts/block.rules.yaml", RULE, "https://wiki.example.com/gpus") == (
            b"      - alert: GpuStallDiskErrors\n"
            b"        annotations:\n"
            b"          runbook_url: https://wiki.example.com/gpus#gpustalldiskerrors\n"
        )

    def test_rules_of_the_operator_and_of_the_chart_are_rule_files(self) -> None:
        for name in ("alerts/prometheusrule.yaml", "deploy/helm/gpu-stall-exporter/files/prometheusrule.yaml"):
            assert b"https://wiki/x#gpustalldiskerrors" in linked(name, RULE, "https://wiki/x")

    def test_boards_lead_to_it_too(self) -> None:
        """With the heading that a link had; other links stay."""
        assert linked("dashboards/grafana/fleet.json", BOARD, "https://wiki.example.com/gpus") == (
            b'  {"links": [\n'
            b'    {"title": "Runbook", "url": "https://wiki.example.com/gpus"},\n'
            b'    {"title": "Chains", "url": "/d/gpustall-chains"}],\n'
            b'   "url": "https://wiki.example.com/gpus#causes"}\n'
        )

    def test_no_link_to_the_project_is_left_in_any_file(self) -> None:
        """Also in files that are added later: rules, boards, and the copies of both in the chart."""
        assets = Assets.of_installation()
        contents = {name: (assets.root / name).read_bytes() for name in assets.names}
        before = {name for name, content in contents.items() if TO_THE_PROJECT.search(content)}
        after = {name for name in before if TO_THE_PROJECT.search(linked(name, contents[name], "https://wiki/x"))}

        assert {
            "alerts/chains.rules.yaml",
            "alerts/prometheusrule.yaml",
            "dashboards/grafana/fleet.json",
            "deploy/helm/gpu-stall-exporter/files/dashboards/chains.json",
            "deploy/helm/gpu-stall-exporter/files/prometheusrule.yaml",
        } <= before
        assert after == set()

    def test_other_files_are_unchanged(self) -> None:
        assert linked("docs/deployment.md", RULE, "https://wiki/x") == RULE


class TestChecked:
    @pytest.mark.parametrize("url", ["https://wiki.example.com/gpu-stalls", "http://wiki:80/a?b=c&d=%20"])
    def test_url_is_accepted(self, url: str) -> None:
        assert checked(url) == url

    @pytest.mark.parametrize(
        "url",
        [
            "",
            "wiki",
            "ftp://wiki",
            "https://",
            "https://a#b",
            "https://a b",
            "https://a\\1",
            "https://a/{{ x }}",
            "https://a/$node",
            'https://a/"',
            "https://a\n",
        ],
    )
    def test_what_could_not_stand_in_a_rule_is_refused(self, url: str) -> None:
        """In one line with an example."""
        with pytest.raises(BadInput) as refused:
            checked(url)

        assert refused.value.one_line() == (
            "--runbook-url: want an http or https URL without #, such as https://wiki.example.com/gpu-stalls"
        )
