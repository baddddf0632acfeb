"""Prometheus rule files -> one PrometheusRule, the custom resource of the Prometheus operator.

In: texts of rule files. Out: YAML. The groups of a rule file are indented and put below `spec`; its lines are not parsed.
"""

from __future__ import annotations

from collections.abc import Iterable

from exporter.errors import BadInput

GROUPS = "groups:"
_HEAD = """\
{comment}
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: {name}
  labels: # add the labels that your Prometheus selects rules by, such as release: NAME for kube-prometheus-stack
    app.kubernetes.io/name: gpu-stall-exporter
    app.kubernetes.io/component: rules
spec:
  groups:
"""


def prometheus_rule(name: str, comment: str, rule_files: Iterable[str]) -> str:
    """comment: the first line, with `#`. Raises BadInput if a text is not a rule file."""
    return _HEAD.format(name=name, comment=comment) + "".join(map(_indented, rule_files))


def _indented(text: str) -> str:
    """The groups of a file, indented by two columns, after its leading comments."""
    above, found, groups = text.partition(f"{GROUPS}\n")
    if not found or any(line and not line.startswith("#") for line in above.splitlines()):
        raise BadInput("not a rule file: `groups:` must be the first line after comments")
    lines = [f"  {line}" if line else "" for line in above.splitlines()]
    return "\n".join(f"  {line}" if line else "" for line in [*lines, *groups.splitlines()]) + "\n"
