"""prometheus_rule: rule files -> one PrometheusRule."""

from __future__ import annotations

import pytest

from exporter.errors import BadInput
from exporter.rules.kubernetes import prometheus_rule

LOCKS = """\
# Locks.
groups:
  - name: locks
    rules:
      - record: a:b:c
        expr: |2
            sum(x)

          or y
"""
DISKS = """\
groups:
  - name: disks
    rules: []
"""


class TestPrometheusRule:
    def test_groups_are_concatenated_and_indented(self) -> None:
        """With comments; block scalars keep their relative indentation."""
        assert prometheus_rule("all", "# Made.", [LOCKS, DISKS]) == (
            "# Made.\n"
            "apiVersion: monitoring.coreos.com/v1\n"
            "kind: PrometheusRule\n"
            "metadata:\n"
            "  name: all\n"
            "  labels: # add the labels that your Prometheus selects rules by, such as release: NAME for kube-prometheus-stack\n"
            "    app.kubernetes.io/name: gpu-stall-exporter\n"
            "    app.kubernetes.io/component: rules\n"
            "spec:\n"
            "  groups:\n"
            "    # Locks.\n"
            "    - name: locks\n"
            "      rules:\n"
            "        - record: a:b:c\n"
            "          expr: |2\n"
            "              sum(x)\n"
            "\n"
            "            or y\n"
            "    - name: disks\n"
            "      rules: []\n"
        )

    @pytest.mark.parametrize("text", ["", "rules: []\n", "version: 1\ngroups:\n  - name: x\n"])
    def test_other_text_is_refused(self, text: str) -> None:
        """Kubernetes would accept the object, and Prometheus would not."""
        with pytest.raises(BadInput, match="not a rule file"):
            prometheus_rule("all", "# Made.", [text])
