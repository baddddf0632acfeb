"""Links of alerts to a user's own copy of the runbook."""

from __future__ import annotations

import pytest

from exporter.assets.runbook import checked, linked
from exporter.errors import BadInput

RULE = b"""\
      - alert: GpuStallDiskErrors
        annotations:
          runbook_url: https://example.com/alerts/runbook.md#gpustalldiskerrors
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
